use std::fs;
use std::process::Command;
use std::time::Duration;

use encke_tests::bayeux::{BayeuxPolling, handshake, with_token};
use encke_tests::poll::PollClient;
use encke_tests::server::run_to_end;
use encke_tests::tokens::{IssuerKey, key_set};
use encke_tests::waiting::{TIMEOUT, eventually_within, until};
use encke_tests::{Backend, BackendReply, Client, EventStream, Launch, RunningServer};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::users::assert_user;

const OVERLOADED: u16 = 4005;
const UNAUTHORIZED: u16 = 4102;
const READ: &str = r#"encke_issuer_reads_total{outcome="read"}"#;
const FAILED: &str = r#"encke_issuer_reads_total{outcome="failed"}"#;

/// Makes the issuer publish these keys from now on.
fn publish(issuer: &Backend, keys: &[&IssuerKey]) {
    let set = key_set(keys.iter().copied());
    issuer.reply_with(move |_| BackendReply::json(&set));
}

fn issuer_of(keys: &[&IssuerKey]) -> Backend {
    let issuer = Backend::start();
    publish(&issuer, keys);
    issuer
}

fn trusting(issuer: &Backend) -> Launch {
    Launch::default().set(&format!("auth.jwks={}", issuer.url("/keys")))
}

/// Starts a server and waits until it has read the key set.
fn start(launch: Launch) -> RunningServer {
    let server = launch.start();
    await_reads(&server, READ, 1.0);
    server
}

#[track_caller]
fn await_reads(server: &RunningServer, series: &str, reads: f64) {
    until(format!("{reads} of {series}"), || server.admin.metrics().value(series) >= reads);
}

/// Returns a query with a token for alice.
fn alice(key: &IssuerKey) -> String {
    format!("token={}", key.sign(&json!({"sub": "alice", "channels": {"*": ["subscribe"]}})))
}

/// Sends a Bayeux handshake with a token for alice and returns the reply.
fn bayeux_handshake(server: &RunningServer, key: &IssuerKey) -> Value {
    let token = key.sign(&json!({"sub": "alice"}));
    BayeuxPolling::connect(server.public).reply(&with_token(handshake(), &token))
}

fn refresh(key: &IssuerKey) -> Value {
    json!({"id": 1, "refresh": {"token": key.sign(&json!({"sub": "alice"}))}})
}

#[test]
fn tokens_of_the_issuer_are_accepted_on_each_transport() {
    let (a, b, stranger) = (IssuerKey::generate("a"), IssuerKey::generate("b"), IssuerKey::generate("c"));
    let issuer = issuer_of(&[&a, &b]);
    let server = start(trusting(&issuer));
    for key in [&a, &b] {
        let mut client = Client::connect(server.public, &alice(key));
        assert_user(&server, &client.hello, "alice");
        assert_eq!(client.request(refresh(&a)), json!({"id": 1, "ok": {}}));
        EventStream::open(server.public, &format!("{}&channels=x", alice(key))).hello();
        let answer = PollClient::connect(server.public).get(&format!("{}&channels=x", alice(key))).json();
        assert!(answer[0]["hello"].is_object(), "{answer}");
        assert_eq!(bayeux_handshake(&server, key)["successful"], true);
    }
    // The server has just read the key set, which does not contain these keys.
    let forged = IssuerKey::generate("a");
    for key in [&stranger, &forged] {
        assert_eq!(Client::refusal_code(server.public, &alice(key)), UNAUTHORIZED);
        let query = format!("{}&channels=x", alice(key));
        assert_eq!(PollClient::connect(server.public).get(&query).status, 401);
    }
    assert_eq!(Client::refusal_code(server.public, ""), UNAUTHORIZED);
    let metrics = server.admin.metrics();
    let refusals = ["token_key", "token_signature", "issuer_keys"].map(|reason| metrics.refusals(reason));
    assert_eq!((refusals, metrics.value("encke_issuer_keys")), ([2.0, 2.0, 0.0], 2.0));
    let [asked] = &*issuer.requests() else { panic!("forged tokens cause another read") };
    assert_eq!(asked.path, "/keys");
}

