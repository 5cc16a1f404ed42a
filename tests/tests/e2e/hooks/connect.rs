use std::time::{Duration, SystemTime, UNIX_EPOCH};

use encke_tests::admin::send_request;
use encke_tests::bayeux::{BayeuxPolling, BayeuxWebSocket, handshake, publish};
use encke_tests::poll::{PollClient, get_with};
use encke_tests::waiting::{MAX_LATENESS, until};
use encke_tests::{
    Backend, BackendReply, BackendRequest, Client, EventStream, Launch, RawClient, RunningServer, tokens,
};
use serde_json::{Value, json};

use super::{alice, launch_with_hooks};

const TOKEN_EXPIRED: u16 = 4003;
const OVERLOADED: u16 = 4005;
const UNAUTHORIZED: u16 = 4102;

/// Configures a server without token keys, whose backend authenticates clients.
fn launch_with_connect_hook(backend: &Backend) -> Launch {
    Launch::default().set(&format!("backend.connect={}", backend.url("/connect")))
}

/// Starts a backend that uses the token as the user id. Users may use the channels below their own name.
fn name_backend() -> Backend {
    let backend = Backend::start();
    backend.reply_with(|request| match request.json()["token"].as_str() {
        None | Some("nobody") => {
            BackendReply::json(json!({"error": {"code": "unknown", "message": "unknown user"}}))
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
fn backend_provides_the_user_and_the_permissions() {
    let backend = name_backend();
    let server = launch_with_connect_hook(&backend).start();
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
    let expected = json!({
        "transport": "websocket", "dialect": "json", "address": "127.0.0.1", "token": "alice", "headers": {}, "cookies": {},
    });
    assert_eq!(backend.requests()[0].json(), expected);
}

#[test]
fn backend_authenticates_each_transport_and_dialect() {
    let backend = name_backend();
    let server = launch_with_connect_hook(&backend).start();
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
    // The client may not subscribe to this channel.
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
    let transports: Vec<_> =
        backend.requests().iter().map(|request| request.json()["transport"].clone()).collect();
    assert_eq!(
        transports,
        ["sse", "poll", "poll", "sse", "poll", "sse", "poll", "websocket", "poll", "websocket"]
    );
}

/// Every message may carry a token, which does not change the user of the session.
#[test]
fn bayeux_client_is_authenticated_once() {
    let backend = name_backend();
    let server = launch_with_connect_hook(&backend).start();
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
fn resume_does_not_call_the_backend() {
    let backend = name_backend();
    let server = launch_with_connect_hook(&backend).start();
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
    // A client with an invalid resume token counts as new, so the backend is called.
    assert_eq!(Client::refusal_code(server.public, "resume=s_nonsense&token=alice"), OVERLOADED);
}

#[test]
fn session_with_an_expired_identity_is_authenticated_again() {
    let backend = Backend::start();
    let in_2_s = SystemTime::now() + Duration::from_secs(2);
    let exp = in_2_s.duration_since(UNIX_EPOCH).expect("the clock is after 1970").as_secs_f64();
    backend.reply_with(move |_| BackendReply::json(json!({"sub": "alice", "exp": exp, "channels": {}})));
    let server = launch_with_connect_hook(&backend).start();
    let mut client = Client::connect(server.public, "");
    assert_eq!(client.close_code(), Some(TOKEN_EXPIRED));
    backend.reply_with(|_| BackendReply::json(json!({"sub": "alice", "channels": {"a": ["subscribe"]}})));
    let mut client = server.resume(&client.hello.resume);
    assert!(client.hello.recovered);
    client.subscribe("a");
    assert_eq!(backend.requests().len(), 2);
}

#[test]
fn failing_backend_refuses_clients_with_a_retry_delay() {
    let backend = Backend::start();
    let server = launch_with_connect_hook(&backend).start();
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
    // A client that waits for the backend does not delay other clients.
    backend.reply_with(|request| {
        let waits = request.json()["token"] == "slow";
        BackendReply::status(200).delayed_by(if waits { Duration::from_secs(3) } else { Duration::ZERO })
    });
    let mut slow = RawClient::connect(server.public);
    slow.request_upgrade("token=slow");
    until("the backend is called", || {
        backend.requests().iter().any(|request| request.json()["token"] == "slow")
    });
    let from = std::time::Instant::now();
    drop(server.client());
    assert!(from.elapsed() < Duration::from_secs(1) + MAX_LATENESS);
    slow.await_upgrade();
    slow.hello();
}

#[test]
fn forwarded_headers_and_cookies_are_configurable() {
    let backend = Backend::start();
    let launch = launch_with_connect_hook(&backend).set(r#"backend.headers=["user-agent", "x-real"]"#);
    let server = launch.set(r#"backend.cookies=["sid"]"#).start();
    let mut client = RawClient::connect(server.public);
    client.request_upgrade_with("", "User-Agent: me\r\nCookie: sid=a=b; other=1\r\nX-Other: no\r\n");
    client.await_upgrade();
    client.hello();
    let body: Value = backend.requests().first().map(BackendRequest::json).expect("a request");
    assert_eq!((&body["headers"], &body["cookies"]), (&json!({"user-agent": "me"}), &json!({"sid": "a=b"})));
}

/// A server with token keys verifies the token first and sends the user to the backend.
#[test]
fn tokens_are_verified_before_the_backend_is_called() {
    let backend = Backend::start();
    let server = launch_with_hooks(&backend, &["connect"]).start();
    let client = alice(&server);
    assert_eq!(user(&server, &client.hello.session), "alice", "an empty answer changes nothing");
    let body = backend.requests()[0].json();
    assert_eq!((&body["user"], body.get("token")), (&json!("alice"), None));
    assert_eq!(Client::refusal_code(server.public, "token=a.b.c"), UNAUTHORIZED);
    assert_eq!(backend.requests().len(), 1, "the backend is not called for an invalid token");
    // Pages of foreign origins do not reach the backend either.
    let mut page = RawClient::connect(server.public);
    page.request_upgrade_with("", "Origin: https://evil.example\r\n");
    page.await_upgrade();
    assert_eq!(page.close_code(), UNAUTHORIZED);
    assert_eq!(backend.requests().len(), 1);
}

/// A client that resumes is not authenticated again, but this holds only for the session of its resume token.
#[test]
fn resume_token_gives_access_to_its_own_session_only() {
    let backend = name_backend();
    let server = launch_with_connect_hook(&backend).start();
    let hello = Client::connect(server.public, "token=alice").drop_connection();
    backend.reply_with_status(403);
    let token = &hello.resume;
    // If a parameter is repeated, the last one counts everywhere.
    assert_eq!(Client::refusal_code(server.public, &format!("resume={token}&resume=x")), UNAUTHORIZED);
    // The session cannot be resumed from this seq.
    assert_eq!(Client::refusal_code(server.public, &format!("resume={token}&seq=999999")), UNAUTHORIZED);
    // Only event streams have a `Last-Event-ID`.
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

/// The backend is not called for requests that are invalid or exceed the rate limit.
#[test]
fn backend_is_not_called_for_rejected_requests() {
    let backend = Backend::start();
    let server = launch_with_connect_hook(&backend).start();
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

    let server = launch_with_connect_hook(&backend).set("limits.sessions_per_second_per_address=2").start();
    let refused = (0..20).filter(|_| Client::try_connect(server.public, "").is_err()).count();
    assert!(refused >= 10, "{refused}");
    assert_eq!(backend.requests().len(), 20 - refused);
}

/// A token that is sent again or refreshed does not override the backend's response.
#[test]
fn token_does_not_override_the_backend() {
    let backend = Backend::start();
    backend
        .reply_with(|_| BackendReply::json(json!({"sub": "alice", "channels": {"/lobby": ["subscribe"]}})));
    let server = launch_with_hooks(&backend, &["connect"]).start();
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

/// New clients from one address leave enough of `backend.max_in_flight` for other requests.
#[test]
fn new_clients_do_not_use_up_the_requests_in_flight() {
    let backend = Backend::start();
    backend.reply_with(|request| {
        let waits = request.path == "/connect" && request.json()["token"] == "slow";
        BackendReply::status(200).delayed_by(if waits { Duration::from_secs(3) } else { Duration::ZERO })
    });
    let launch = launch_with_connect_hook(&backend).set(&format!("backend.call={}", backend.url("/call")));
    let server = launch.set("backend.max_in_flight=8").start();
    let mut client = server.client();
    let slow: Vec<_> = (0..8)
        .map(|_| {
            let mut slow = RawClient::connect(server.public);
            slow.request_upgrade("token=slow");
            slow
        })
        .collect();
    until("the backend is called for four of them", || {
        backend.requests().iter().filter(|request| request.json()["token"] == "slow").count() == 4
    });
    assert_eq!(client.request(r#"{"id":1,"call":{"method":"x"}}"#)["ok"], json!({"data": null}));
    drop(slow);
}
