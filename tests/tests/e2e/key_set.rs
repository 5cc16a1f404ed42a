use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use encke_tests::admin::send_request;
use encke_tests::authority::Authority;
use encke_tests::bayeux::{BayeuxPolling, handshake, with_field};
use encke_tests::poll::PollClient;
use encke_tests::server::run_to_end;
use encke_tests::tokens::{IssuerKey, key_set};
use encke_tests::waiting::{TIMEOUT, eventually_within, until};
use encke_tests::{Backend, Client, EventStream, Launch, BackendReply, RunningServer};
use rustix::process::Signal;
use serde_json::{Value, json};

const OVERLOADED: u16 = 4005;
const UNAUTHORIZED: u16 = 4102;
const READ: &str = r#"encke_issuer_reads_total{outcome="read"}"#;
const FAILED: &str = r#"encke_issuer_reads_total{outcome="failed"}"#;

/// The issuer publishes these keys from here on.
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

/// A server that has read the set.
fn start(launch: Launch) -> RunningServer {
    let server = launch.start();
    await_reads(&server, READ, 1.0);
    server
}

#[track_caller]
fn await_reads(server: &RunningServer, series: &str, reads: f64) {
    until(format!("{reads} of {series}"), || server.admin.metrics().value(series) >= reads);
}

/// A query with a token of alice.
fn alice(key: &IssuerKey) -> String {
    format!("token={}", key.sign(&json!({"sub": "alice", "channels": {"*": ["subscribe"]}})))
}

/// Whether a command is refused with this code.
#[track_caller]
fn assert_refused(client: &mut Client, command: &Value, code: &str) {
    assert_eq!(client.request(&command.to_string())["error"]["code"], code);
}

/// The reply to a handshake of Bayeux.
fn shake_hands(server: &RunningServer, key: &IssuerKey) -> Value {
    let token = key.sign(&json!({"sub": "alice"}));
    BayeuxPolling::connect(server.public).reply(&with_field(
        handshake(),
        "ext",
        json!({"authentication": {"token": token}}),
    ))
}

fn refresh(key: &IssuerKey) -> Value {
    json!({"id": 1, "refresh": {"token": key.sign(&json!({"sub": "alice"}))}})
}

#[test]
fn tokens_of_the_issuer_are_good_on_each_transport() {
    let (a, b, stranger) = (IssuerKey::generate("a"), IssuerKey::generate("b"), IssuerKey::generate("c"));
    let issuer = issuer_of(&[&a, &b]);
    let server = start(trusting(&issuer));
    for key in [&a, &b] {
        let mut client = Client::connect(server.public, &alice(key));
        assert_eq!(server.admin.session(&client.hello.session)["user"], "alice");
        assert_eq!(client.request(&refresh(&a).to_string()), json!({"id": 1, "ok": {}}));
        EventStream::open(server.public, &format!("{}&channels=x", alice(key))).hello();
        let answer = PollClient::connect(server.public).get(&format!("{}&channels=x", alice(key))).json();
        assert!(answer[0]["hello"].is_object(), "{answer}");
        assert_eq!(shake_hands(&server, key)["successful"], true);
    }
    // The set was just read: there is no such key.
    let forged = IssuerKey::generate("a");
    for key in [&stranger, &forged] {
        assert_eq!(Client::refusal_code(server.public, &alice(key)), UNAUTHORIZED);
        let request = format!(
            "GET /poll?{}&channels=x HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
            alice(key)
        );
        assert_eq!(send_request(server.public, &request).status, 401);
    }
    assert_eq!(Client::refusal_code(server.public, ""), UNAUTHORIZED);
    let refusals = |reason| server.admin.metrics().refusals(reason);
    assert_eq!(
        (refusals("token_key"), refusals("token_signature"), refusals("issuer_keys")),
        (2.0, 2.0, 0.0)
    );
    assert_eq!(server.admin.metrics().value("encke_issuer_keys"), 2.0);
    let [asked] = &*issuer.requests() else { panic!("whoever makes up tokens has it read once more") };
    assert_eq!(asked.path, "/keys");
}

