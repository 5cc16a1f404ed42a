use encke_tests::bayeux::{
    BayeuxPolling, JSON, assert_refused, assert_successful, client_id, connect, connect_now, handshake,
    messages, post, publish, session, with_field,
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
        let mut ask = |message: Value| {
            requests.send(&post(path, JSON, &message.to_string()));
            messages(&requests.response()).remove(0)
        };
        let id = client_id(&ask(handshake()));
        assert_successful(&ask(connect(&id)));
        assert_successful(&ask(publish(&id, "/news", 1)));
        assert_successful(&ask(encke_tests::bayeux::disconnect(&id)));
    }
    for path in ["/bayeuxx", "/bayeux/nonsense", "/Bayeux"] {
        requests.send(&post(path, JSON, &handshake().to_string()));
        assert_eq!(requests.response().status, 404, "{path}");
    }
}

#[test]
fn path_is_configurable() {
    let server = RunningServer::with(&["bayeux.path=/cometd"]);
    let mut requests = PollClient::connect(server.public);
    for path in ["/cometd", "/cometd/", "/cometd/handshake"] {
        requests.send(&post(path, JSON, &handshake().to_string()));
        client_id(&messages(&requests.response())[0]);
    }
    requests.send(&post("/bayeux", JSON, &handshake().to_string()));
    assert_eq!(requests.response().status, 404);
}

#[test]
fn body_is_an_array_or_a_single_object() {
    let server = RunningServer::with(&[]);
    let mut polls = BayeuxPolling::connect(server.public);
    let id = client_id(&polls.reply(&json!([handshake()])));
    client_id(&polls.reply(&handshake()));
    assert_successful(&polls.reply(&json!([connect_now(&id)])));
    assert_successful(&polls.reply(&connect_now(&id)));
    let answer = polls.request(&json!([publish(&id, "/a", 1), publish(&id, "/b", 1), connect_now(&id)]));
    let channels: Vec<_> = answer.iter().map(|reply| reply["channel"].clone()).collect();
    assert_eq!(channels, ["/a", "/b", "/meta/connect"]);
    polls.requests.send(&post("/bayeux", JSON, "[]"));
    assert_eq!(polls.requests.response().body, "[]");
    polls.requests.send(&post("/bayeux", JSON, " [ ]\r\n"));
    assert_eq!(polls.requests.response().body, "[]");
}

/// Faye sends forms to another origin, because they need no preflight.
#[test]
fn bodies_may_have_three_content_types() {
    let server = RunningServer::with(&[]);
    let mut requests = PollClient::connect(server.public);
    let hello = handshake().to_string();
    let encoded: String = json!([handshake()])
        .to_string()
        .bytes()
        .map(|byte| match byte {
            b' ' => "+".to_owned(),
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => char::from(byte).to_string(),
            other => format!("%{other:02X}"),
        })
        .collect();
    let form = format!("message={encoded}");
    let more = format!("a=b&{form}&jsonp=");
    for (content_type, body) in [
        ("application/json", &hello),
        ("application/json; charset=UTF-8", &hello),
        ("application/json;charset=utf-8", &hello),
        ("Application/JSON", &hello),
        ("text/plain", &hello),
        ("text/plain;charset=UTF-8", &hello),
        ("application/x-www-form-urlencoded", &form),
        ("application/x-www-form-urlencoded; charset=UTF-8", &form),
        ("application/x-www-form-urlencoded", &more),
    ] {
        requests.send(&post("/bayeux", &format!("Content-Type: {content_type}\r\n"), body));
        let answer = requests.response();
        client_id(&messages(&answer)[0]);
        assert_eq!(answer.header("content-type"), Some("application/json"), "{content_type}");
    }
    for headers in ["", "Content-Type: text/html\r\n", "Content-Type: application/jsonp\r\n"] {
        requests.send(&post("/bayeux", headers, &hello));
        assert_eq!(requests.response().status, 415, "{headers:?}");
    }
    // These forms contain no message.
    for body in ["", "message=", "messages=%5B%5D", "message=%zz"] {
        let headers = "Content-Type: application/x-www-form-urlencoded\r\n";
        requests.send(&post("/bayeux", headers, body));
        assert_eq!(requests.response().status, 400, "{body:?}");
    }
}