#[test]
fn new_key_is_fetched_when_needed_and_removed_key_is_rejected() {
    let (old, new) = (IssuerKey::generate("old"), IssuerKey::generate("new"));
    let issuer = issuer_of(&[&old]);
    let server = start(trusting(&issuer));
    let mut client = Client::connect(server.public, &alice(&old));
    publish(&issuer, &[&new]);
    // The set is not read again within ten seconds of the last read.
    let mut refused = 0;
    let newcomer = eventually_within(3 * TIMEOUT, "the new key is accepted", || {
        match Client::try_connect(server.public, &alice(&new)) {
            Ok(client) => Some(client),
            Err(code) => {
                assert_eq!(code, UNAUTHORIZED);
                refused += 1;
                None
            }
        }
    });
    assert_user(&server, &newcomer.hello, "alice");
    assert_eq!(issuer.requests().len(), 2, "after {refused} refusals");
    assert_eq!(Client::refusal_code(server.public, &alice(&old)), UNAUTHORIZED);
    client.assert_refused(refresh(&old), "unauthorized");
    assert_eq!(client.request(refresh(&new))["ok"], json!({}), "the session is still open");
}

#[test]
fn client_waits_while_the_key_set_is_read() {
    let key = IssuerKey::generate("a");
    let issuer = Backend::start();
    let set = key_set([&key]);
    issuer.reply_with(move |_| BackendReply::json(&set).delayed_by(Duration::from_secs(1)));
    let server = trusting(&issuer).start();
    // The client waits for the issuer, which has not responded yet.
    let waiting = Client::connect(server.public, &alice(&key));
    assert_user(&server, &waiting.hello, "alice");
    assert_eq!(bayeux_handshake(&server, &key)["successful"], true);
    assert_eq!(issuer.requests().len(), 1);
}

