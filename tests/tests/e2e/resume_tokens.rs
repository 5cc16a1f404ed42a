use encke_tests::bayeux::{
    BayeuxPolling, BayeuxWebSocket, client_id, connect_now, disconnect, handshake, publish, session,
    with_token,
};
use encke_tests::connection::Connection;
use encke_tests::http::{bearer, post, send_request};
use encke_tests::poll::get_with;
use encke_tests::raw::upgrade_request;
use encke_tests::tokens::{sign, token, unix_time};
use encke_tests::{Hello, RawClient, RunningServer};
use serde_json::{Value, json};

const JSON: &str = "Content-Type: application/json\r\n";

/// A request that uses a session. Returns whether it was accepted.
type Attempt = fn(&RunningServer, &Hello, query: &str, headers: &str) -> bool;

fn is_json_accepted(server: &RunningServer, request: String) -> bool {
    let mut connection = Connection::connect(server.public);
    let answer = connection.exchange(request);
    assert!(matches!(answer.status, 200 | 401 | 403), "{answer:?}");
    answer.status == 200
}

fn is_stream_accepted(server: &RunningServer, query: &str, headers: &str) -> bool {
    let mut connection = <Connection>::connect(server.public);
    connection.send(format!("GET /events?{query} HTTP/1.1\r\nHost: 127.0.0.1\r\n{headers}\r\n"));
    connection.http_head().starts_with("HTTP/1.1 200 ")
}

fn is_bayeux_accepted(server: &RunningServer, message: &Value, query: &str, headers: &str) -> bool {
    let headers = format!("{JSON}{headers}Connection: close\r\n");
    let request = post(&format!("/bayeux?{query}"), &headers, &message.to_string());
    send_request(server.public, &request).ok()[0]["successful"] == true
}

fn is_bayeux_socket_accepted(server: &RunningServer, message: &Value, query: &str, headers: &str) -> bool {
    let mut raw = RawClient::connect(server.public);
    raw.request_upgrade_at(&format!("/bayeux?{query}"), headers);
    raw.await_upgrade();
    BayeuxWebSocket { raw }.reply(message)["successful"] == true
}

const ATTEMPTS: [(&str, Attempt); 10] = [
    ("WebSocket", |server, hello, query, headers| {
        let mut client = RawClient::connect(server.public);
        client.request_upgrade_with(&format!("resume={}&{query}", hello.resume), headers);
        client.await_upgrade();
        let frame = client.frame();
        serde_json::from_slice::<Value>(&frame.payload).is_ok_and(|hello| hello["hello"]["recovered"] == true)
    }),
    ("event stream", |server, hello, query, headers| {
        is_stream_accepted(server, &format!("resume={}&{query}", hello.resume), headers)
    }),
    ("Last-Event-ID", |server, hello, query, headers| {
        is_stream_accepted(server, query, &format!("Last-Event-ID: {}:0\r\n{headers}", hello.resume))
    }),
    ("GET /poll", |server, hello, query, headers| {
        is_json_accepted(server, get_with(&format!("resume={}&seq=0&{query}", hello.resume), headers))
    }),
    ("POST /poll", |server, hello, query, headers| {
        let body = json!({"id": 1, "publish": {"channel": "/news", "data": 1}}).to_string();
        let path = format!("/poll?resume={}&{query}", hello.resume);
        is_json_accepted(server, post(&path, &format!("{JSON}{headers}"), &body))
    }),
    ("Bayeux connect", |server, hello, query, headers| {
        is_bayeux_accepted(server, &connect_now(&hello.resume), query, headers)
    }),
    ("Bayeux publish", |server, hello, query, headers| {
        is_bayeux_accepted(server, &publish(&hello.resume, "/news", 1), query, headers)
    }),
    ("Bayeux disconnect", |server, hello, query, headers| {
        is_bayeux_accepted(server, &disconnect(&hello.resume), query, headers)
    }),
    ("Bayeux connect by WebSocket", |server, hello, query, headers| {
        is_bayeux_socket_accepted(server, &connect_now(&hello.resume), query, headers)
    }),
    ("Bayeux publish by WebSocket", |server, hello, query, headers| {
        is_bayeux_socket_accepted(server, &publish(&hello.resume, "/news", 1), query, headers)
    }),
];

/// Opens a session over Bayeux. Its `clientId` is the token for resuming.
fn bayeux_session(server: &RunningServer, token: &str) -> Hello {
    let mut polls = BayeuxPolling::connect(server.public);
    let resume = client_id(&polls.reply(&with_token(handshake(), token)));
    Hello { session: session(&resume), resume, recovered: false, object: Value::Null }
}

