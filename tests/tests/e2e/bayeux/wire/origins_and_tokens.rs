use std::time::{Duration, SystemTime};

use encke_tests::admin::HttpResponse;
use encke_tests::bayeux::{
    BayeuxPolling, JSON, assert_refused, assert_successful, client_id, connect_now, handshake, messages,
    post, session, with_field,
};
use encke_tests::tokens::{SECRET, sign};
use encke_tests::waiting::let_pass;
use encke_tests::{Launch, PollClient, RawClient, RunningServer};
use serde_json::{Value, json};

use super::assert_not_logged;

const ALLOWED_ORIGIN: &str = "https://app.example";

fn allowed(answer: &HttpResponse) -> Option<&str> {
    answer.header("access-control-allow-origin")
}

fn with_origins() -> RunningServer {
    Launch::default().set(&format!(r#"auth.origins=["{ALLOWED_ORIGIN}"]"#)).start()
}

#[test]
fn pages_of_other_origins_are_refused() {
    let server = with_origins();
    let mut polls = BayeuxPolling::connect(server.public);
    let id = polls.open(&[]);
    for origin in ["https://evil.example", "null", "https://app.example.evil.example"] {
        let origin = format!("Origin: {origin}\r\n");
        for (content_type, body) in [
            (JSON, handshake().to_string()),
            (JSON, encke_tests::bayeux::disconnect(&id).to_string()),
            ("Content-Type: text/plain\r\n", encke_tests::bayeux::disconnect(&id).to_string()),
            ("Content-Type: application/x-www-form-urlencoded\r\n", "message=%5B%5D".into()),
        ] {
            let mut requests = PollClient::connect(server.public);
            requests.send(&post("/bayeux", &format!("{content_type}{origin}"), &body));
            let answer = requests.response();
            assert_eq!((answer.status, allowed(&answer)), (403, None), "{body}");
            assert_eq!(answer.header("set-cookie"), None);
        }
        // The request is refused before its body is read.
        let mut unread = PollClient::connect(server.public);
        unread.send(&format!(
            "POST /bayeux HTTP/1.1\r\nHost: 127.0.0.1\r\n{origin}{JSON}Content-Length: 9\r\n\r\n"
        ));
        assert_eq!(unread.response().status, 403);
    }
    let mut socket = RawClient::connect(server.public);
    socket.request_upgrade_at("/bayeux", "Origin: https://evil.example\r\n");
    let head = socket.http_head();
    assert!(head.starts_with("HTTP/1.1 403 "), "{head}");
    server.logs.await_lifecycle(&session(&id), &[("opened", "connect")]);
}

#[test]
fn pages_of_an_allowed_origin_may_read_every_answer_with_cookies() {
    let server = with_origins();
    let origin = format!("Origin: {ALLOWED_ORIGIN}\r\n");
    let mut requests = PollClient::connect(server.public);
    let hello = handshake().to_string();
    for (content_type, body, status) in [
        (JSON, &*hello, 200),
        ("Content-Type: text/plain\r\n", &hello, 200),
        (JSON, "[]", 200),
        (JSON, "nonsense", 400),
        ("", "[]", 415),
    ] {
        requests.send(&post("/bayeux", &format!("{content_type}{origin}"), body));
        let answer = requests.response();
        assert_eq!((answer.status, allowed(&answer)), (status, Some(ALLOWED_ORIGIN)), "{body}");
        assert_eq!(answer.header("access-control-allow-credentials"), Some("true"));
        assert!(answer.header("vary").is_some_and(|vary| vary.eq_ignore_ascii_case("origin")), "{answer:?}");
        assert_eq!(answer.header("cache-control"), Some("no-store"));
    }
    let mut socket = RawClient::connect(server.public);
    socket.request_upgrade_at("/bayeux", &origin);
    socket.await_upgrade();
    socket.text(&hello);
    assert!(socket.text_message().contains("\"successful\":true"));
}

#[test]
fn a_preflight_is_answered() {
    let server = with_origins();
    let mut requests = PollClient::connect(server.public);
    for path in ["/bayeux", "/bayeux/", "/bayeux/handshake", "/bayeux/connect"] {
        let mut preflight = |origin: &str| {
            requests.send(&format!(
                "OPTIONS {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nOrigin: {origin}\r\n\
                 Access-Control-Request-Method: POST\r\nAccess-Control-Request-Headers: content-type,pragma\r\n\r\n"
            ));
            requests.response()
        };
        let answer = preflight(ALLOWED_ORIGIN);
        assert_eq!((answer.status, allowed(&answer)), (204, Some(ALLOWED_ORIGIN)));
        let header = |name| answer.header(name).unwrap_or_else(|| panic!("no {name}: {answer:?}"));
        assert!(header("access-control-allow-methods").contains("POST"));
        // Faye sends `Pragma` with its forms.
        for sent in ["content-type", "pragma", "authorization"] {
            assert!(
                header("access-control-allow-headers").to_lowercase().contains(sent),
                "{sent}: {answer:?}"
            );
        }
        assert_eq!(header("access-control-allow-credentials"), "true");
        let answer = preflight("https://evil.example");
        assert_eq!((answer.status, allowed(&answer)), (403, None));
    }
}

fn with_secret() -> RunningServer {
    Launch::default().environment("ENCKE_AUTH__SECRET", SECRET).start()
}

fn token(lasts: Duration) -> String {
    let now = SystemTime::UNIX_EPOCH.elapsed().expect("the clock is after 1970");
    sign(&json!({"sub": "alice", "exp": (now + lasts).as_secs(), "channels": {"*": ["subscribe"]}}), SECRET)
}

fn authenticated(message: Value, token: &str) -> Value {
    with_field(message, "ext", json!({"authentication": {"token": token}}))
}

/// The token is in the handshake, a header, or the query. It is never logged.
#[test]
fn token_is_accepted_in_three_places() {
    const HOUR: Duration = Duration::from_secs(3600);
    let server = with_secret();
    let token = token(HOUR);
    let mut polls = BayeuxPolling::connect(server.public);
    let id = client_id(&polls.reply(&authenticated(handshake(), &token)));
    assert_eq!(server.admin.session(&session(&id))["user"], "alice");
    assert_successful(&polls.reply(&connect_now(&id)));
    for (path, headers) in [
        ("/bayeux".to_owned(), format!("{JSON}Authorization: Bearer {token}\r\n")),
        (format!("/bayeux?token={token}"), JSON.to_owned()),
    ] {
        polls.requests.send(&post(&path, &headers, &handshake().to_string()));
        let id = client_id(&messages(&polls.requests.response())[0]);
        assert_eq!(server.admin.session(&session(&id))["user"], "alice");
    }
    let mut socket = encke_tests::bayeux::BayeuxWebSocket::connect(server.public);
    client_id(&socket.reply(&authenticated(handshake(), &token)));
    assert_not_logged(&server.logs, &id);
    assert!(!server.logs.text().contains(&token), "the token is in a log");
}

#[test]
fn session_requires_a_valid_token() {
    let server = with_secret();
    let mut polls = BayeuxPolling::connect(server.public);
    let forged =
        sign(&json!({"sub": "alice", "channels": {}}), "another secret that is long enough to be one");
    for message in [handshake(), authenticated(handshake(), "x"), authenticated(handshake(), &forged)] {
        let reply = polls.reply(&message);
        assert_eq!(reply["channel"], "/meta/handshake");
        assert_refused(&reply, "401");
        assert_eq!(reply["advice"]["reconnect"], "none", "{reply}");
        assert_eq!(reply.get("clientId"), None);
    }
    assert_eq!(server.admin.metrics().sessions("attached"), 0.0);
}

/// A token in a later message replaces the token that the session started with, and the session outlives the
/// first one.
#[test]
fn a_later_token_refreshes() {
    let server = with_secret();
    let mut polls = BayeuxPolling::connect(server.public);
    let id = client_id(&polls.reply(&authenticated(handshake(), &token(Duration::from_secs(3)))));
    let later = authenticated(connect_now(&id), &token(Duration::from_secs(3600)));
    assert_successful(&polls.reply(&later));
    let_pass(Duration::from_secs(4));
    assert_successful(&polls.reply(&connect_now(&id)));
    server.logs.await_lifecycle(&session(&id), &[("opened", "connect")]);
}

/// Any message may carry the later token.
#[test]
fn a_later_token_refreshes_over_a_websocket() {
    let server = with_secret();
    let mut socket = encke_tests::bayeux::BayeuxWebSocket::connect(server.public);
    let id = client_id(&socket.reply(&authenticated(handshake(), &token(Duration::from_secs(3)))));
    assert_successful(&socket.reply(&connect_now(&id)));
    let later = authenticated(connect_now(&id), &token(Duration::from_secs(3600)));
    assert_successful(&socket.reply(&later));
    let_pass(Duration::from_secs(4));
    assert_successful(&socket.reply(&connect_now(&id)));
    server.logs.await_lifecycle(&session(&id), &[("opened", "connect")]);
}

/// A session whose token has expired waits for another one. Its client receives the error.
#[test]
fn expired_token_is_reported() {
    let server = with_secret();
    let mut polls = BayeuxPolling::connect(server.public);
    let id = client_id(&polls.reply(&authenticated(handshake(), &token(Duration::from_secs(1)))));
    server.await_phase(&session(&id), "suspended");
    assert_refused(&polls.reply(&connect_now(&id)), "401");
    let later = authenticated(connect_now(&id), &token(Duration::from_secs(3600)));
    assert_successful(&polls.reply(&later));
    assert_eq!(server.admin.phase(&session(&id)).as_deref(), Some("attached"));
}
