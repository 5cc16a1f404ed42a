use encke_tests::admin::HttpResponse;
use encke_tests::poll::{get_with, post};
use encke_tests::tokens::{SECRET, sign};
use encke_tests::{Launch, PollClient, RunningServer};
use serde_json::json;

use super::{await_held, command_query, hello, open, poll_query};

const LISTED: &str = "https://app.example";
const JSON: &str = "Content-Type: application/json\r\n";

fn allowed(answer: &HttpResponse) -> Option<&str> {
    answer.header("access-control-allow-origin")
}

#[test]
fn an_unlisted_origin_is_rejected() {
    let server = Launch::default().set(&format!(r#"auth.origins=["{LISTED}"]"#)).start();
    let (mut requests, hello) = open(&server, "news");
    for origin in ["https://evil.example", "null", "https://app.example.evil.example"] {
        let origin = format!("Origin: {origin}\r\n");
        let close = r#"{"close":{}}"#;
        for request in [
            get_with("channels=news", &origin),
            get_with(&poll_query(&hello, 0), &origin),
            post(&command_query(&hello), &format!("{JSON}{origin}"), close),
        ] {
            requests.send(&request);
            let answer = requests.response();
            assert_eq!((answer.status, answer.error_code().as_str()), (403, "forbidden"), "{request}");
            assert_eq!(allowed(&answer), None);
        }
    }
    // The request is rejected before its body is read.
    let mut unread = PollClient::connect(server.public);
    unread.send(&format!(
        "POST /poll?{} HTTP/1.1\r\nHost: 127.0.0.1\r\nOrigin: https://evil.example\r\n{JSON}Content-Length: 9\r\n\r\n",
        command_query(&hello)
    ));
    assert_eq!(unread.response().status, 403);
    server.logs.await_lifecycle(&hello.session, &[("opened", "connect")]);
    assert_eq!(server.admin.metrics().sessions("attached"), 1.0);
}

#[test]
fn a_listed_origin_may_read_every_response() {
    let server = Launch::default().set(&format!(r#"auth.origins=["{LISTED}"]"#)).start();
    let origin = format!("Origin: {LISTED}\r\n");
    let mut requests = PollClient::connect(server.public);
    requests.send(&get_with("channels=news", &origin));
    let answer = requests.response();
    assert_eq!((allowed(&answer), answer.header("vary")), (Some(LISTED), Some("origin")));
    let hello = hello(&answer.json());
    let mut first = PollClient::connect(server.public);
    first.send(&get_with(&poll_query(&hello, 0), &origin));
    await_held(&server, &hello);
    requests.send(&get_with(&poll_query(&hello, 0), &origin));
    let superseded = first.response();
    assert_eq!((superseded.status, allowed(&superseded)), (409, Some(LISTED)));
    server.admin.publish("news", 1);
    assert_eq!(allowed(&requests.response()), Some(LISTED));
    let post = |query: &str, content_type: &str| post(query, &format!("{content_type}{origin}"), "[]");
    for (request, status) in [
        (post(&command_query(&hello), JSON), 200),
        (post(&command_query(&hello), ""), 415),
        (post("resume=x", JSON), 410),
        (post("", JSON), 400),
        (get_with("seq=x", &origin), 400),
    ] {
        requests.send(&request);
        let answer = requests.response();
        assert_eq!((answer.status, allowed(&answer)), (status, Some(LISTED)), "{request}");
        assert_eq!(answer.header("cache-control"), Some("no-store"));
    }
    server.admin.kick(&hello.session);
}

#[test]
fn a_preflight_is_answered() {
    let server = Launch::default().set(&format!(r#"auth.origins=["{LISTED}"]"#)).start();
    let mut requests = PollClient::connect(server.public);
    let mut preflight = |origin: &str| {
        requests.send(&format!(
            "OPTIONS /poll?resume=x HTTP/1.1\r\nHost: 127.0.0.1\r\nOrigin: {origin}\r\n\
             Access-Control-Request-Method: POST\r\nAccess-Control-Request-Headers: content-type\r\n\r\n"
        ));
        requests.response()
    };
    let answer = preflight(LISTED);
    assert_eq!((answer.status, allowed(&answer)), (204, Some(LISTED)));
    assert_eq!(answer.header("access-control-allow-methods"), Some("GET, POST"));
    assert_eq!(answer.header("access-control-allow-headers"), Some("authorization, content-type"));
    let answer = preflight("https://evil.example");
    assert_eq!((answer.status, allowed(&answer)), (403, None));
}

#[test]
fn polls_require_a_token_if_configured() {
    let server = RunningServer::with(&[&format!("auth.secret={SECRET}")]);
    let mut requests = PollClient::connect(server.public);
    assert_eq!(requests.get("channels=news").status, 401);
    let token = |channels| sign(&json!({"sub": "alice", "channels": channels}), SECRET);
    let token_for_chat = token(json!({"chat": ["subscribe"]}));
    assert_eq!(requests.get(&format!("channels=news&token={token_for_chat}")).status, 403);
    let token = token(json!({"news": ["subscribe"]}));
    requests.send(&get_with("channels=news", &format!("Authorization: Bearer {token}\r\n")));
    let hello = hello(&requests.response().json());
    // The resume token alone suffices for commands, as it does on a connection. The next poll must
    // authenticate again.
    assert_eq!(requests.post(&command_query(&hello), r#"{"id":1,"ack":{"seq":0}}"#).status, 200);
    assert_ne!(requests.get(&poll_query(&hello, 0)).status, 200);
    assert!(!server.logs.text().contains(&hello.resume), "the log contains the secret");
}
