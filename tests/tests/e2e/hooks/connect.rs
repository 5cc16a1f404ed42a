use std::net::IpAddr;
use std::time::Duration;

use encke_tests::admin::send_request;
use encke_tests::bayeux::{
    BayeuxPolling, BayeuxWebSocket, client_id, connect_now, handshake, publish, with_token,
};
use encke_tests::poll::PollClient;
use encke_tests::tokens::{token, unix_time};
use encke_tests::waiting::until;
use encke_tests::{
    Backend, BackendReply, Client, EventStream, Hello, HttpResponse, Launch, RawClient, RunningServer,
};
use serde_json::json;

use super::{error, launch_with_hooks, launch_without_keys};
use crate::tokens::refused_with;
use crate::users::assert_user;

const TOKEN_EXPIRED: u16 = 4003;
const BACKEND_FAILED: u16 = 4009;
const UNAUTHORIZED: u16 = 4102;

fn launch(backend: &Backend) -> Launch {
    launch_without_keys(backend, &["connect"])
}

/// Starts a backend that uses the token as the user id. Users may use the channels below their own name.
fn name_backend() -> Backend {
    let backend = Backend::start();
    backend.reply_with(|request| match request.json()["token"].as_str() {
        None | Some("nobody") => BackendReply::json(error("unknown", "unknown user")),
        Some(name) => {
            let own = format!("{name}.*");
            BackendReply::json(json!({"sub": name, "channels": {own: ["subscribe", "publish"]}}))
        }
    });
    backend
}

/// Sends `GET path` with additional headers to the clients' listener.
#[track_caller]
fn get(server: &RunningServer, path: &str, headers: &str) -> HttpResponse {
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{headers}Connection: close\r\n\r\n");
    send_request(server.public, &request)
}

