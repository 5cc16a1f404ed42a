use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use encke_tests::http::{post, send_request};
use encke_tests::waiting::{eventually, until};
use encke_tests::{Backend, BackendReply, Launch, RunningServer, Script, tokens};
use serde_json::{Value, json};

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const OTHER_SECRET: &str = "whsec_aHVudGVyMi1odW50ZXIyLWh1bnRlcjItaHVudGVyMg";

/// Starts a backend in each language. They have the same output and accept the same commands.
fn backends() -> [Script; 2] {
    [("python3", "backend.py"), ("node", "backend.mjs")].map(|(interpreter, name)| {
        let mut command = Command::new(interpreter);
        command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("backend").join(name)).arg(SECRET);
        Script::spawn(command)
    })
}

/// Executes a command in the backend, and returns the value that the backend prints as `outcome`.
#[track_caller]
fn run(backend: &mut Script, outcome: &str, command: &Value) -> Value {
    let before = backend.count(outcome);
    backend.send_command(command);
    backend.await_value(outcome, before + 1)
}

/// Waits until the backend has verified a request whose body has this value at this JSON pointer.
#[track_caller]
fn await_verified(backend: &Script, pointer: &str, expected: &str) {
    let what = format!("{pointer} is {expected}: {}", backend.stderr_text());
    let has_value = |body: &Value| body.pointer(pointer).is_some_and(|value| value == expected);
    until(what, || backend.values("verified").iter().any(has_value));
}

#[test]
fn requests_of_the_server_are_verified_and_tokens_are_accepted() {
    for mut backend in backends() {
        let port = backend.await_value("port", 1).as_u64().and_then(|port| u16::try_from(port).ok());
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port.expect("a port")));
        let webhook = |secret| {
            let url = format!("http://{address}/events");
            format!(r#"{{ url = "{url}", events = ["session.opened"], secret = "{secret}" }}"#)
        };
        let hooks = ["connect", "call"].map(|hook| format!("backend.{hook}=http://{address}/{hook}"));
        let server = Launch::with_tokens(&hooks.each_ref().map(String::as_str))
            .set(&format!("backend.secret={SECRET}"))
            .set(&format!("webhook=[{}, {}]", webhook(SECRET), webhook(OTHER_SECRET)))
            .start();

        let options = json!({"ttl": 60, "channels": {"news": ["subscribe"]}, "join": ["news"]});
        let sign = json!({"sign": [tokens::SECRET, "alice"], "options": options});
        let token = run(&mut backend, "done", &sign);
        let mut client = server.client_with(token.as_str().expect("a token is a string"));
        assert_eq!(client.object()["subscribed"]["channel"], "news");
        client.assert_refused(r#"{"id":1,"publish":{"channel":"news","data":1}}"#, "forbidden");
        let reply = client.request(r#"{"id":2,"call":{"method":"m"}}"#);
        assert_eq!(reply["ok"], json!({"data": "called"}));

        await_verified(&backend, "/transport", "websocket");
        await_verified(&backend, "/method", "m");
        await_verified(&backend, "/events/0/user", "alice");
        let reason = eventually("the webhook with the other secret", || backend.values("refused").pop());
        assert!(reason.as_str().is_some_and(|reason| reason.starts_with("no signature matches")), "{reason}");
        let forged = post("/call", "Connection: close\r\n", r#"{"method":"forged"}"#);
        assert_eq!(send_request(address, &forged).status, 401);
        assert!(backend.values("verified").iter().all(|body| body["method"] != "forged"));
    }
}

/// The first response of the server is lost, so the backend publishes again.
#[test]
fn publish_is_sent_twice_and_carried_out_once() {
    let server = RunningServer::with(&[]);
    let mut subscriber = server.client();
    subscriber.subscribe("news");
    for mut backend in backends() {
        let (proxy, admin, has_lost) = (Backend::start(), server.admin, AtomicBool::new(false));
        proxy.reply_with(move |request| {
            let response = admin.post(&request.path, String::from_utf8_lossy(&request.body));
            if !has_lost.swap(true, Ordering::Relaxed) {
                return BackendReply::status(0);
            }
            BackendReply { status: response.status, ..BackendReply::json(response.body) }
        });
        let mut publish = |outcome: &str, channel: &str, options: Value| {
            run(&mut backend, outcome, &json!({"publish": [channel, "once"], "options": options}))
        };
        let published = publish("done", "news", json!({"url": proxy.url("")}));
        let message = subscriber.message();
        assert_eq!((&message["data"], &message["offset"]), (&json!("once"), &published["offset"]));
        let requests = proxy.requests();
        assert_eq!(requests.len(), 2);
        assert_eq!(requests[0].body, requests[1].body);

        let direct = format!("http://{}", server.admin.address());
        let with_key = json!({"url": direct, "key": published["offset"].to_string()});
        let first = publish("done", "news", with_key.clone());
        assert_eq!(publish("done", "news", with_key), first);
        assert_eq!(subscriber.message()["offset"], first["offset"]);

        let failure = publish("failed", "$news", json!({"url": direct}));
        let text = "publish failed: 400 bad_channel: names that begin with `$` are reserved";
        assert_eq!(failure, json!({"status": 400, "code": "bad_channel", "text": text}));
    }
    // No other message has arrived in between.
    server.admin.publish("news", "last");
    assert_eq!(subscriber.message()["data"], "last");
}
