use std::time::{Duration, SystemTime, UNIX_EPOCH};

use encke_tests::admin::send_request;
use encke_tests::bayeux::{BayeuxPolling, BayeuxWebSocket, handshake, publish};
use encke_tests::poll::{PollClient, get_with};
use encke_tests::waiting::{MAX_LATENESS, until};
use encke_tests::{BackendRequest, Backend, Client, EventStream, Launch, RawClient, BackendReply, RunningServer, tokens};
use serde_json::{Value, json};

use super::{alice, asking};

const TOKEN_EXPIRED: u16 = 4003;
const OVERLOADED: u16 = 4005;
const UNAUTHORIZED: u16 = 4102;

/// A server without keys, whose backend says who clients are.
fn asked_by(backend: &Backend) -> Launch {
    Launch::default().set(&format!("backend.connect={}", backend.url("/connect")))
}

/// A backend that takes tokens for names. Everyone may follow what is theirs.
fn by_name() -> Backend {
    let backend = Backend::start();
    backend.reply_with(|asked| match asked.json()["token"].as_str() {
        None | Some("nobody") => {
            BackendReply::json(json!({"error": {"code": "unknown", "message": "who are you?"}}))
        }
        Some(name) => {
            let own = format!("{name}.*");
            BackendReply::json(json!({"sub": name, "channels": {own: ["subscribe", "publish"]}}))
        }
    });
    backend
}

fn user(server: &RunningServer, session: &str) -> Value {
    server.admin.session(session)["user"].clone()
}