/// The connection and the session remain usable after invalid JSON.
#[test]
fn invalid_json_is_a_bad_request() {
    let server = RunningServer::with(&[]);
    let mut polls = BayeuxPolling::connect(server.public);
    let id = polls.open(&[]);
    let deep = "[".repeat(20_000);
    for body in ["", "{", "nonsense", "[{]", "{}{}", "{\"a\":01}", &deep] {
        polls.requests.send(&post("/bayeux", JSON, body));
        let answer = polls.requests.response();
        assert_eq!(answer.status, 400, "{body:.20}");
        assert_eq!(answer.header("cache-control"), Some("no-store"), "{body:.20}");
    }
    // Valid JSON that cannot be a message.
    for body in ["\"/meta/connect\"", "7", "null", "[7]", "[[]]", "[null]", "{}", "[{}]"] {
        polls.requests.send(&post("/bayeux", JSON, body));
        let answer = polls.requests.response();
        if answer.status != 400 {
            assert_refused_with_any_code(&messages(&answer)[0]);
        }
    }
    let mut not_text = PollClient::connect(server.public);
    not_text.send(&format!("POST /bayeux HTTP/1.1\r\nHost: 127.0.0.1\r\n{JSON}Content-Length: 3\r\n\r\n"));
    std::io::Write::write_all(&mut not_text.stream(), b"\"\xff\"").expect("the server reads");
    assert_eq!(not_text.response().status, 400);
    assert_successful(&polls.reply(&connect_now(&id)));
}

#[test]
fn unknown_meta_channel_does_not_affect_other_messages() {
    let server = RunningServer::with(&[]);
    let mut polls = BayeuxPolling::connect(server.public);
    let id = polls.open(&[]);
    let nonsense = with_field(connect(&id), "channel", "/meta/nonsense");
    let answer = polls.request(&json!([nonsense, publish(&id, "/news", 1), connect(&id)]));
    assert_refused(&answer[0], "404");
    assert_eq!((&answer[0]["channel"], &answer[0]["id"]), (&json!("/meta/nonsense"), &json!("c")));
    assert_successful(&answer[1]);
    assert_successful(connect_reply(&answer));
    // Unknown fields are ignored.
    let odd =
        with_field(with_field(connect_now(&id), "timestamp", "12:00:00 1970"), "ext", json!({"other": [1]}));
    assert_successful(&polls.reply(&odd));
    // Known fields of the wrong type are refused or ignored.
    let reply = polls.reply(&with_field(connect_now(&id), "ext", 7));
    if reply["successful"] != true {
        assert_refused_with_any_code(&reply);
    }
    assert_eq!(server.admin.phase(&session(&id)).as_deref(), Some("attached"));
}

#[test]
fn messages_in_a_request_are_limited_to_64() {
    let server = RunningServer::with(&["limits.commands_per_second=0"]);
    let mut polls = BayeuxPolling::connect(server.public);
    let id = polls.open(&["/news"]);
    let many = |count: u64| json!((0..count).map(|number| publish(&id, "/news", number)).collect::<Vec<_>>());
    polls.requests.send(&post("/bayeux", JSON, &many(65).to_string()));
    let status = polls.requests.response().status;
    assert!(matches!(status, 400 | 413), "{status}");
    let replies = polls.request(&many(64));
    assert_eq!(replies.len(), 64);
    replies.iter().for_each(assert_successful);
    let received = encke_tests::bayeux::events(&polls.request(&connect_now(&id)));
    assert_eq!(received, Vec::from_iter(0..64), "nothing of the refused request");
}

#[test]
fn size_of_a_body_is_limited() {
    let server = RunningServer::with(&["limits.max_message=4KiB"]);
    let mut polls = BayeuxPolling::connect(server.public);
    let id = polls.open(&[]);
    let empty = publish(&id, "/news", "").to_string().len();
    let longest = publish(&id, "/news", "x".repeat(4096 - empty));
    assert_eq!(longest.to_string().len(), 4096);
    assert_successful(&polls.reply(&longest));
    let longer = publish(&id, "/news", "x".repeat(4097 - empty)).to_string();
    let mut requests = PollClient::connect(server.public);
    requests.send(&post("/bayeux", JSON, &longer));
    assert_eq!(requests.response().status, 413);
    // The announced length suffices for the refusal.
    let mut requests = PollClient::connect(server.public);
    requests.send(&format!(
        "POST /bayeux HTTP/1.1\r\nHost: 127.0.0.1\r\n{JSON}Content-Length: 1000000000\r\n\r\n"
    ));
    assert_eq!(requests.response().status, 413);
    // A body without a length is measured as it is read.
    let mut requests = PollClient::connect(server.public);
    requests.send(&format!(
        "POST /bayeux HTTP/1.1\r\nHost: 127.0.0.1\r\n{JSON}Transfer-Encoding: chunked\r\n\r\n{:x}\r\n{longer}\r\n0\r\n\r\n",
        longer.len()
    ));
    assert_eq!(requests.response().status, 413);
    assert_successful(&polls.reply(&connect_now(&id)));
}