#[test]
fn a_key_that_is_new_is_learned_when_a_token_names_it_and_one_that_is_gone_is_good_no_longer() {
    let (old, new) = (IssuerKey::generate("old"), IssuerKey::generate("new"));
    let issuer = issuer_of(&[&old]);
    let server = start(trusting(&issuer));
    let mut client = Client::connect(server.public, &alice(&old));
    publish(&issuer, &[&new]);
    // Within ten seconds of the last time, the set is not read again.
    let mut refused = 0;
    let newcomer = eventually_within(3 * TIMEOUT, "the key is learned", || {
        match Client::try_connect(server.public, &alice(&new)) {
            Ok(client) => Some(client),
            Err(code) => {
                assert_eq!(code, UNAUTHORIZED);
                refused += 1;
                None
            }
        }
    });
    assert_eq!(server.admin.session(&newcomer.hello.session)["user"], "alice");
    assert_eq!(issuer.requests().len(), 2, "after {refused} that were refused");
    assert_eq!(Client::refusal_code(server.public, &alice(&old)), UNAUTHORIZED);
    assert_refused(&mut client, &refresh(&old), "unauthorized");
    assert_eq!(client.request(&refresh(&new).to_string())["ok"], json!({}), "its session is still there");
}

#[test]
fn who_comes_while_the_set_is_read_waits_for_it() {
    let key = IssuerKey::generate("a");
    let issuer = Backend::start();
    let set = key_set([&key]);
    issuer.reply_with(move |_| BackendReply::json(&set).delayed_by(Duration::from_secs(1)));
    let server = trusting(&issuer).start();
    // Nothing was answered yet.
    let waiting = Client::connect(server.public, &alice(&key));
    assert_eq!(server.admin.session(&waiting.hello.session)["user"], "alice");
    assert_eq!(shake_hands(&server, &key)["successful"], true);
    assert_eq!(issuer.requests().len(), 1);
}

#[test]
fn while_the_issuer_does_not_answer_clients_come_again_and_known_keys_hold() {
    let (known, new) = (IssuerKey::generate("known"), IssuerKey::generate("new"));
    let issuer = Backend::start();
    issuer.reply_with_status(503);
    let server = trusting(&issuer).start();
    await_reads(&server, FAILED, 1.0);
    assert_eq!(Client::refusal_code(server.public, &alice(&known)), OVERLOADED);
    assert_eq!(shake_hands(&server, &known)["advice"]["reconnect"], "handshake");
    assert_eq!(Client::refusal_code(server.public, "token=nonsense"), UNAUTHORIZED, "no key would help");
    assert!(server.admin.metrics().refusals("issuer_keys") >= 2.0);

    publish(&issuer, &[&known]);
    await_reads(&server, READ, 1.0);
    let mut client = Client::connect(server.public, &alice(&known));
    server.logs.await_line("the issuer's keys are available again");

    for bad in [
        BackendReply::status(500),
        BackendReply {
            status: 302,
            headers: format!("Location: {}\r\n", issuer.url("/elsewhere")),
            ..BackendReply::status(302)
        },
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
        assert_refused(&mut client, &refresh(&new), "unavailable");
        assert_eq!(client.request(&refresh(&known).to_string())["ok"], json!({}));
    }
    assert!(issuer.requests().iter().all(|asked| asked.path == "/keys"), "a redirect was followed");
}