/// One rule applies to every transport: a request that uses a session needs a valid token of the session's
/// user. Bayeux messages may omit it, but not send another.
#[test]
fn a_resume_token_needs_a_token_of_its_user() {
    let server =
        RunningServer::with_tokens(&["session.poll_hold=100ms", "limits.bad_signatures_per_second=0"]);
    let alices = token("alice", json!({}));
    let presented = [
        ("valid", Some(alices.clone())),
        ("missing", None),
        ("malformed", Some("garbage".to_owned())),
        ("empty", Some(String::new())),
        ("forged", Some(sign(&json!({"sub": "alice"}), "another secret that is long enough"))),
        ("bob's", Some(token("bob", json!({})))),
        ("expired", Some(token("alice", json!({"exp": unix_time().as_secs()})))),
    ];
    let mut published = 0;
    for (transport, attempt) in ATTEMPTS {
        let is_bayeux = transport.starts_with("Bayeux");
        for (kind, presented) in &presented {
            let is_allowed = match *kind {
                "valid" => true,
                "missing" => is_bayeux,
                // A client may end its session after its token has expired.
                "expired" => transport == "Bayeux disconnect",
                _ => false,
            };
            let in_query = presented.as_ref().map_or(String::new(), |token| format!("token={token}"));
            let in_header = presented.as_ref().map_or(String::new(), |token| bearer(token));
            for (query, headers) in [(&*in_query, ""), ("", &*in_header)] {
                // An empty header is no token.
                let is_allowed = is_allowed || (is_bayeux && *kind == "empty" && query.is_empty());
                let hello = match is_bayeux {
                    true => bayeux_session(&server, &alices),
                    false => server.client_with(&alices).hello,
                };
                let is_accepted = attempt(&server, &hello, query, headers);
                assert_eq!(is_accepted, is_allowed, "{transport}, {kind}, {query}");
                if !is_accepted {
                    assert_eq!(server.admin.session(&hello.session)["user"], "alice", "{transport}, {kind}");
                }
                published +=
                    u64::from(is_accepted && (transport.contains("publish") || transport == "POST /poll"));
            }
        }
    }
    let channel = server.admin.get("/api/channels/%2Fnews").ok();
    assert_eq!(channel["last"], published, "{channel}");
}

/// A valid token in one place does not hide another one, even if that is valid, too.
#[test]
fn a_request_with_different_tokens_is_refused() {
    let server = RunningServer::with_tokens(&["session.poll_hold=100ms"]);
    let alices = token("alice", json!({}));
    let forged = sign(&json!({"sub": "alice"}), "another secret that is long enough");
    let bobs = token("bob", json!({}));
    let hello = server.client_with(&alices).hello;
    let get = |path: &str, query: &str, headers: &str| {
        format!("GET {path}?resume={}&{query} HTTP/1.1\r\nHost: 127.0.0.1\r\n{headers}\r\n", hello.resume)
    };
    let post =
        |path: &str, body: &Value, headers: &str| post(path, &format!("{JSON}{headers}"), &body.to_string());
    let requests = |query: &str, headers: &str| {
        let resume = format!("resume={}&{query}", hello.resume);
        let publish_json = json!({"id": 1, "publish": {"channel": "/news", "data": 1}});
        let publish_bayeux = publish(&hello.resume, "/news", 1);
        [
            ("WebSocket", upgrade_request(&["Upgrade"], &format!("/ws?{resume}"), headers)),
            ("event stream", get("/events", query, headers)),
            ("GET /poll", get("/poll", query, headers)),
            ("POST /poll", post(&format!("/poll?{resume}"), &publish_json, headers)),
            ("Bayeux", post(&format!("/bayeux?{query}"), &publish_bayeux, headers)),
            ("Bayeux WebSocket", upgrade_request(&["Upgrade"], &format!("/bayeux?{query}"), headers)),
        ]
    };
    for (in_query, in_header) in [(&alices, &forged), (&forged, &alices), (&alices, &bobs)] {
        for (transport, request) in requests(&format!("token={in_query}"), &bearer(in_header)) {
            let answer = RawClient::connect(server.public).exchange(request);
            answer.assert_error(400, "bad_request");
            let message = answer.json()["error"]["message"].to_string();
            assert!(
                message.contains("`token`") && message.contains("`Authorization"),
                "{transport}: {message}"
            );
        }
    }
    // A proxy may require Basic authentication.
    let basic = "Authorization: Basic dXNlcjpwYXNz\r\n";
    let both = format!("{basic}{}", bearer(&alices));
    for (query, headers) in [
        (format!("token={alices}"), &*bearer(&alices)),
        (format!("token={alices}"), basic),
        (String::new(), &both),
    ] {
        for (transport, request) in requests(&query, headers) {
            let mut client = RawClient::connect(server.public);
            client.send(request);
            let head = client.http_head();
            assert!(
                head.starts_with("HTTP/1.1 200 ") || head.starts_with("HTTP/1.1 101 "),
                "{transport}: {head}"
            );
        }
    }
}