#[test]
fn backend_provides_the_user_and_the_permissions() {
    let backend = name_backend();
    let server = launch(&backend)
        .set(r#"backend.headers=["user-agent", "x-real"]"#)
        .set(r#"backend.cookies=["sid"]"#)
        .start();
    let mut client = Client::connect(server.public, "token=alice");
    assert_user(&server, &client.hello, "alice");
    assert!(client.request(r#"{"id":1,"subscribe":{"channel":"alice.inbox"}}"#)["ok"].is_object());
    client.assert_refused(r#"{"id":2,"subscribe":{"channel":"bob.inbox"}}"#, "forbidden");
    let refused = client.request(r#"{"id":2,"publish":{"channel":"bob.inbox","data":1}}"#);
    let message = "no permission to publish to this channel (`channels` of the token, or of the backend's response to `connect`)";
    assert_eq!(refused["error"]["message"], message);
    let refused = client.request(r#"{"id":3,"refresh":{"token":"alice"}}"#);
    let message = "tokens cannot be refreshed: the backend authenticates clients when they connect";
    assert_eq!(refused["error"]["message"], message);
    assert_eq!(Client::refusal_code(server.public, "token=nobody"), UNAUTHORIZED);
    let headers = "User-Agent: me\r\nCookie: sid=a=b; other=1\r\nX-Other: no\r\n";
    assert_eq!(refused_with(&server, "", headers), UNAUTHORIZED);
    assert_eq!(server.admin.metrics().refusals("backend"), 2.0);
    let mut expected = json!({
        "transport": "websocket", "dialect": "json", "address": "127.0.0.1", "token": "alice",
        "headers": {}, "cookies": {},
    });
    assert_eq!(backend.requests()[0].json(), expected);
    expected["headers"] = json!({"user-agent": "me"});
    expected["cookies"] = json!({"sid": "a=b"});
    expected.as_object_mut().expect("an object").remove("token");
    assert_eq!(backend.requests()[2].json(), expected);
}

/// A socket that accepts both IPv4 and IPv6 has another notation for the addresses of IPv4 clients.
#[test]
fn backend_receives_the_usual_notation_of_addresses() {
    let backend = Backend::start();
    let hook = format!("backend.connect={}", backend.url("/connect"));
    let server = Launch::listening_on("[::]:0").set(&hook).start();
    let port = server.public.port();
    for address in ["127.0.0.1", "::1"] {
        let ip: IpAddr = address.parse().expect("an address");
        drop(Client::connect((ip, port).into(), ""));
        assert_eq!(backend.requests().last().expect("a request").json()["address"], address);
    }
}

#[test]
fn backend_authenticates_each_transport_and_dialect() {
    let backend = name_backend();
    let server = launch(&backend).start();
    let mut stream = EventStream::open(server.public, "token=alice&channels=alice.inbox");
    assert_user(&server, &stream.hello(), "alice");
    let answer = PollClient::connect(server.public).get("token=bob&channels=bob.inbox").json();
    assert_user(&server, &Hello::parse(answer[0].clone()), "bob");
    let answer = get(&server, "/poll?", "Authorization: Bearer carol\r\n").json();
    assert_user(&server, &Hello::parse(answer[0].clone()), "carol");
    for (path, status) in [
        ("/events?token=nobody&channels=a", 401),
        ("/poll?token=nobody&channels=a", 401),
        // The client may not subscribe to this channel.
        ("/events?token=alice&channels=bob.inbox", 403),
    ] {
        assert_eq!(get(&server, path, "").status, status, "{path}");
    }

    let mut polls = BayeuxPolling::connect(server.public);
    let by_socket = |name: &str| {
        let mut socket = BayeuxWebSocket::connect(server.public);
        socket.request(&with_token(handshake(), name)).pop().expect("a reply")
    };
    for reply in [polls.reply(&with_token(handshake(), "dave")), by_socket("dave")] {
        let session = server.admin.session(&encke_tests::bayeux::session(&client_id(&reply)));
        assert_eq!(session["user"], "dave");
    }
    for reply in [polls.reply(&with_token(handshake(), "nobody")), by_socket("nobody")] {
        let refusal = (&reply["successful"], &reply["advice"]["reconnect"]);
        assert_eq!(refusal, (&json!(false), &json!("none")), "{reply}");
    }
    let requests = backend.requests();
    let transports: Vec<_> = requests.iter().map(|request| request.json()["transport"].clone()).collect();
    let expected = ["sse", "poll", "poll", "sse", "poll", "sse", "poll", "websocket", "poll", "websocket"];
    assert_eq!(transports, expected);
}

/// A client that resumes with the same credentials is not authenticated again, but this holds only for the session
/// of its resume token.
#[test]
fn resume_does_not_call_the_backend() {
    let backend = name_backend();
    let server = launch(&backend).start();
    let hello = Client::connect(server.public, "token=alice").drop_connection();
    backend.reply_with_status(403);
    let token = &hello.resume;
    let client = Client::connect(server.public, &format!("resume={token}&token=alice"));
    assert!(client.hello.recovered);
    assert_user(&server, &client.hello, "alice");
    let query = format!("resume={token}&token=alice");
    assert!(EventStream::open(server.public, &query).hello().recovered);
    let last_id = format!("{token}:0");
    assert!(EventStream::reconnect(server.public, "token=alice", &last_id).hello().recovered);
    assert_eq!(PollClient::connect(server.public).post(&query, "[]").status, 200);
    assert_eq!(backend.requests().len(), 1);

    // An invalid resume token; a repeated parameter, of which the last one counts everywhere; a seq from
    // which the session cannot be resumed; and a header that only event streams have.
    let last_id = format!("Last-Event-ID: {last_id}\r\n");
    for (query, headers) in [
        ("resume=s_nonsense&token=alice", ""),
        (&*format!("resume={token}&resume=x"), ""),
        (&*format!("resume={token}&seq=999999"), ""),
        ("", &*last_id),
    ] {
        assert_eq!(refused_with(&server, query, headers), UNAUTHORIZED, "{query}");
    }
    assert_eq!(get(&server, "/poll?channels=a", &last_id).status, 401);
    let both = get(&server, &format!("/events?channels=a&resume={token}"), "Last-Event-ID: s_x.y:0\r\n");
    assert_eq!(both.status, 401);
    assert_eq!(server.admin.metrics().events("opened", "connect"), 1.0);
    assert!(Client::connect(server.public, &query).hello.recovered);
}

/// A browser keeps the resume token of one user, and sends the cookie of the next one. The backend is called, and the
/// session stays with its user.
#[test]
fn resume_with_other_credentials_calls_the_backend() {
    let backend = Backend::start();
    backend.reply_with(|request| match request.json()["cookies"]["sid"].as_str() {
        Some(sid) => BackendReply::json(json!({"sub": &sid[..1], "channels": {}})),
        None => BackendReply::json(error("unknown", "unknown user")),
    });
    let folder = tempfile::tempdir().expect("a temporary directory");
    let snapshot = format!("shutdown.snapshot={}", folder.path().join("snapshot").display());
    let launch = || launch(&backend).set(r#"backend.cookies=["sid"]"#).set(&snapshot);
    let mut server = launch().start();
    let connect = |server: &RunningServer, query: &str, sid: &str| {
        let mut client = RawClient::connect(server.public);
        client.request_upgrade_with(query, &format!("Cookie: sid={sid}\r\n"));
        client.await_upgrade();
        client
    };
    let hello = connect(&server, "", "a1").hello();
    let query = format!("resume={}", hello.resume);
    let get = |server: &RunningServer, path: &str, sid: &str| {
        get(server, &format!("{path}?{query}"), &format!("Cookie: sid={sid}\r\n"))
    };
    for _ in 0..2 {
        assert!(connect(&server, &query, "a1").hello().recovered);
        assert_eq!(connect(&server, &query, "b1").close_code(), UNAUTHORIZED);
        assert_eq!(refused_with(&server, &query, ""), UNAUTHORIZED, "without credentials");
        for path in ["/events", "/poll"] {
            assert_eq!(get(&server, path, "b1").status, 403, "{path}");
        }
        // After a restart, the next server knows the credentials.
        server.terminate();
        assert!(server.await_exit().success());
        server = launch().start();
    }
    let calls = backend.requests().len();
    assert!(connect(&server, &query, "a2").hello().recovered, "the backend has named the same user");
    assert_eq!(backend.requests().len(), calls + 1);
    backend.reply_with_status(500);
    assert!(connect(&server, &query, "a2").hello().recovered);
    let mut other = connect(&server, &query, "a1");
    assert_eq!(other.object()["goaway"]["reason"], "backend_failed");
}

/// The backend may name another user than the token. It is called if the token is not of the session's user.
#[test]
fn commands_by_post_are_authenticated_like_a_resume() {
    let backend = Backend::start();
    backend.reply_with(|request| {
        let body = request.json();
        let user = if body["user"] == "device" { &json!("alice") } else { &body["user"] };
        BackendReply::json(json!({ "sub": user, "channels": {} }))
    });
    let server = launch_with_hooks(&backend, &["connect"]).start();
    let hello = server.client_of("device").hello;
    assert_user(&server, &hello, "alice");
    for (user, status, calls) in [("alice", 200, 1), ("device", 200, 2), ("bob", 403, 3)] {
        let query = format!("resume={}&token={}", hello.resume, token(user, json!({})));
        assert_eq!(PollClient::connect(server.public).post(&query, "[]").status, status, "{user}");
        assert_eq!(backend.requests().len(), calls, "{user}");
    }
    let without = format!("resume={}", hello.resume);
    assert_eq!(PollClient::connect(server.public).post(&without, "[]").status, 401);
}

#[test]
fn session_with_an_expired_identity_is_authenticated_again() {
    let backend = Backend::start();
    let exp = unix_time().as_secs_f64() + 4.0;
    backend.reply_with(move |_| BackendReply::json(json!({"sub": "alice", "exp": exp, "channels": {}})));
    let server = launch(&backend).start();
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
    let server = launch(&backend).start();
    for (answer, problem) in [
        (BackendReply::status(500), None),
        (BackendReply::status(0), None),
        (BackendReply::status(204), Some("the body is empty")),
        (BackendReply::status(200), None),
        (BackendReply::json("<html>"), Some("the body is not a JSON object")),
        (BackendReply::json("{}"), Some("`sub` is missing, and so are `anonymous` and `token`")),
        (BackendReply::json(r#"{"allow":true}"#), None),
        (BackendReply::json(r#"{"channels":{}}"#), None),
        (BackendReply::json(r#"{"user":"alice"}"#), None),
        (BackendReply::json(r#"{"sub":null}"#), None),
        (BackendReply::json(r#"{"anonymous":true}"#), None),
        (BackendReply::json(r#"{"anonymous":1,"channels":{}}"#), None),
        (BackendReply::json(r#"{"anonymous":true,"sub":"alice","channels":{}}"#), None),
        // The server has no keys, so it has verified no token.
        (BackendReply::json(r#"{"token":true}"#), None),
    ] {
        let sent = format!("{answer:?}");
        backend.reply_with(move |_| answer.clone());
        let mut client = RawClient::upgraded(server.public, "");
        let goaway = client.object();
        assert_eq!(goaway["goaway"]["reason"], "backend_failed", "{sent}: {goaway}");
        assert!(goaway["goaway"]["retry_ms"].is_u64());
        assert_eq!(client.close_code(), BACKEND_FAILED, "{sent}");
        if let Some(problem) = problem {
            let line = server.logs.await_line(problem);
            assert!(line.contains("WARN") && line.contains(r#""hook":"connect""#), "{line}");
        }
        // A success closes the circuit breaker.
        backend.reply_with(BackendReply::approval_of);
        server.client();
    }
    assert_eq!(server.admin.metrics().events("opened", "connect"), 14.0, "only these are admitted");
}

/// Anonymous clients have the permissions that the backend names, and no others.
#[test]
fn anonymous_clients_have_only_the_permissions_that_the_backend_names() {
    let backend = Backend::start();
    backend.reply_with(|_| {
        BackendReply::json(
            json!({"anonymous": true, "channels": {"lobby": ["subscribe"]}, "join": ["lobby"]}),
        )
    });
    let server = launch(&backend).start();
    let mut client = Client::connect(server.public, "");
    assert_eq!(client.object()["subscribed"]["channel"], "lobby");
    client.assert_refused(r#"{"id":1,"subscribe":{"channel":"/**"}}"#, "forbidden");
    client.assert_refused(r#"{"id":2,"publish":{"channel":"lobby","data":1}}"#, "forbidden");
    client.assert_refused(r#"{"id":3,"presence":{"channel":"lobby"}}"#, "forbidden");
    server.admin.publish("lobby", 1);
    let message = client.object()["message"].take();
    assert_eq!((&message["channel"], message.get("user")), (&json!("lobby"), None));
}

/// The backend is not called for requests that are invalid, have an invalid token, come from pages of foreign
/// origins, or exceed the rate limit.
#[test]
fn backend_is_not_called_for_rejected_requests() {
    let backend = Backend::start();
    let server = launch(&backend).start();
    for path in
        ["/events", "/events?channels=$x", "/poll?seq=x", "/ws", "/ws?resume=a", "/events?channels=a,,b"]
    {
        assert!(get(&server, path, "").status >= 400, "{path}");
    }
    assert_eq!(get(&server, "/events?resume=s_nonsense", "").status, 410);
    refused_with(&server, "seq=x", "");
    assert_eq!(backend.requests().len(), 0);

    // A server with token keys verifies the token first and sends the user to the backend.
    let server = launch_with_hooks(&backend, &["connect"]).start();
    let client = server.client_of("alice");
    assert_user(&server, &client.hello, "alice");
    let body = backend.requests()[0].json();
    assert_eq!((&body["user"], body.get("token")), (&json!("alice"), None));
    assert_eq!(Client::refusal_code(server.public, "token=a.b.c"), UNAUTHORIZED);
    assert_eq!(refused_with(&server, "", "Origin: https://evil.example\r\n"), UNAUTHORIZED);
    assert_eq!(backend.requests().len(), 1);

    let server = launch(&backend).set("limits.sessions_per_second_per_address=2").start();
    let refused = (0..20).filter(|_| Client::try_connect(server.public, "").is_err()).count();
    assert!(refused >= 10, "{refused}");
    assert_eq!(backend.requests().len(), 21 - refused);
}

/// A token that is sent again or refreshed does not override the backend's response.
#[test]
fn token_does_not_override_the_backend() {
    let backend = Backend::start();
    backend
        .reply_with(|_| BackendReply::json(json!({"sub": "alice", "channels": {"/lobby": ["subscribe"]}})));
    let server = launch_with_hooks(&backend, &["connect"]).start();
    let token = token("alice", json!({}));
    let mut client = server.client_of("alice");
    let refresh = json!({"id": 1, "refresh": {"token": token}});
    let publish_news = json!({"id": 2, "publish": {"channel": "news", "data": 1}});
    for command in [refresh, publish_news] {
        client.assert_refused(&command, "forbidden");
    }

    let mut polls = BayeuxPolling::connect(server.public);
    let id = client_id(&polls.reply(&with_token(handshake(), &token)));
    let connected = polls.reply(&with_token(connect_now(&id), &token));
    assert_eq!(connected["successful"], true, "{connected}");
    let published = polls.reply(&with_token(publish(&id, "/news", 1), &token));
    assert!(published["error"].as_str().is_some_and(|error| error.starts_with("403:")), "{published}");
    assert_eq!(backend.requests().len(), 2, "a client is authenticated once");
}

/// New clients from one address leave enough of `backend.max_in_flight` for other requests, and do not delay
/// other clients.
#[test]
fn new_clients_do_not_use_up_the_requests_in_flight() {
    let backend = Backend::start();
    backend.reply_with(|request| {
        let waits = request.path == "/connect" && request.json()["token"] == "slow";
        BackendReply::approval_of(request).delayed_by(Duration::from_secs(if waits { 60 } else { 0 }))
    });
    let launch = launch_without_keys(&backend, &["connect", "call"]).set("backend.max_in_flight=8");
    let server = launch.set("backend.timeout=20s").set("limits.handshake_timeout=30s").start();
    let mut client = server.client();
    let _slow = [(); 8].map(|()| {
        let mut slow = RawClient::connect(server.public);
        slow.request_upgrade("token=slow");
        slow
    });
    until("the backend is called for four of them", || {
        backend.requests().iter().filter(|request| request.json()["token"] == "slow").count() == 4
    });
    assert_eq!(client.request(r#"{"id":1,"call":{"method":"x"}}"#)["ok"], json!({"data": null}));
    drop(server.client_from("127.0.0.2"));
}
