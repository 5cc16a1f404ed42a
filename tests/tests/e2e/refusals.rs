use std::io::Write;
use std::net::TcpStream;

use encke_tests::events::request_events;
use encke_tests::server::run_to_end;
use encke_tests::tokens::{SECRET, sign};
use encke_tests::waiting::until;
use encke_tests::{Client, Launch, RunningServer};
use serde_json::{Value, json};

const OVERLOADED: u16 = 4005;
const UNAUTHORIZED: u16 = 4102;
const PROTOCOL_ERROR: u16 = 4103;

fn refusals(server: &RunningServer, reason: &str) -> f64 {
    server.admin.metrics().refusals(reason)
}

/// Returns the log lines about refusals for this reason.
fn logged(server: &RunningServer, reason: &str) -> Vec<Value> {
    let is_refusal = |line: &Value| line["message"] == "connection refused" && line["reason"] == reason;
    server.logs.records().into_iter().filter(is_refusal).collect()
}

/// Well-formed token with an invalid signature.
const FORGED: &str = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhIn0.AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
const NO_ALGORITHM: &str = "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhIn0.AA";

#[test]
fn each_refusal_is_counted_and_logged_with_its_reason() {
    let server =
        Launch::with(&["limits.handshake_timeout=300ms"]).environment("ENCKE_AUTH__SECRET", SECRET).start();
    for (query, reason) in [
        ("", "token_missing"),
        ("token=nonsense", "token_malformed"),
        (&format!("token={FORGED}"), "token_signature"),
        (&format!("token={NO_ALGORITHM}"), "token_malformed"),
        ("seq=x", "query"),
    ] {
        let before = refusals(&server, reason);
        let code = Client::refusal_code(server.public, query);
        assert_eq!(code, if reason == "query" { PROTOCOL_ERROR } else { UNAUTHORIZED }, "{query}");
        assert_eq!(refusals(&server, reason), before + 1.0, "{query}: {reason}");
        let events = request_events(server.public, &format!("{query}&channels=a"), "");
        assert!((400..500).contains(&events.status), "{events:?}");
        assert_eq!(refusals(&server, reason), before + 2.0, "/events?{query}: {reason}");
        until("the refusal is logged", || !logged(&server, reason).is_empty());
        assert_eq!(logged(&server, reason)[0]["address"], "127.0.0.1");
    }
    let foreign = request_events(server.public, "channels=a", "Origin: https://elsewhere.example\r\n");
    assert_eq!((foreign.status, refusals(&server, "origin")), (403, 1.0));
    let mut silent = TcpStream::connect(server.public).expect("a connection");
    silent.write_all(b"GET /ws").expect("half a request");
    until("the connection is closed", || refusals(&server, "handshake_timeout") == 1.0);
}

#[test]
fn frequent_refusals_do_not_fill_the_log() {
    let server = Launch::default().environment("ENCKE_AUTH__SECRET", SECRET).start();
    for _ in 0..200 {
        assert_eq!(Client::refusal_code(server.public, ""), UNAUTHORIZED);
    }
    assert_eq!(refusals(&server, "token_missing"), 200.0);
    until("a refusal is logged", || !logged(&server, "token_missing").is_empty());
    let lines = logged(&server, "token_missing");
    assert!(lines.len() < 100, "{} lines", lines.len());
    let last = lines.last().expect("a line");
    assert!(lines.len() == 1 || last["more"].as_u64() > Some(0), "{last}");
}

