use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, SystemTime};

use encke_tests::events::request_events;
use encke_tests::server::run_to_end;
use encke_tests::tokens::{SECRET, sign};
use encke_tests::waiting::{MAX_LATENESS, TIMEOUT, let_pass, until};
use encke_tests::{Client, EventStream, Hello, Launch, RawClient, RunningServer};
use serde_json::{Value, json};

const TOKEN_EXPIRED: u16 = 4003;
const UNAUTHORIZED: u16 = 4102;

fn server() -> RunningServer {
    launch().start()
}

fn launch() -> Launch {
    Launch::default().environment("ENCKE_AUTH__SECRET", SECRET)
}

/// Returns a token that does not expire.
fn token(user: &str, channels: Value) -> String {
    sign(&json!({"sub": user, "channels": channels}), SECRET)
}

/// Returns a token that expires at second `exp` since 1970.
fn expiring(user: &str, exp: u64) -> String {
    sign(&json!({"sub": user, "exp": exp, "channels": {"*": ["subscribe"]}}), SECRET)
}

fn unix_time() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("the clock is after 1970")
}

/// Returns the second that begins two to three seconds from now.
fn soon() -> u64 {
    unix_time().as_secs() + 3
}

fn connect(server: &RunningServer, token: &str) -> Client {
    Client::connect(server.public, &format!("token={token}"))
}

/// Asserts that only this user can take over the session.
#[track_caller]
fn assert_user(server: &RunningServer, hello: &Hello, user: &str) {
    let query = |user| format!("resume={}&token={}", hello.resume, token(user, json!({})));
    assert_eq!(Client::refusal_code(server.public, &query("someone")), UNAUTHORIZED);
    assert!(Client::connect(server.public, &query(user)).hello.recovered);
}

/// Sends a command and returns the code with which it is refused.
fn refused(client: &mut Client, command: &str) -> Value {
    client.request(command)["error"]["code"].clone()
}

/// Upgrades with these headers and reads the hello.
fn upgraded_with(server: &RunningServer, query: &str, headers: &str) -> (RawClient, Hello) {
    let mut client = RawClient::connect(server.public);
    client.request_upgrade_with(query, headers);
    client.await_upgrade();
    let hello = client.hello();
    (client, hello)
}

fn refused_with(server: &RunningServer, query: &str, headers: &str) -> u16 {
    let mut client = RawClient::connect(server.public);
    client.request_upgrade_with(query, headers);
    client.await_upgrade();
    client.close_code()
}

fn bearer(token: &str) -> String {
    format!("Authorization: Bearer {token}\r\n")
}

#[test]
fn session_requires_a_valid_token() {
    let server = server();
    let good = token("alice", json!({}));
    let other_secret = sign(&json!({"sub": "alice"}), "another secret that is long enough");
    let unsigned = format!("{}.", good.rsplit_once('.').expect("three parts").0);
    for bad in ["", "nonsense", "a.b.c", &other_secret, &unsigned, &sign(&json!({"channels": {}}), SECRET)] {
        assert_eq!(Client::refusal_code(server.public, &format!("token={bad}")), UNAUTHORIZED, "{bad}");
    }
    assert_eq!(Client::refusal_code(server.public, ""), UNAUTHORIZED);
    let past = unix_time().as_secs();
    assert_eq!(
        Client::refusal_code(server.public, &format!("token={}", expiring("alice", past))),
        TOKEN_EXPIRED
    );
    let metrics = server.admin.metrics();
    assert_eq!(metrics.events("opened", "connect"), 0.0, "no session was opened");

    assert_user(&server, &connect(&server, &good).hello, "alice");
}

#[test]
fn token_is_accepted_in_the_query_and_in_a_header() {
    let server = server();
    let (alice, bob) = (token("alice", json!({})), token("bob", json!({})));
    for scheme in ["Bearer", "bearer"] {
        let (_client, hello) = upgraded_with(&server, "", &format!("Authorization: {scheme} {alice}\r\n"));
        assert_user(&server, &hello, "alice");
    }
    let (_client, hello) = upgraded_with(&server, &format!("token={bob}"), &bearer(&alice));
    // The token in the query takes precedence.
    assert_user(&server, &hello, "bob");
    assert_eq!(refused_with(&server, "", &format!("Authorization: Basic {alice}\r\n")), UNAUTHORIZED);
    assert_eq!(refused_with(&server, "token=nonsense", &bearer(&alice)), UNAUTHORIZED);
}