#[test]
fn a_set_in_a_file_is_read_again_at_a_signal() {
    let (old, new) = (IssuerKey::generate("old"), IssuerKey::generate("new"));
    let directory = tempfile::TempDir::new().expect("a temporary directory");
    let path = directory.path().join("keys.json");
    let write = |text: &str| fs::write(&path, text).expect("there is room");
    write(&key_set([&old]).to_string());
    let server = start(Launch::default().set(&format!("auth.jwks={}", path.display())));
    let _client = Client::connect(server.public, &alice(&old));
    write(&key_set([&new]).to_string());
    server.signal(Signal::HUP);
    await_reads(&server, READ, 2.0);
    assert_eq!(server.admin.metrics().value("encke_issuer_keys"), 1.0);
    let _client = Client::connect(server.public, &alice(&new));
    assert_eq!(Client::refusal_code(server.public, &alice(&old)), UNAUTHORIZED);
    // It is being written.
    write(r#"{"keys":["#);
    server.signal(Signal::HUP);
    server.logs.await_line("is not a JSON Web Key Set");
    let _client = Client::connect(server.public, &alice(&new));
}

/// A pipe that nobody writes to: reading it takes for ever, until somebody does.
#[test]
fn a_file_that_blocks_holds_up_nothing() {
    let (old, new) = (IssuerKey::generate("old"), IssuerKey::generate("new"));
    let directory = tempfile::TempDir::new().expect("a temporary directory");
    let path = directory.path().join("keys.json");
    fs::write(&path, key_set([&old]).to_string()).expect("there is room");
    let mut server = start(
        Launch::default().set(&format!("auth.jwks={}", path.display())).set("limits.handshake_timeout=2s"),
    );
    fs::remove_file(&path).expect("it was written");
    assert!(Command::new("mkfifo").arg(&path).status().is_ok_and(|status| status.success()));
    server.signal(Signal::HUP);
    // Again and again, though the first is still at it.
    await_reads(&server, FAILED, 3.0);
    server.logs.await_line("reading it blocks");
    let _client = Client::connect(server.public, &alice(&old));
    assert_eq!(Client::refusal_code(server.public, &alice(&new)), OVERLOADED);
    let read = server.admin.metrics().value(READ);
    fs::write(&path, key_set([&new]).to_string()).expect("the server reads it");
    fs::remove_file(&path).expect("it was made");
    fs::write(&path, key_set([&new]).to_string()).expect("there is room");
    server.signal(Signal::HUP);
    await_reads(&server, READ, read + 1.0);
    let _client = Client::connect(server.public, &alice(&new));
    server.terminate();
    assert!(server.await_exit(TIMEOUT).success());
}

#[test]
fn a_file_that_is_no_set_is_seen_at_the_start() {
    let directory = tempfile::TempDir::new().expect("a temporary directory");
    let path = directory.path().join("keys.json");
    fs::write(&path, r#"{"keys":[{"kty":"oct","kid":"s","k":"AAAA"}]}"#).expect("there is room");
    let missing = directory.path().join("missing.json");
    let told = |jwks: &Path| {
        let output = run_to_end(&["--set", &format!("auth.jwks={}", jwks.display())], &[]);
        assert!(!output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let said = told(&path);
    let problem =
        "contains no key that verifies RS256 or ES256: the key with kid `s` is for another algorithm";
    assert!(said.contains("`auth.jwks`") && said.contains(problem), "{said}");
    let said = told(&missing);
    assert!(said.contains("missing.json: cannot be read: No such file"), "{said}");
}

#[test]
fn an_issuer_behind_tls_is_asked_if_its_certificate_is_good() {
    let key = IssuerKey::generate("a");
    let directory = tempfile::TempDir::new().expect("a temporary directory");
    let (authority, other) = (Authority::new(), Authority::new());
    let (certificate, private) = authority.issue("127.0.0.1", directory.path());
    let issuer = Backend::start_tls(&certificate, &private);
    publish(&issuer, &[&key]);
    let launch = |ca: &Authority| {
        Launch::default()
            .set(&format!("auth.jwks=https://{}/keys", issuer.address))
            .set(&format!("auth.jwks_ca={}", ca.path().display()))
    };
    let server = start(launch(&authority));
    let _client = Client::connect(server.public, &alice(&key));
    let server = launch(&other).start();
    await_reads(&server, FAILED, 1.0);
    assert_eq!(Client::refusal_code(server.public, &alice(&key)), OVERLOADED);
}

#[test]
fn tokens_must_be_for_the_server_if_it_has_a_name() {
    let key = IssuerKey::generate("a");
    let server = start(trusting(&issuer_of(&[&key])).set("auth.audience=chat"));
    let token = |claims: Value| format!("token={}", key.sign(&claims));
    let _client = Client::connect(server.public, &token(json!({"sub": "a", "aud": ["mail", "chat"]})));
    for claims in [json!({"sub": "a"}), json!({"sub": "a", "aud": "mail"})] {
        assert_eq!(Client::refusal_code(server.public, &token(claims)), UNAUTHORIZED);
    }
    assert_eq!(server.admin.metrics().refusals("token_claim"), 2.0);
}