#[test]
fn a_misspelt_setting_is_an_error() {
    let stderr = |arguments: &[&str], environment: &[(&str, &str)]| {
        let output = run_to_end(arguments, environment);
        assert!(!output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let printed = stderr(&[], &[("ENCKE_SESSION_PING_INTERVAL", "1s")]);
    assert!(printed.contains("did you mean ENCKE_SESSION__PING_INTERVAL (two underscores)"), "{printed}");
    let printed = stderr(&["--set", "log.level=verbose"], &[]);
    assert!(printed.contains("`verbose` is not error, warn, info, debug, trace, off"), "{printed}");
}

/// The data could break another client's parser.
#[test]
fn poisoned_data_is_malformed() {
    let server = RunningServer::with(&[]);
    let mut client = server.client();
    let deep = format!("{}{}", "[".repeat(65), "]".repeat(65));
    for data in [&deep, "1e400", r#"{"a":[-1e999]}"#, r#""\ud83d""#, r#"{"\udfff":1}"#] {
        let reply = client.request(&format!(r#"{{"id":1,"publish":{{"channel":"news","data":{data}}}}}"#));
        assert_eq!(reply["error"]["code"], "malformed", "{data}: {reply}");
        let answer = server.admin.post("/api/publish", &format!(r#"{{"channel":"news","data":{data}}}"#));
        assert_eq!((answer.status, answer.error_code()), (400, "malformed".into()), "{data}");
        let answer =
            server.admin.post("/api/broadcast", &format!(r#"{{"channels":["news"],"data":{data}}}"#));
        assert_eq!((answer.status, answer.error_code()), (400, "malformed".into()), "{data}");
    }
    let good = format!("{}{}", "[".repeat(64), "]".repeat(64));
    for data in [&good, "18446744073709551615", "-9223372036854775808", r#""\ud83d\ude00""#] {
        let published =
            client.request(&format!(r#"{{"id":1,"publish":{{"channel":"news","data":{data}}}}}"#));
        assert!(published["ok"].is_object(), "{data}: {published}");
    }
}

/// The connection limit holds even if every resume claims to have received messages that were never sent.
#[test]
fn invalid_seq_does_not_move_a_permit() {
    let server = RunningServer::with(&["limits.max_connections=10"]);
    let mut clients: Vec<_> = (0..10).map(|_| server.client()).collect();
    for round in 0..5 {
        for client in &mut clients {
            let query = format!("resume={}&seq=1000000", client.hello.resume);
            assert_eq!(Client::refusal_code(server.public, &query), OVERLOADED, "round {round}");
        }
        assert_eq!(server.admin.metrics().value("encke_sessions{phase=\"attached\"}"), 10.0);
    }
    for client in &mut clients {
        assert!(
            client.request(r#"{"id":1,"subscribe":{"channel":"a"}}"#)["ok"].is_object(),
            "the client is still connected"
        );
    }
    assert_eq!(Client::refusal_code(server.public, ""), OVERLOADED);
}

/// The owner of a domain can let its name resolve to the visitor's own machine. A page of that domain then
/// has the same origin as this server.
#[test]
fn foreign_host_names_are_rejected() {
    let server = RunningServer::with(&["listen.hosts=['encke']"]);
    let statuses = |host: &str, more: &str| {
        // POST is answered with 405, so the response is not an endless stream.
        let events = format!("POST /events HTTP/1.1\r\n{host}{more}Connection: close\r\n\r\n");
        let metrics = server.admin.request_with("GET", "/metrics", &format!("{host}{more}"));
        (encke_tests::admin::send_request(server.public, &events).status, metrics.status)
    };
    assert_eq!(statuses("Host: evil.example\r\n", ""), (403, 403));
    assert_eq!(statuses("Host: evil.example\r\n", "Origin: http://evil.example\r\n"), (403, 403));
    assert_eq!(statuses("Host: localhost\r\n", "Sec-Fetch-Site: cross-site\r\n"), (403, 403));
    assert_eq!(statuses("", ""), (400, 400));
    assert_eq!(statuses("Host: localhost\r\nHost: encke\r\n", ""), (400, 400));
    assert_eq!(refusals(&server, "host"), 5.0);
    for host in ["encke", "ENCKE:8001", "localhost:9", "10.0.0.7"] {
        assert_eq!(statuses(&format!("Host: {host}\r\n"), ""), (405, 200), "{host}");
    }
}

/// A forged token costs the server more than it costs the sender.
#[test]
fn forged_tokens_are_rate_limited() {
    let server = Launch::default().environment("ENCKE_AUTH__SECRET", SECRET).start();
    let query = format!("token={FORGED}");
    // After the limit is reached, tokens from this address are not verified. Some may be valid, so clients
    // are advised to retry.
    until("the address is asked to retry later", || {
        Client::refusal_code(server.public, &query) == OVERLOADED
    });
    assert!(refusals(&server, "too_many_bad_signatures") > 0.0);
    assert!(refusals(&server, "token_signature") >= 10.0);
}

/// A token in a refresh counts like one in the query.
#[test]
fn forged_tokens_in_refreshes_are_rate_limited() {
    let server = Launch::default().environment("ENCKE_AUTH__SECRET", SECRET).start();
    let good = sign(&json!({"sub": "alice", "exp": 4_000_000_000_u64}), SECRET);
    until("the address is asked to retry later", || {
        match Client::try_connect(server.public, &format!("token={good}")) {
            Ok(mut client) => {
                client.send(&format!(r#"{{"id":1,"refresh":{{"token":"{FORGED}"}}}}"#));
                assert_eq!(client.close_code(), Some(UNAUTHORIZED));
                false
            }
            Err(code) => code == OVERLOADED,
        }
    });
    assert!(refusals(&server, "token_signature") >= 10.0);
}