#[test]
fn the_backend_says_who_a_client_is_and_what_it_may_do() {
    let backend = by_name();
    let server = asked_by(&backend).start();
    let mut client = Client::connect(server.public, "token=alice");
    assert_eq!(user(&server, &client.hello.session), "alice");
    assert!(client.request(r#"{"id":1,"subscribe":{"channel":"alice.inbox"}}"#)["ok"].is_object());
    let refused = client.request(r#"{"id":2,"subscribe":{"channel":"bob.inbox"}}"#);
    assert_eq!(refused["error"]["code"], "forbidden");
    let refused = client.request(r#"{"id":3,"refresh":{"token":"alice"}}"#);
    assert_eq!(
        refused["error"]["message"],
        "tokens cannot be refreshed: the backend authenticates clients when they connect"
    );
    assert_eq!(Client::refusal_code(server.public, "token=nobody"), UNAUTHORIZED);
    assert_eq!(Client::refusal_code(server.public, ""), UNAUTHORIZED);
    assert_eq!(server.admin.metrics().refusals("backend"), 2.0);
    let question = json!({
        "transport": "websocket", "dialect": "json", "address": "127.0.0.1", "token": "alice", "headers": {}, "cookies": {},
    });
    assert_eq!(backend.requests()[0].json(), question);
}

#[test]
fn each_transport_and_each_dialect_is_asked_about() {
    let backend = by_name();
    let server = asked_by(&backend).start();
    let mut stream = EventStream::open(server.public, "token=alice&channels=alice.inbox");
    assert_eq!(user(&server, &stream.hello().session), "alice");
    let mut polls = PollClient::connect(server.public);
    let answer = polls.get("token=bob&channels=bob.inbox").json();
    assert_eq!(user(&server, answer[0]["hello"]["session"].as_str().expect("a session")), "bob");
    let with_header = "Authorization: Bearer carol\r\n";
    let answer = send_request(server.public, &get_with("", with_header)).json();
    assert_eq!(user(&server, answer[0]["hello"]["session"].as_str().expect("a session")), "carol");
    for path in ["/events?token=nobody&channels=a", "/poll?token=nobody&channels=a"] {
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        assert_eq!(send_request(server.public, &request).status, 401, "{path}");
    }
    // What it may not follow.
    let request =
        "GET /events?token=alice&channels=bob.inbox HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    assert_eq!(send_request(server.public, request).status, 403);

    let greet = |name: &str| {
        let mut greeting = handshake();
        greeting["ext"] = json!({"authentication": {"token": name}});
        greeting
    };
    let mut polls = BayeuxPolling::connect(server.public);
    let mut socket = BayeuxWebSocket::connect(server.public);
    for reply in [polls.reply(&greet("dave")), socket.request(&greet("dave")).pop().expect("a reply")] {
        let id = reply["clientId"].as_str().unwrap_or_else(|| panic!("{reply}")).to_owned();
        assert_eq!(user(&server, &encke_tests::stock::session_of(&id)), "dave");
    }
    for reply in [
        polls.reply(&greet("nobody")),
        BayeuxWebSocket::connect(server.public).request(&greet("nobody")).pop().expect("a reply"),
    ] {
        assert_eq!(
            (&reply["successful"], &reply["advice"]["reconnect"]),
            (&json!(false), &json!("none")),
            "{reply}"
        );
    }
    let transports: Vec<_> = backend.requests().iter().map(|asked| asked.json()["transport"].clone()).collect();
    assert_eq!(
        transports,
        ["sse", "poll", "poll", "sse", "poll", "sse", "poll", "websocket", "poll", "websocket"]
    );
}

/// A token may come with every message: the session's client is who it was.
#[test]
fn a_client_of_bayeux_is_asked_about_once() {
    let backend = by_name();
    let server = asked_by(&backend).start();
    let mut polls = BayeuxPolling::connect(server.public);
    let with_token = |mut message: Value| {
        message["ext"] = json!({"authentication": {"token": "alice"}});
        message
    };
    let id = polls.reply(&with_token(handshake()))["clientId"].as_str().expect("a session").to_owned();
    let connected = polls.reply(&with_token(encke_tests::bayeux::connect_now(&id)));
    assert_eq!(connected["successful"], true, "{connected}");
    let published = polls.reply(&with_token(publish(&id, "/alice", 1)));
    assert!(published["error"].as_str().is_some_and(|error| error.starts_with("403:")), "{published}");
    assert_eq!(backend.requests().len(), 1);
}

#[test]
fn whoever_comes_back_is_not_asked_about() {
    let backend = by_name();
    let server = asked_by(&backend).start();
    let hello = Client::connect(server.public, "token=alice").drop_connection();
    backend.reply_with_status(500);
    let query = format!("resume={}&token=alice", hello.resume);
    let client = Client::connect(server.public, &query);
    assert!(client.hello.recovered);
    assert_eq!(user(&server, &client.hello.session), "alice");
    let mut stream = EventStream::open(server.public, &format!("resume={}", hello.resume));
    assert!(stream.hello().recovered);
    let stream_id = format!("{}:0", hello.resume);
    let mut stream = EventStream::reconnect(server.public, "", &stream_id);
    assert!(stream.hello().recovered);
    assert_eq!(backend.requests().len(), 1);
    // With a token that is none, it is a newcomer.
    assert_eq!(Client::refusal_code(server.public, "resume=s_nonsense&token=alice"), OVERLOADED);
}

#[test]
fn a_session_whose_identity_has_expired_is_asked_about_again() {
    let backend = Backend::start();
    let in_2_s = SystemTime::now() + Duration::from_secs(2);
    let exp = in_2_s.duration_since(UNIX_EPOCH).expect("after 1970").as_secs_f64();
    backend.reply_with(move |_| BackendReply::json(json!({"sub": "alice", "exp": exp, "channels": {}})));
    let server = asked_by(&backend).start();
    let mut client = Client::connect(server.public, "");
    assert_eq!(client.close_code(), Some(TOKEN_EXPIRED));
    backend.reply_with(|_| BackendReply::json(json!({"sub": "alice", "channels": {"a": ["subscribe"]}})));
    let mut client = server.resume(&client.hello.resume);
    assert!(client.hello.recovered);
    client.subscribe("a");
    assert_eq!(backend.requests().len(), 2);
}

#[test]
fn a_backend_that_fails_is_a_closed_door_with_a_time_to_come_back() {
    let backend = Backend::start();
    let server = asked_by(&backend).start();
    for answer in [
        BackendReply::status(500),
        BackendReply::status(0),
        BackendReply::json(r#"{"channels":{}}"#),
        BackendReply::json(r#"{"user":"alice"}"#),
        BackendReply::json(r#"{"sub":null}"#),
    ] {
        backend.reply_with(move |_| answer.clone());
        let mut client = RawClient::upgraded(server.public, "");
        let goaway = client.object();
        assert_eq!(goaway["goaway"]["reason"], "overloaded", "{goaway}");
        assert!(goaway["goaway"]["retry_ms"].is_u64());
        assert_eq!(client.close_code(), OVERLOADED);
    }
    assert_eq!(server.admin.metrics().sessions("attached"), 0.0);
    // Others are not delayed by one that waits for its answer.
    backend.reply_with(|asked| {
        let waits = asked.json()["token"] == "slow";
        BackendReply::status(200).delayed_by(if waits { Duration::from_secs(3) } else { Duration::ZERO })
    });
    let mut slow = RawClient::connect(server.public);
    slow.request_upgrade("token=slow");
    until("it is asked", || backend.requests().iter().any(|asked| asked.json()["token"] == "slow"));
    let from = std::time::Instant::now();
    drop(server.client());
    assert!(from.elapsed() < Duration::from_secs(1) + MAX_LATENESS);
    slow.await_upgrade();
    slow.hello();
}

#[test]
fn what_is_passed_on_is_configured() {
    let backend = Backend::start();
    let launch = asked_by(&backend).set(r#"backend.headers=["user-agent", "x-real"]"#);
    let server = launch.set(r#"backend.cookies=["sid"]"#).start();
    let mut client = RawClient::connect(server.public);
    client.request_upgrade_with("", "User-Agent: me\r\nCookie: sid=a=b; other=1\r\nX-Other: no\r\n");
    client.await_upgrade();
    client.hello();
    let asked: Value = backend.requests().first().map(BackendRequest::json).expect("a question");
    assert_eq!(
        (&asked["headers"], &asked["cookies"]),
        (&json!({"user-agent": "me"}), &json!({"sid": "a=b"}))
    );
}

/// Where the server has keys, it looks at tokens first; the backend is told whose it was.
#[test]
fn tokens_are_looked_at_first() {
    let backend = Backend::start();
    let server = asking(&backend, &["connect"]).start();
    let client = alice(&server);
    assert_eq!(user(&server, &client.hello.session), "alice", "an empty answer changes nothing");
    let asked = backend.requests()[0].json();
    assert_eq!((&asked["user"], asked.get("token")), (&json!("alice"), None));
    assert_eq!(Client::refusal_code(server.public, "token=a.b.c"), UNAUTHORIZED);
    assert_eq!(backend.requests().len(), 1, "it is not asked about a bad one");
    // Nor about pages of strangers.
    let mut page = RawClient::connect(server.public);
    page.request_upgrade_with("", "Origin: https://evil.example\r\n");
    page.await_upgrade();
    assert_eq!(page.close_code(), UNAUTHORIZED);
    assert_eq!(backend.requests().len(), 1);
}

/// Who it is, is known of whoever comes back to its session, and for that session alone.
#[test]
fn nobody_gets_another_session_by_a_resume_token() {
    let backend = by_name();
    let server = asked_by(&backend).start();
    let hello = Client::connect(server.public, "token=alice").drop_connection();
    backend.reply_with_status(403);
    let token = &hello.resume;
    // The last one of two counts, everywhere.
    assert_eq!(Client::refusal_code(server.public, &format!("resume={token}&resume=x")), UNAUTHORIZED);
    // It cannot go on.
    assert_eq!(Client::refusal_code(server.public, &format!("resume={token}&seq=999999")), UNAUTHORIZED);
    // Of an event stream alone.
    let mut client = RawClient::connect(server.public);
    client.request_upgrade_with("", &format!("Last-Event-ID: {token}:0\r\n"));
    client.await_upgrade();
    assert_eq!(client.close_code(), UNAUTHORIZED);
    let get = |path: &str, headers: &str| {
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{headers}Connection: close\r\n\r\n");
        send_request(server.public, &request).status
    };
    assert_eq!(get("/poll?channels=a", &format!("Last-Event-ID: {token}:0\r\n")), 401);
    assert_eq!(get(&format!("/events?channels=a&resume={token}"), "Last-Event-ID: s_x.y:0\r\n"), 401);
    assert_eq!(server.admin.metrics().events("opened", "connect"), 1.0);
    let resumed = Client::connect(server.public, &format!("resume={token}"));
    assert!(resumed.hello.recovered);
}

/// A request that is refused for what it says, asks nobody; nor do those that come too fast.
#[test]
fn our_own_checks_come_first() {
    let backend = Backend::start();
    let server = asked_by(&backend).start();
    for path in
        ["/events", "/events?channels=$x", "/poll?seq=x", "/ws", "/ws?resume=a", "/events?channels=a,,b"]
    {
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        assert!(send_request(server.public, &request).status >= 400, "{path}");
    }
    let gone = "GET /events?resume=s_nonsense HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    assert_eq!(send_request(server.public, gone).status, 410);
    let mut client = RawClient::connect(server.public);
    client.request_upgrade("seq=x");
    client.await_upgrade();
    client.close_code();
    assert_eq!(backend.requests().len(), 0);

    let server = asked_by(&backend).set("limits.sessions_per_second_per_address=2").start();
    let refused = (0..20).filter(|_| Client::try_connect(server.public, "").is_err()).count();
    assert!(refused >= 10, "{refused}");
    assert_eq!(backend.requests().len(), 20 - refused);
}

/// A token that comes again, or a new one, does not undo what the backend has said.
#[test]
fn a_token_does_not_take_the_place_of_the_backends_word() {
    let backend = Backend::start();
    backend.reply_with(|_| BackendReply::json(json!({"sub": "alice", "channels": {"/lobby": ["subscribe"]}})));
    let server = asking(&backend, &["connect"]).start();
    let claims = json!({"sub": "alice", "channels": {"*": ["subscribe", "publish"]}});
    let token = tokens::sign(&claims, tokens::SECRET);
    let mut client = alice(&server);
    let refused = client.request(&json!({"id": 1, "refresh": {"token": token}}).to_string());
    assert_eq!(refused["error"]["code"], "forbidden");
    let refused = client.request(r#"{"id":2,"publish":{"channel":"news","data":1}}"#);
    assert_eq!(refused["error"]["code"], "forbidden");

    let mut polls = BayeuxPolling::connect(server.public);
    let with_token = |mut message: Value| {
        message["ext"] = json!({"authentication": {"token": token}});
        message
    };
    let id = polls.reply(&with_token(handshake()))["clientId"].as_str().expect("a session").to_owned();
    let connected = polls.reply(&with_token(encke_tests::bayeux::connect_now(&id)));
    assert_eq!(connected["successful"], true, "{connected}");
    let published = polls.reply(&with_token(publish(&id, "/news", 1)));
    assert!(published["error"].as_str().is_some_and(|error| error.starts_with("403:")), "{published}");
}

/// Newcomers from one address leave room for the questions of others.
#[test]
fn newcomers_do_not_take_all_questions() {
    let backend = Backend::start();
    backend.reply_with(|asked| {
        let waits = asked.path == "/connect" && asked.json()["token"] == "slow";
        BackendReply::status(200).delayed_by(if waits { Duration::from_secs(3) } else { Duration::ZERO })
    });
    let launch = asked_by(&backend).set(&format!("backend.call={}", backend.url("/call")));
    let server = launch.set("backend.max_in_flight=8").start();
    let mut client = server.client();
    let slow: Vec<_> = (0..8)
        .map(|_| {
            let mut slow = RawClient::connect(server.public);
            slow.request_upgrade("token=slow");
            slow
        })
        .collect();
    until("four of them are asked about", || {
        backend.requests().iter().filter(|asked| asked.json()["token"] == "slow").count() == 4
    });
    assert_eq!(client.request(r#"{"id":1,"call":{"method":"x"}}"#)["ok"], json!({"data": null}));
    drop(slow);
}