#[test]
fn failing_issuer_leads_to_retries_and_known_keys_stay_valid() {
    let (known, new) = (IssuerKey::generate("known"), IssuerKey::generate("new"));
    let issuer = Backend::start();
    issuer.reply_with_status(503);
    let server = trusting(&issuer).start();
    await_reads(&server, FAILED, 1.0);
    assert_eq!(Client::refusal_code(server.public, &alice(&known)), OVERLOADED);
    assert_eq!(bayeux_handshake(&server, &known)["advice"]["reconnect"], "handshake");
    let nonsense = Client::refusal_code(server.public, "token=nonsense");
    assert_eq!(nonsense, UNAUTHORIZED, "the token is invalid with any key");
    assert!(server.admin.metrics().refusals("issuer_keys") >= 2.0);

    publish(&issuer, &[&known]);
    await_reads(&server, READ, 1.0);
    let mut client = Client::connect(server.public, &alice(&known));
    server.logs.await_line("issuer's keys are available again");

    for bad in [
        BackendReply::status(500),
        BackendReply { headers: format!("Location: {}\r\n", issuer.url("/x")), ..BackendReply::status(302) },
        BackendReply { status: 201, ..BackendReply::json(key_set([&new])) },
        BackendReply::json("<html>"),
        BackendReply::json(json!({"keys": []})),
        BackendReply::json(format!(r#"{{"more":"{}","keys":[]}}"#, "x".repeat(300_000))),
        BackendReply::status(0),
    ] {
        let failed = server.admin.metrics().value(FAILED);
        issuer.reply_with(move |_| bad.clone());
        server.signal(Signal::HUP);
        await_reads(&server, FAILED, failed + 1.0);
        assert_eq!(Client::refusal_code(server.public, &alice(&new)), OVERLOADED);
        client.assert_refused(refresh(&new), "unavailable");
        assert_eq!(client.request(refresh(&known))["ok"], json!({}));
    }
    assert!(issuer.requests().iter().all(|request| request.path == "/keys"), "a redirect was followed");
}

#[test]
fn key_set_file_is_read_again_on_sighup() {
    let (old, new) = (IssuerKey::generate("old"), IssuerKey::generate("new"));
    let directory = tempfile::TempDir::new().expect("a temporary directory");
    let path = directory.path().join("keys.json");
    let write = |text: &str| fs::write(&path, text).expect("the file can be written");
    write(&key_set([&old]).to_string());
    let server = start(Launch::with(&[&format!("auth.jwks={}", path.display()), "auth.audience=chat"]));
    let alice =
        |key: &IssuerKey| format!("token={}", key.sign(&json!({"sub": "alice", "aud": ["mail", "chat"]})));
    let _client = Client::connect(server.public, &alice(&old));
    for claims in [json!({"sub": "a"}), json!({"sub": "a", "aud": "mail"})] {
        let token = format!("token={}", old.sign(&claims));
        assert_eq!(Client::refusal_code(server.public, &token), UNAUTHORIZED);
    }
    assert_eq!(server.admin.metrics().refusals("token_claim"), 2.0);
    write(&key_set([&new]).to_string());
    server.signal(Signal::HUP);
    await_reads(&server, READ, 2.0);
    assert_eq!(server.admin.metrics().value("encke_issuer_keys"), 1.0);
    let _client = Client::connect(server.public, &alice(&new));
    assert_eq!(Client::refusal_code(server.public, &alice(&old)), UNAUTHORIZED);
    // The file is incomplete, as it is while being written.
    write(r#"{"keys":["#);
    server.signal(Signal::HUP);
    server.logs.await_line("is not a JSON Web Key Set");
    let _client = Client::connect(server.public, &alice(&new));
}

/// The key file is a pipe without a writer: reading it blocks until a writer opens it.
#[test]
fn blocking_key_set_file_does_not_block_the_server() {
    let (old, new) = (IssuerKey::generate("old"), IssuerKey::generate("new"));
    let directory = tempfile::TempDir::new().expect("a temporary directory");
    let path = directory.path().join("keys.json");
    fs::write(&path, key_set([&old]).to_string()).expect("the file can be written");
    let mut server = start(
        Launch::default().set(&format!("auth.jwks={}", path.display())).set("limits.handshake_timeout=4s"),
    );
    fs::remove_file(&path).expect("the file exists");
    assert!(Command::new("mkfifo").arg(&path).status().is_ok_and(|status| status.success()));
    server.signal(Signal::HUP);
    // Later attempts also fail while the first one is blocked.
    await_reads(&server, FAILED, 3.0);
    server.logs.await_line("reading it blocks");
    let _client = Client::connect(server.public, &alice(&old));
    assert_eq!(Client::refusal_code(server.public, &alice(&new)), OVERLOADED);
    let read = server.admin.metrics().value(READ);
    fs::write(&path, key_set([&new]).to_string()).expect("the server reads it");
    fs::remove_file(&path).expect("the pipe exists");
    fs::write(&path, key_set([&new]).to_string()).expect("the file can be written");
    server.signal(Signal::HUP);
    await_reads(&server, READ, read + 1.0);
    let _client = Client::connect(server.public, &alice(&new));
    server.stop();
}

#[test]
fn invalid_key_set_file_is_rejected_at_startup() {
    let directory = tempfile::TempDir::new().expect("a temporary directory");
    let path = directory.path().join("keys.json");
    fs::write(&path, r#"{"keys":[{"kty":"oct","kid":"s","k":"AAAA"}]}"#).expect("the file can be written");
    let useless =
        "contains no key that verifies RS256 or ES256: the key with kid `s` is for another algorithm";
    let missing = "missing.json: cannot be read: No such file";
    for (file, problem) in [("keys.json", useless), ("missing.json", missing)] {
        let jwks = format!("auth.jwks={}", directory.path().join(file).display());
        run_to_end(&["--set", &jwks], &[]).assert_failed(2, &["`auth.jwks`", problem]);
    }
}