#[test]
fn other_methods_are_not_allowed() {
    let server = RunningServer::with(&[]);
    let mut requests = PollClient::connect(server.public);
    for method in ["PUT", "DELETE", "PATCH"] {
        requests.send(&format!("{method} /bayeux HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"));
        let answer = requests.response();
        assert_eq!(answer.status, 405, "{method}");
        assert!(answer.header("allow").is_some_and(|allowed| allowed.contains("POST")), "{answer:?}");
    }
}

/// The second request arrives in two pieces while the connect in the first request is held.
#[test]
fn a_request_may_come_in_pieces_and_behind_another() {
    let server = RunningServer::with(&[]);
    let mut polls = BayeuxPolling::connect(server.public);
    let id = polls.open(&["/news"]);
    let held = post("/bayeux/connect", JSON, &json!([connect(&id)]).to_string());
    let next = post("/bayeux", JSON, &json!([publish(&id, "/other", 1)]).to_string());
    let (half, rest) = next.split_at(next.len() / 2);
    polls.requests.send(&(held + half));
    super::await_held(&server, &id);
    polls.requests.send(rest);
    server.admin.publish("/news", 1);
    assert_eq!(encke_tests::bayeux::events(&polls.response()), [1]);
    assert_eq!(polls.response()[0]["channel"], "/other");
}

/// Clients in other languages may escape slashes, use numeric ids and order fields differently.
#[test]
fn any_spelling_of_json_is_accepted() {
    let server = RunningServer::with(&[]);
    let mut requests = PollClient::connect(server.public);
    let mut ask = |body: &str| {
        requests.send(&post("/bayeux", JSON, body));
        messages(&requests.response()).remove(0)
    };
    let reply = ask(
        r#"[{"supportedConnectionTypes":["long\u002dpolling"],"version":"1\u002e0","\u0069d":"\u0031","channel":"\/meta\/handshake"}]"#,
    );
    let id = client_id(&reply);
    assert_eq!(reply["id"], "1");
    let connect = ask(&format!(
        r#" [ {{ "connectionType" : "long-polling" , "clientId" : "{id}" , "channel" : "\/meta\/connect" , "id" : 7 }} ] "#
    ));
    assert_successful(&connect);
    assert_eq!(connect["id"], 7);
    let subscribe = ask(&format!(
        r#"[{{"channel":"\/meta\/subscribe","subscription":"\/n\u0065ws","clientId":"{id}","id":"s"}}]"#
    ));
    assert_successful(&subscribe);
    assert_eq!(super::subscribed_channels(&server, &id), ["/news"]);
    let publish = ask(&format!(r#"[{{"channel":"\/news","data":"\/","clientId":"{id}","id":null}}]"#));
    assert_successful(&publish);
    let answer = ask(&format!(
        r#"[{{"channel":"\/meta\/connect","clientId":"{id}","connectionType":"long-polling","advice":{{"timeout":0}}}}]"#
    ));
    assert_eq!((&answer["channel"], &answer["data"]), (&json!("/news"), &json!("/")));
}

/// One response carries about 64 KiB. The rest follows in the next responses, with and without
/// acknowledgements.
#[test]
fn backlog_is_split_into_several_answers() {
    const LONG: usize = 10_000;
    let server = RunningServer::with(&[]);
    let mut polls = BayeuxPolling::connect(server.public);
    let clients = [false, true].map(|acknowledges| {
        let id = client_id(&polls.reply(&with_field(handshake(), "ext", json!({ "ack": acknowledges }))));
        assert_successful(&polls.reply(&encke_tests::bayeux::subscribe(&id, "/news")));
        assert_successful(&polls.reply(&connect_now(&id)));
        (id, acknowledges)
    });
    for number in 1..=50 {
        server.admin.publish("/news", json!([number, "x".repeat(LONG)]));
    }
    for (id, acknowledges) in clients {
        let (mut received, mut ack, mut answers) = (Vec::new(), 0, 0);
        while received.len() < 50 {
            let connect =
                if acknowledges { encke_tests::bayeux::connect_with_ack(&id, ack) } else { connect(&id) };
            let answer = polls.request(&connect);
            ack = connect_reply(&answer)["ext"]["ack"].as_u64().unwrap_or_default();
            assert_eq!(connect_reply(&answer)["ext"].get("encke"), None, "no gap");
            received.extend(encke_tests::bayeux::events(&answer).into_iter().map(|data| data[0].clone()));
            answers += 1;
        }
        assert_eq!(received, Vec::from_iter(1..=50));
        assert!((7..=13).contains(&answers), "{answers}");
    }
}
