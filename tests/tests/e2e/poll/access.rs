use encke_tests::admin::{HttpResponse, bearer};
use encke_tests::poll::{get_with, post};
use encke_tests::tokens::token;
use encke_tests::{EventStream, PollClient, RawClient, RunningServer, bayeux};
use serde_json::json;

use super::{JSON, command_query, hello, open, poll_query};

const LISTED: &str = "https://app.example";
const TEXT: &str = "Content-Type: text/plain\r\n";
const FORM: &str = "Content-Type: application/x-www-form-urlencoded\r\n";

fn with_origins() -> RunningServer {
    RunningServer::with(&[&format!(r#"auth.origins=["{LISTED}"]"#)])
}

/// Bytes of `method path` without a body.
fn request(method: &str, path: &str, headers: &str) -> String {
    format!("{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{headers}\r\n")
}

fn allowed(answer: &HttpResponse) -> Option<&str> {
    answer.header("access-control-allow-origin")
}

#[test]
fn an_unlisted_origin_is_rejected() {
    let server = with_origins();
    let (_, hello) = open(&server, "news");
    let bayeux_id = bayeux::BayeuxPolling::connect(server.public).open(&[]);
    let handshake = bayeux::handshake().to_string();
    let disconnect = bayeux::disconnect(&bayeux_id).to_string();
    let command = format!("/poll?{}", command_query(&hello));
    for origin in ["https://evil.example", "null", "https://app.example.evil.example"] {
        let origin = format!("Origin: {origin}\r\n");
        let [json, text, form] = [JSON, TEXT, FORM].map(|content_type| format!("{content_type}{origin}"));
        // These requests are rejected before their bodies are read.
        let unread = format!("{json}Content-Length: 9\r\n");
        for request in [
            get_with("channels=news", &origin),
            get_with(&poll_query(&hello, 0), &origin),
            post(&command_query(&hello), &json, r#"{"close":{}}"#),
            request("GET", "/events?channels=news", &origin),
            bayeux::post("/bayeux", &json, &handshake),
            bayeux::post("/bayeux", &json, &disconnect),
            bayeux::post("/bayeux", &text, &disconnect),
            bayeux::post("/bayeux", &form, "message=%5B%5D"),
            request("POST", &command, &unread),
            request("POST", "/bayeux", &unread),
            request("OPTIONS", "/poll", &format!("{origin}Access-Control-Request-Method: POST\r\n")),
            request("OPTIONS", "/events", &format!("{origin}Access-Control-Request-Method: GET\r\n")),
            request("OPTIONS", "/bayeux", &format!("{origin}Access-Control-Request-Method: POST\r\n")),
        ] {
            let answer = PollClient::connect(server.public).exchange(&request);
            assert_eq!((answer.status, answer.error_code().as_str()), (403, "forbidden"), "{request}");
            assert_eq!((allowed(&answer), answer.header("set-cookie")), (None, None), "{request}");
        }
    }
    let mut socket = RawClient::connect(server.public);
    socket.request_upgrade_at("/bayeux", "Origin: https://evil.example\r\n");
    let head = socket.http_head();
    assert!(head.starts_with("HTTP/1.1 403 "), "{head}");
    for session in [&hello.session, &bayeux::session(&bayeux_id)] {
        server.await_lifecycle(session, "opened connect");
    }
    assert_eq!(server.admin.metrics().sessions("attached"), 2.0);
}

/// Pages may send Bayeux requests with cookies.
#[test]
fn a_listed_origin_may_read_every_response() {
    let server = with_origins();
    let origin = format!("Origin: {LISTED}\r\n");
    let mut requests = PollClient::connect(server.public);
    let answer = requests.exchange(get_with("channels=news", &origin));
    assert_eq!((allowed(&answer), answer.header("vary")), (Some(LISTED), Some("origin")));
    let hello = hello(&answer.json());
    let mut first = PollClient::connect(server.public);
    first.send(get_with(&poll_query(&hello, 0), &origin));
    server.await_held(&hello.session);
    requests.send(get_with(&poll_query(&hello, 0), &origin));
    let superseded = first.response();
    assert_eq!((superseded.status, allowed(&superseded)), (409, Some(LISTED)));
    server.admin.publish("news", 1);
    assert_eq!(allowed(&requests.response()), Some(LISTED));
    let events = EventStream::open_with(server.public, "channels=news", &origin);
    let lines = format!("\r\naccess-control-allow-origin: {LISTED}\r\nvary: origin\r\n\r\n");
    assert!(events.head.ends_with(&lines), "{}", events.head);

    let post = |query: &str, content_type: &str| post(query, &format!("{content_type}{origin}"), "[]");
    let bayeux_post = |content_type: &str, body: &str| {
        (bayeux::post("/bayeux", &format!("{content_type}{origin}"), body), Some("true"))
    };
    let handshake = bayeux::handshake().to_string();
    for ((request, credentials), status) in [
        ((post(&command_query(&hello), JSON), None), 200),
        ((post(&command_query(&hello), ""), None), 415),
        ((post("resume=x", JSON), None), 410),
        ((post("", JSON), None), 400),
        ((get_with("seq=x", &origin), None), 400),
        ((request("GET", "/events?", &origin), None), 400),
        (bayeux_post(JSON, &handshake), 200),
        (bayeux_post(TEXT, &handshake), 200),
        (bayeux_post(JSON, "[]"), 200),
        (bayeux_post(JSON, "nonsense"), 400),
        (bayeux_post("", "[]"), 415),
    ] {
        let answer = requests.exchange(&request);
        assert_eq!((answer.status, allowed(&answer)), (status, Some(LISTED)), "{request}");
        assert_eq!(answer.header("access-control-allow-credentials"), credentials, "{request}");
        assert_eq!(answer.header("vary"), Some("origin"), "{request}");
        if !request.starts_with("GET /events") {
            assert_eq!(answer.header("cache-control"), Some("no-store"), "{request}");
        }
    }
    let mut socket = RawClient::connect(server.public);
    socket.request_upgrade_at("/bayeux", &origin);
    socket.await_upgrade();
    socket.text(&handshake);
    assert!(socket.text_message().contains("\"successful\":true"));
}

#[test]
fn a_preflight_is_answered() {
    let server = with_origins();
    let mut requests = PollClient::connect(server.public);
    // Faye sends `Pragma` with its forms.
    let bayeux = ("GET, POST", "authorization, content-type, pragma, x-requested-with", Some("true"));
    for (path, (methods, headers, credentials)) in [
        ("/poll?resume=x", ("GET, POST", "authorization, content-type", None)),
        ("/events", ("GET", "authorization, cache-control, last-event-id", None)),
        ("/bayeux", bayeux),
        ("/bayeux/", bayeux),
        ("/bayeux/handshake", bayeux),
        ("/bayeux/connect", bayeux),
    ] {
        let answer = requests.exchange(request(
            "OPTIONS",
            path,
            &format!(
                "Origin: {LISTED}\r\nAccess-Control-Request-Method: POST\r\n\
                 Access-Control-Request-Headers: content-type,pragma\r\n"
            ),
        ));
        assert_eq!((answer.status, &*answer.body), (204, ""), "{path}");
        assert_eq!(answer.header("access-control-max-age"), Some("7200"), "{path}");
        for (name, value) in [
            ("origin", Some(LISTED)),
            ("methods", Some(methods)),
            ("headers", Some(headers)),
            ("credentials", credentials),
        ] {
            assert_eq!(answer.header(&format!("access-control-allow-{name}")), value, "{path}");
        }
    }
}

/// Otherwise, a page of an allowed origin could not tell a refusal from a broken network.
#[test]
fn pages_may_read_every_refusal() {
    let server = with_origins();
    let mut requests = PollClient::connect(server.public);
    for (method, path, status) in [
        ("GET", "/nowhere", 404),
        ("PUT", "/poll", 405),
        ("DELETE", "/events", 405),
        ("GET", "/ws", 426),
        ("GET", "/poll?seq=x", 400),
        ("GET", "/poll?channels=%ff", 400),
    ] {
        for (origin, allowed) in [(LISTED, Some(LISTED)), ("https://other.example", None)] {
            let answer = requests.exchange(request(method, path, &format!("Origin: {origin}\r\n")));
            assert_eq!(answer.header("access-control-allow-origin"), allowed, "{method} {path}: {answer:?}");
            assert!(allowed.is_none() || answer.status == status, "{method} {path}: {answer:?}");
        }
    }
    let foreign_host = format!("GET /poll HTTP/1.1\r\nHost: evil.example\r\nOrigin: {LISTED}\r\n\r\n");
    let answer = requests.exchange(foreign_host);
    assert_eq!((answer.status, allowed(&answer)), (403, Some(LISTED)), "{answer:?}");
    // The origin of a request that cannot be read is unknown.
    for (path, status) in [("/poll?".to_owned() + &"x".repeat(40_000), 431), ("/\u{1}".to_owned(), 400)] {
        let mut requests = PollClient::connect(server.public);
        let answer = requests.exchange(request("GET", &path, &format!("Origin: {LISTED}\r\n")));
        assert_eq!((answer.status, allowed(&answer)), (status, Some("*")), "{answer:?}");
    }
}

#[test]
fn polls_require_a_token_if_configured() {
    let server = RunningServer::with_tokens(&[]);
    let mut requests = PollClient::connect(server.public);
    assert_eq!(requests.get("channels=news").status, 401);
    let token_for = |channel: &str| token("alice", json!({"channels": {channel: ["subscribe"]}}));
    let token_for_chat = token_for("chat");
    assert_eq!(requests.get(&format!("channels=news&token={token_for_chat}")).status, 403);
    let token = token_for("news");
    let hello = hello(&requests.exchange(get_with("channels=news", &bearer(&token))).json());
    assert_eq!(requests.get(&poll_query(&hello, 0)).status, 401);
    assert!(!server.logs.text().contains(&hello.resume), "the log contains the secret");
}