#[test]
fn tokens_of_the_token_command_are_accepted() {
    let server = server();
    let arguments = ["token", "--sub", "alice", "--ttl", "1h", "--allow", "news=subscribe"];
    let output = run_to_end(&arguments, &[("ENCKE_AUTH__SECRET", SECRET)]);
    let token = String::from_utf8(output.stdout).expect("a token is text");
    let mut client = connect(&server, token.trim_end());
    let reply = client.request(r#"{"id":1,"subscribe":{"channel":"news"}}"#);
    assert_eq!(reply["ok"]["channel"], "news");
    assert_eq!(refused(&mut client, r#"{"id":1,"publish":{"channel":"news","data":1}}"#), "forbidden");
}

#[test]
fn pages_of_foreign_origins_get_no_session() {
    let server = launch().set(r#"auth.origins=["https://app.example"]"#).start();
    let good = format!("token={}", token("alice", json!({})));
    for foreign in ["https://evil.example", "https://app.example.evil.example", "null"] {
        assert_eq!(
            refused_with(&server, &good, &format!("Origin: {foreign}\r\n")),
            UNAUTHORIZED,
            "{foreign}"
        );
    }
    let (_client, hello) = upgraded_with(&server, &good, "Origin: https://app.example\r\n");
    assert!(!hello.recovered);
    assert_eq!(
        refused_with(&server, "", "Origin: https://app.example\r\n"),
        UNAUTHORIZED,
        "an allowed origin still needs a token"
    );
}

#[test]
fn token_determines_the_permissions_of_a_client() {
    let server = server();
    let channels = json!({
        "read": ["subscribe"], "write": ["publish"], "look": ["presence"],
        "all.*": ["subscribe", "publish", "presence"],
    });
    let mut client = connect(&server, &token("alice", channels));
    for (channel, may) in [
        ("read", [true, false, false]),
        ("write", [false, true, false]),
        ("look", [false, false, true]),
        ("all.one", [true, true, true]),
        ("all", [false; 3]),
        ("reader", [false; 3]),
        ("other", [false; 3]),
    ] {
        let commands = [
            // Publish before subscribing: a subscriber would receive its own message before the next reply.
            (1, format!(r#"{{"id":1,"publish":{{"channel":"{channel}","data":1}}}}"#)),
            (2, format!(r#"{{"id":1,"presence":{{"channel":"{channel}"}}}}"#)),
            (0, format!(r#"{{"id":1,"subscribe":{{"channel":"{channel}"}}}}"#)),
        ];
        for (which, command) in commands {
            let reply = client.request(&command);
            let expected = if may[which] { Value::Null } else { json!("forbidden") };
            assert_eq!(reply["error"]["code"], expected, "{command}: {reply}");
            assert_eq!(reply["ok"].is_object(), may[which], "{command}: {reply}");
        }
    }
}

#[test]
fn expired_token_suspends_the_session() {
    let server = server();
    let exp = soon();
    let mut client = connect(&server, &expiring("alice", exp));
    assert_eq!(client.close_code(), Some(TOKEN_EXPIRED));
    let now = unix_time();
    assert!(
        now >= Duration::from_secs(exp) && now <= Duration::from_secs(exp) + MAX_LATENESS,
        "{now:?}, {exp}"
    );
    server
        .logs
        .await_lifecycle(&client.hello.session, &[("opened", "connect"), ("suspended", "token_expired")]);
    let back = |token: &str| format!("resume={}&token={token}", client.hello.resume);
    assert_eq!(Client::refusal_code(server.public, &back(&expiring("alice", exp))), TOKEN_EXPIRED);
    let again = Client::connect(server.public, &back(&token("alice", json!({}))));
    assert!(again.hello.recovered);
}

#[test]
fn refresh_postpones_the_expiry() {
    let server = server();
    let exp = soon();
    let mut client = connect(&server, &expiring("alice", exp));
    let refresh = |token: &str| format!(r#"{{"id":1,"refresh":{{"token":"{token}"}}}}"#);
    let later = expiring("alice", exp + 2);
    assert_eq!(client.request(&refresh(&later))["ok"], json!({}));
    let_pass(Duration::from_secs(exp + 1).saturating_sub(unix_time()));
    assert_eq!(client.request(r#"{"id":1,"ack":{"seq":0}}"#)["ok"], json!({}), "past the first `exp`");
    server.logs.await_lifecycle(&client.hello.session, &[("opened", "connect")]);
    assert_eq!(client.close_code(), Some(TOKEN_EXPIRED));
    let now = unix_time();
    assert!(now >= Duration::from_secs(exp + 2), "{now:?}, {exp}");
}

/// The session is kept for clients with a valid token.
#[test]
fn a_refresh_with_a_forged_token_ends_the_connection() {
    let server = server();
    let alices = token("alice", json!({}));
    let mut client = connect(&server, &alices);
    let forged = sign(&json!({"sub": "alice", "channels": {}}), "fedcba9876543210fedcba9876543210");
    let refresh = format!(r#"{{"id":1,"refresh":{{"token":"{forged}"}}}}"#);
    assert_eq!(refused(&mut client, &refresh), "unauthorized");
    assert_eq!(client.close_code(), Some(UNAUTHORIZED));
    let query = format!("resume={}&token={alices}", client.hello.resume);
    assert!(Client::connect(server.public, &query).hello.recovered);
}

#[test]
fn refresh_with_an_invalid_token_changes_nothing() {
    let server = server();
    let mut client = connect(&server, &token("alice", json!({"news": ["subscribe"]})));
    let refresh = |token: &str| format!(r#"{{"id":1,"refresh":{{"token":"{token}"}}}}"#);
    let bobs = token("bob", json!({"*": ["publish"]}));
    assert_eq!(refused(&mut client, &refresh(&bobs)), "forbidden");
    let past = unix_time().as_secs();
    for bad in ["", "nonsense", &expiring("alice", past)] {
        assert_eq!(refused(&mut client, &refresh(bad)), "unauthorized", "{bad}");
    }
    assert_eq!(refused(&mut client, r#"{"id":1,"publish":{"channel":"news","data":1}}"#), "forbidden");
    assert_eq!(client.request(r#"{"id":1,"subscribe":{"channel":"news"}}"#)["ok"]["channel"], "news");
    assert_user(&server, &client.hello, "alice");
}

#[test]
fn a_narrower_token_ends_subscriptions() {
    let server = server();
    let narrow = token("alice", json!({"chat": ["subscribe", "publish"]}));
    let wide = token("alice", json!({"*": ["subscribe", "publish"]}));
    let mut client = connect(&server, &wide);
    for channel in ["news", "chat"] {
        let reply = client.request(&format!(r#"{{"id":1,"subscribe":{{"channel":"{channel}"}}}}"#));
        assert_eq!(reply["ok"]["channel"], channel);
    }
    client.send(&format!(r#"{{"id":2,"refresh":{{"token":"{narrow}"}}}}"#));
    assert_eq!(client.object(), json!({"unsubscribed": {"channel": "news", "reason": "forbidden"}}));
    assert_eq!(client.object(), json!({"reply": {"id": 2, "ok": {}}}));

    let mut publisher = connect(&server, &wide);
    for channel in ["news", "chat"] {
        let reply = publisher.request(&format!(r#"{{"id":1,"publish":{{"channel":"{channel}","data":1}}}}"#));
        assert!(reply["ok"].is_object(), "{reply}");
    }
    assert_eq!(client.object()["message"]["channel"], "chat", "no message of the other channel precedes it");
    assert_eq!(refused(&mut client, r#"{"id":3,"subscribe":{"channel":"news"}}"#), "forbidden");
}

#[test]
fn resume_with_a_narrower_token_ends_subscriptions() {
    let server = server();
    let mut client = connect(&server, &token("alice", json!({"*": ["subscribe"]})));
    for channel in ["news", "chat"] {
        let reply = client.request(&format!(r#"{{"id":1,"subscribe":{{"channel":"{channel}"}}}}"#));
        assert_eq!(reply["ok"]["channel"], channel);
    }
    let narrow = token("alice", json!({"chat": ["subscribe"]}));
    let query = format!("resume={}&token={narrow}", client.hello.resume);
    let mut again = Client::connect(server.public, &query);
    assert!(again.hello.recovered);
    assert_eq!(again.object(), json!({"unsubscribed": {"channel": "news", "reason": "forbidden"}}));
    let mut publisher = connect(&server, &token("bob", json!({"*": ["publish"]})));
    for channel in ["news", "chat"] {
        assert!(
            publisher.request(&format!(r#"{{"id":1,"publish":{{"channel":"{channel}","data":1}}}}"#))["ok"]
                .is_object()
        );
    }
    assert_eq!(again.object()["message"]["channel"], "chat");
}

/// The notice is sent again, whether it followed a refresh or was sent when the previous connection was
/// opened.
#[test]
fn unsubscribed_notice_is_repeated_after_a_disconnect() {
    let server = server();
    let (wide, narrow) =
        (token("alice", json!({"*": ["subscribe"]})), token("alice", json!({"chat": ["subscribe"]})));
    let forbidden = json!({"unsubscribed": {"channel": "news", "reason": "forbidden"}});
    let mut client = connect(&server, &wide);
    client.subscribe("news");
    client.send(&format!(r#"{{"id":2,"refresh":{{"token":"{narrow}"}}}}"#));
    // Disconnect before the client has read the notice.
    until("the subscription has ended", || {
        server.admin.session(&client.hello.session)["subscriptions"] == json!([])
    });
    let hello = client.drop_connection();
    let query = format!("resume={}&seq=0&token={narrow}", hello.resume);
    for _ in 0..2 {
        let mut again = Client::connect(server.public, &query);
        assert!(again.hello.recovered);
        assert_eq!(again.object(), forbidden);
    }
    // A later message proves that the client has received the notice.
    let mut last = Client::connect(server.public, &query);
    assert_eq!(last.object(), forbidden);
    last.subscribe("chat");
    server.admin.publish("chat", 1);
    assert_eq!(last.object()["message"]["seq"], 1);
    drop(last);
    let query = format!("resume={}&seq=1&token={narrow}", hello.resume);
    let mut again = Client::connect(server.public, &query);
    server.admin.publish("chat", 2);
    assert_eq!(again.object()["message"]["seq"], 2);
}

#[test]
fn session_belongs_to_its_user() {
    let server = server();
    let mut alice = connect(&server, &token("alice", json!({"*": ["subscribe"]})));
    let resume = alice.hello.resume.clone();
    let bob = token("bob", json!({"*": ["subscribe"]}));
    assert_eq!(Client::refusal_code(server.public, &format!("resume={resume}&token={bob}")), UNAUTHORIZED);
    assert_eq!(Client::refusal_code(server.public, &format!("resume={resume}")), UNAUTHORIZED);
    let headers = format!("Last-Event-ID: {resume}:0\r\n{}", bearer(&bob));
    let answer = request_events(server.public, "", &headers);
    assert_eq!((answer.status, &*answer.error_code()), (403, "forbidden"));

    assert_eq!(alice.request(r#"{"id":1,"ack":{"seq":0}}"#)["ok"], json!({}));
    server.logs.await_lifecycle(&alice.hello.session, &[("opened", "connect")]);
    assert_user(&server, &alice.hello, "alice");
}

#[test]
fn event_streams_require_a_token() {
    let server = server();
    let past = unix_time().as_secs();
    for headers in [String::new(), bearer("nonsense"), bearer(&expiring("alice", past))] {
        let answer = request_events(server.public, "channels=news", &headers);
        assert_eq!((answer.status, &*answer.error_code()), (401, "unauthorized"), "{headers}");
    }
    let token = token("alice", json!({"news": ["subscribe"], "chat": ["publish"]}));
    for channels in ["chat", "news,chat", "other"] {
        let answer = request_events(server.public, &format!("channels={channels}&token={token}"), "");
        assert_eq!((answer.status, &*answer.error_code()), (403, "forbidden"), "{channels}");
    }
    assert_eq!(server.admin.metrics().events("opened", "connect"), 0.0);

    let mut events = EventStream::open(server.public, &format!("channels=news&token={token}"));
    assert_user(&server, &events.hello(), "alice");
    let mut events = EventStream::open_with(server.public, "channels=news", &bearer(&token));
    assert_user(&server, &events.hello(), "alice");
}

#[test]
fn a_stream_ends_with_its_token() {
    let server = server();
    let exp = soon();
    let query = format!("channels=news&token={}", expiring("alice", exp));
    let mut events = EventStream::open(server.public, &query);
    let hello = events.hello();
    let last = r#"data: {"goaway":{"reason":"token_expired","retry_ms":1000}}"#;
    assert_eq!(events.to_end(), ["retry: 1000", last]);
    assert!(unix_time() >= Duration::from_secs(exp));
    server.logs.await_lifecycle(&hello.session, &[("opened", "connect"), ("suspended", "token_expired")]);
    // An `EventSource` reconnects with its original token.
    let id = format!("Last-Event-ID: {}:0\r\n", hello.resume);
    assert_eq!(request_events(server.public, &query, &id).status, 401);
    let narrow = token("alice", json!({"chat": ["subscribe"]}));
    let mut again = EventStream::open_with(server.public, &format!("token={narrow}"), &id);
    assert!(again.hello().recovered);
    assert_eq!(again.event(), r#"data: {"unsubscribed":{"channel":"news","reason":"forbidden"}}"#);
}

/// The server reads the command after the token has expired but before acting on the expiry.
#[test]
fn command_after_the_expiry_is_not_executed() {
    let server = server();
    let mut reader = connect(&server, &token("bob", json!({"news": ["subscribe"]})));
    let epoch = reader.subscribe("news");
    let exp = soon();
    let claims = json!({"sub": "alice", "exp": exp, "channels": {"*": ["publish"]}});
    let mut writer = connect(&server, &sign(&claims, SECRET));
    server.while_stopped(|| {
        writer.send(r#"{"id":1,"publish":{"channel":"news","data":1}}"#);
        until("the token has expired", || unix_time() > Duration::from_secs(exp));
    });
    assert_eq!(writer.close_code(), Some(TOKEN_EXPIRED));
    server
        .logs
        .await_lifecycle(&writer.hello.session, &[("opened", "connect"), ("suspended", "token_expired")]);
    let subscribed = reader.request(r#"{"id":2,"subscribe":{"channel":"news"}}"#);
    assert_eq!(subscribed["ok"], json!({"channel": "news", "epoch": epoch, "offset": 0}));
}

/// A connection whose session was taken over by a connection with a narrower token can no longer add
/// subscriptions.
#[test]
fn stream_that_was_taken_over_adds_no_subscriptions() {
    const TRIES: usize = 50;
    let server = server();
    let wide = token("alice", json!({"*": ["subscribe"]}));
    let narrow = token("alice", json!({"news": ["subscribe"]}));
    let hello = connect(&server, &narrow).hello;
    let mut taken_over = 0;
    for _ in 0..TRIES {
        let request = format!(
            "GET /events?resume={}&channels=secret&token={wide} HTTP/1.1\r\nHost: {}\r\n\r\n",
            hello.resume, server.public
        );
        let mut stream = TcpStream::connect(server.public).expect("the server accepts");
        stream.write_all(request.as_bytes()).expect("the server reads");
        let _client = Client::connect(server.public, &format!("resume={}&token={narrow}", hello.resume));
        stream.set_read_timeout(Some(TIMEOUT)).expect("the socket accepts a timeout");
        let mut buffer = [0; 4096];
        let mut read = || stream.read(&mut buffer).expect("the server answers");
        assert!(read() > 0, "a head, and a hello");
        if server.admin.session(&hello.session)["transport"] == "sse" {
            continue;
        }
        taken_over += 1;
        while read() > 0 {}
        let session = server.admin.session(&hello.session);
        assert_eq!(session["subscriptions"], json!([]), "after {taken_over} take-overs");
    }
    println!("taken over {taken_over} times of {TRIES}");
}
