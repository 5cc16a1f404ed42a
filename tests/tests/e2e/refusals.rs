use std::io::Write;
use std::net::TcpStream;

use encke_tests::events::request_events;
use encke_tests::tokens::token;
use encke_tests::waiting::until;
use encke_tests::{Client, RunningServer};
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
    let server = RunningServer::with_tokens(&["limits.handshake_timeout=3s"]);
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
    let named = "the origin `https://elsewhere.example` is not in auth.origins";
    assert!(foreign.body.contains(named), "{foreign:?}");
    until("the refusal is logged", || !logged(&server, "origin").is_empty());
    assert!(logged(&server, "origin")[0]["detail"].as_str().is_some_and(|detail| detail.ends_with(named)));
    let mut silent = TcpStream::connect(server.public).expect("a connection");
    silent.write_all(b"GET /ws").expect("half a request");
    until("the connection is closed", || refusals(&server, "handshake_timeout") == 1.0);
}

/// Otherwise, a misspelt parameter would have no effect: `/poll?chanels=a` opened a session that received nothing.
#[test]
fn unknown_parameters_are_refused_before_anything_else_happens() {
    let server = RunningServer::with(&["auth.origins=['https://page.example']"]);
    let upgrade = "Connection: Upgrade, close\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                   Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    let request = |target: &str, headers: &str| {
        let head =
            format!("{target} HTTP/1.1\r\nHost: 127.0.0.1\r\nOrigin: https://page.example\r\n{headers}\r\n");
        encke_tests::http::send_request(server.public, &head)
    };
    let close = "Connection: close\r\n";
    for (target, headers, message) in [
        ("GET /ws?heartbeats=frame", upgrade, "heartbeats; did you mean heartbeat?"),
        ("GET /ws?channels=a", upgrade, "channels; this path has resume, seq, token, heartbeat, positions"),
        ("GET /events?chanels=a", close, "chanels; did you mean channels?"),
        ("GET /poll?chanels=a", close, "chanels; did you mean channels?"),
        ("POST /poll?resume=a&tokne=b", close, "tokne; did you mean token?"),
        ("GET /bayeux?tokens=a", upgrade, "tokens; did you mean token?"),
        ("POST /bayeux?tokens=a", close, "tokens; did you mean token?"),
    ] {
        let before = refusals(&server, "query");
        let refused = request(target, headers);
        assert_eq!((refused.status, &*refused.error_code()), (400, "bad_request"), "{target}: {refused:?}");
        assert_eq!(refused.json()["error"]["message"], format!("unknown parameter: {message}"), "{target}");
        assert_eq!(refused.header("access-control-allow-origin"), Some("https://page.example"), "{target}");
        assert_eq!(refusals(&server, "query"), before + 1.0, "{target}");
    }
    assert_eq!(server.admin.metrics().events("opened", "connect"), 0.0);
    // Libraries add parameters by themselves, and a preflight repeats those of its request.
    assert_eq!(request("GET /poll?channels=a&_=1795000000", close).status, 200);
    assert_eq!(request("OPTIONS /poll?chanels=a", close).status, 204);
}

/// The data could break another client's parser. `server/core/src/message.rs` tests all of it.
#[test]
fn poisoned_data_is_malformed() {
    let server = RunningServer::with(&[]);
    let mut client = server.client();
    for data in ["1e400", r#""\ud83d""#] {
        let reply = client.request(format!(r#"{{"id":1,"publish":{{"channel":"news","data":{data}}}}}"#));
        assert_eq!(reply["error"]["code"], "malformed", "{data}: {reply}");
        for (path, channel) in [("publish", r#""channel":"news""#), ("broadcast", r#""channels":["news"]"#)] {
            let answer =
                server.admin.post(&format!("/api/{path}"), format!(r#"{{{channel},"data":{data}}}"#));
            assert_eq!((answer.status, &*answer.error_code()), (400, "malformed"), "{path}: {data}");
        }
    }
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

/// A forged token costs the server more than it costs the sender. A token in a refresh counts like one in the
/// query.
#[test]
fn forged_tokens_are_rate_limited() {
    let [good, bobs] = ["alice", "bob"].map(|user| token(user, json!({})));
    for token in [FORGED, &good] {
        let server = RunningServer::with_tokens(&["limits.bad_signatures_per_second=1"]);
        let mut live = server.client_of("bob");
        // Above the limit, few tokens from this address are verified. The others may be valid, so clients are
        // advised to retry.
        let is_refused = || match Client::try_connect(server.public, &format!("token={token}")) {
            Ok(mut client) => {
                client.send(format!(r#"{{"id":1,"refresh":{{"token":"{FORGED}"}}}}"#));
                assert_eq!(client.close_code(), Some(UNAUTHORIZED));
                false
            }
            Err(code) => code == OVERLOADED,
        };
        assert!((0..1_000).any(|_| is_refused()), "the address is asked to retry later");
        assert!(refusals(&server, "too_many_bad_signatures") > 0.0);
        assert!(refusals(&server, "token_signature") >= 10.0);
        // Clients with a session are not affected.
        let refresh = json!({"id": 1, "refresh": {"token": bobs}});
        assert_eq!(live.request(&refresh), json!({"id": 1, "ok": {}}));
        let query = format!("resume={}&token={bobs}", live.drop_connection().resume);
        assert!(Client::connect(server.public, &query).hello.recovered);
    }
}
