use encke_tests::bayeux::{
    BayeuxPolling, JSON, assert_successful, client_id, connect, connect_now, disconnect, events, handshake,
    messages, post, publish,
};
use encke_tests::{PollClient, RunningServer};
use serde_json::{Value, json};

use super::{assert_refused_with_any_code, connect_reply};

/// CometD appends the kind of a message to the path. The path makes no difference.
#[test]
fn every_path_accepts_every_message() {
    let server = RunningServer::with(&[]);
    let mut requests = PollClient::connect(server.public);
    for path in ["/bayeux", "/bayeux/", "/bayeux/handshake", "/bayeux/connect", "/bayeux/disconnect"] {
        let mut ask =
            |message: Value| messages(&requests.exchange(post(path, JSON, &message.to_string()))).remove(0);
        let id = client_id(&ask(handshake()));
        for message in [connect(&id), publish(&id, "/news", 1), disconnect(&id)] {
            assert_successful(&ask(message));
        }
    }
    let configured = RunningServer::with(&["bayeux.path=/cometd"]);
    for (server, path, status) in [
        (&server, "/bayeuxx", 404),
        (&server, "/bayeux/nonsense", 404),
        (&server, "/Bayeux", 404),
        (&configured, "/cometd", 200),
        (&configured, "/cometd/", 200),
        (&configured, "/cometd/handshake", 200),
        (&configured, "/bayeux", 404),
    ] {
        let request = post(path, JSON, &handshake().to_string());
        assert_eq!(PollClient::connect(server.public).exchange(request).status, status, "{path}");
    }
}

/// Faye sends forms to another origin, because they need no preflight.
#[test]
fn bodies_may_have_three_content_types() {
    let server = RunningServer::with(&[]);
    let mut requests = PollClient::connect(server.public);
    let hello = handshake().to_string();
    let encode = |byte: u8| match byte {
        b' ' => "+".to_owned(),
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => char::from(byte).to_string(),
        other => format!("%{other:02X}"),
    };
    let encoded: String = json!([handshake()]).to_string().bytes().map(encode).collect();
    let form = format!("message={encoded}");
    let more = format!("a=b&{form}&jsonp=");
    let form_type = "application/x-www-form-urlencoded";
    for (content_type, body, status) in [
        ("application/json", &*hello, 200),
        ("application/json; charset=UTF-8", &hello, 200),
        ("Application/JSON", &hello, 200),
        ("text/plain", &hello, 200),
        ("text/plain;charset=UTF-8", &hello, 200),
        (form_type, &form, 200),
        ("application/x-www-form-urlencoded; charset=UTF-8", &form, 200),
        (form_type, &more, 200),
        ("", &hello, 415),
        ("text/html", &hello, 415),
        ("application/jsonp", &hello, 415),
        // These forms contain no message.
        (form_type, "", 400),
        (form_type, "message=", 400),
        (form_type, "messages=%5B%5D", 400),
        (form_type, "message=%zz", 400),
    ] {
        let header = format!("Content-Type: {content_type}\r\n");
        let header = if content_type.is_empty() { "" } else { &*header };
        let answer = requests.exchange(post("/bayeux", header, body));
        assert_eq!(answer.status, status, "{content_type}: {body:?}");
        if status == 200 {
            client_id(&messages(&answer)[0]);
        }
    }
}

/// The connection and the session remain usable after invalid JSON.
#[test]
fn invalid_json_is_a_bad_request() {
    let server = RunningServer::with(&[]);
    let (mut polls, id) = BayeuxPolling::opened(server.public, &[]);
    let deep = "[".repeat(20_000);
    for body in ["", "{", "nonsense", "[{]", "{}{}", "{\"a\":01}", &deep] {
        let answer = polls.requests.exchange(post("/bayeux", JSON, body));
        assert_eq!((answer.status, answer.header("cache-control")), (400, Some("no-store")), "{body:.20}");
    }
    // Valid JSON that cannot be a message.
    for body in ["\"/meta/connect\"", "7", "null", "[7]", "[[]]", "[null]", "{}", "[{}]"] {
        let answer = polls.requests.exchange(post("/bayeux", JSON, body));
        if answer.status != 400 {
            assert_refused_with_any_code(&messages(&answer)[0]);
        }
    }
    let mut not_text = PollClient::connect(server.public);
    not_text.send(format!("POST /bayeux HTTP/1.1\r\nHost: 127.0.0.1\r\n{JSON}Content-Length: 3\r\n\r\n"));
    std::io::Write::write_all(&mut not_text.stream(), b"\"\xff\"").expect("the server reads");
    assert_eq!(not_text.response().status, 400);
    assert_successful(&polls.reply(&connect_now(&id)));
}

#[test]
fn size_of_a_body_is_limited() {
    let server = RunningServer::with(&["limits.max_message=16KiB", "limits.commands_per_second=0"]);
    let (mut polls, id) = BayeuxPolling::opened(server.public, &["/news"]);
    let many = |count: u64| json!((0..count).map(|number| publish(&id, "/news", number)).collect::<Vec<_>>());
    let status = polls.requests.exchange(post("/bayeux", JSON, &many(65).to_string())).status;
    assert!(matches!(status, 400 | 413), "{status}");
    let replies = polls.request(&many(64));
    assert_eq!(replies.len(), 64);
    replies.iter().for_each(assert_successful);
    let received = events(&polls.request(&connect_now(&id)));
    assert_eq!(received, Vec::from_iter(0..64), "nothing of the refused request");

    let empty = publish(&id, "/news", "").to_string().len();
    let longest = publish(&id, "/news", "x".repeat(16 * 1024 - empty));
    assert_successful(&polls.reply(&longest));
    let longer = publish(&id, "/news", "x".repeat(16 * 1024 + 1 - empty)).to_string();
    let head = format!("POST /bayeux HTTP/1.1\r\nHost: 127.0.0.1\r\n{JSON}");
    let length = longer.len();
    for request in [
        post("/bayeux", JSON, &longer),
        // The announced length suffices for the refusal.
        format!("{head}Content-Length: 1000000000\r\n\r\n"),
        // A body without a length is measured as it is read.
        format!("{head}Transfer-Encoding: chunked\r\n\r\n{length:x}\r\n{longer}\r\n0\r\n\r\n"),
    ] {
        assert_eq!(PollClient::connect(server.public).exchange(&request).status, 413, "{request:.200}");
    }
    assert_successful(connect_reply(&polls.request(&connect_now(&id))));
}

/// One response carries about 64 KiB. The rest follows in the next responses.
#[test]
fn backlog_is_split_into_several_answers() {
    let server = RunningServer::with(&[]);
    let (mut polls, id) = BayeuxPolling::opened(server.public, &["/news"]);
    for number in 1..=50 {
        server.admin.publish("/news", json!([number, "x".repeat(10_000)]));
    }
    let (mut received, mut answers) = (Vec::new(), 0);
    while received.len() < 50 {
        let answer = polls.request(&connect(&id));
        assert_eq!(connect_reply(&answer)["ext"].get("encke"), None, "no gap");
        received.extend(events(&answer).into_iter().map(|data| data[0].clone()));
        answers += 1;
    }
    assert_eq!(received, Vec::from_iter(1..=50));
    assert!((7..=13).contains(&answers), "{answers}");
}
