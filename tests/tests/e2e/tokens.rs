use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use encke_tests::events::request_events;
use encke_tests::http::bearer;
use encke_tests::server::run_to_end;
use encke_tests::tokens::{SECRET, sign, unix_time};
use encke_tests::waiting::{MAX_LATENESS, TIMEOUT, until};
use encke_tests::{Client, EventStream, Hello, RawClient, RunningServer};
use serde_json::{Value, json};

use crate::users::assert_user;

const TOKEN_EXPIRED: u16 = 4003;
const UNAUTHORIZED: u16 = 4102;

/// Returns a token that does not expire.
fn token(user: &str, channels: Value) -> String {
    sign(&json!({"sub": user, "channels": channels}), SECRET)
}

/// Returns a token that expires at second `exp` since 1970.
fn expiring(user: &str, exp: u64) -> String {
    sign(&json!({"sub": user, "exp": exp, "channels": {"*": ["subscribe"]}}), SECRET)
}

/// Returns the second that begins two to three seconds from now.
fn soon() -> u64 {
    unix_time().as_secs() + 3
}

fn refresh(token: &str) -> String {
    json!({"id": 2, "refresh": {"token": token}}).to_string()
}

/// Returns a query that resumes the session.
fn resuming(hello: &Hello, token: &str) -> String {
    format!("resume={}&token={token}", hello.resume)
}

/// Subscribes the client to `news` and `chat`.
#[track_caller]
fn subscribe_to_both(client: &mut Client) {
    ["news", "chat"].iter().for_each(|channel| _ = client.subscribe(channel));
}

/// Publishes to `news` and `chat`, and asserts that the client receives only the message in `chat`.
#[track_caller]
fn assert_only_in_chat(server: &RunningServer, client: &mut Client) {
    ["news", "chat"].iter().for_each(|channel| _ = server.admin.publish(channel, 1));
    assert_eq!(client.object()["message"]["channel"], "chat");
}

/// Upgrades with these headers and returns the code with which the client is refused.
#[track_caller]
pub(crate) fn refused_with(server: &RunningServer, query: &str, headers: &str) -> u16 {
    let mut client = RawClient::connect(server.public);
    client.request_upgrade_with(query, headers);
    client.await_upgrade();
    client.close_code()
}

#[test]
fn session_requires_a_valid_token() {
    let server = RunningServer::with_tokens(&[]);
    let good = token("alice", json!({}));
    let other_secret = sign(&json!({"sub": "alice"}), "another secret that is long enough");
    let unsigned = format!("{}.", good.rsplit_once('.').expect("three parts").0);
    for bad in ["", "nonsense", "a.b.c", &other_secret, &unsigned, &sign(&json!({"channels": {}}), SECRET)] {
        assert_eq!(Client::refusal_code(server.public, &format!("token={bad}")), UNAUTHORIZED, "{bad}");
    }
    assert_eq!(Client::refusal_code(server.public, ""), UNAUTHORIZED);
    let expired = expiring("alice", unix_time().as_secs());
    assert_eq!(Client::refusal_code(server.public, &format!("token={expired}")), TOKEN_EXPIRED);
    for headers in [String::new(), bearer("nonsense"), bearer(&expired)] {
        request_events(server.public, "channels=news", &headers).assert_error(401, "unauthorized");
    }
    let narrow = token("alice", json!({"news": ["subscribe"], "chat": ["publish"]}));
    for channels in ["chat", "news,chat", "other"] {
        request_events(server.public, &format!("channels={channels}&token={narrow}"), "")
            .assert_error(403, "forbidden");
    }
    let opened = server.admin.metrics().events("opened", "connect");
    assert_eq!(opened, 0.0, "no session was opened");

    assert_user(&server, &server.client_with(&good).hello, "alice");
    let mut events = EventStream::open(server.public, &format!("channels=news&token={narrow}"));
    assert_user(&server, &events.hello(), "alice");
    let mut events = EventStream::open_with(server.public, "channels=news", &bearer(&narrow));
    assert_user(&server, &events.hello(), "alice");
}

#[test]
fn token_is_accepted_in_the_query_and_in_a_header() {
    let server = RunningServer::with_tokens(&[r#"auth.origins=["https://app.example"]"#]);
    let (alice, bob) = (token("alice", json!({})), token("bob", json!({})));
    let of_bob = format!("token={bob}");
    for (query, headers, user) in [
        ("", bearer(&alice), "alice"),
        ("", format!("Authorization: bearer {alice}\r\n"), "alice"),
        // The same token in both places.
        (&of_bob, bearer(&bob), "bob"),
        (&of_bob, "Origin: https://app.example\r\n".to_owned(), "bob"),
    ] {
        let mut client = RawClient::connect(server.public);
        client.request_upgrade_with(query, &headers);
        client.await_upgrade();
        assert_user(&server, &client.hello(), user);
    }
    for (query, headers) in [
        ("", format!("Authorization: Basic {alice}\r\n")),
        // Pages of foreign origins get no session, and pages of an allowed origin still need a token.
        (&of_bob, "Origin: https://evil.example\r\n".to_owned()),
        (&of_bob, "Origin: https://app.example.evil.example\r\n".to_owned()),
        (&of_bob, "Origin: null\r\n".to_owned()),
        ("", "Origin: https://app.example\r\n".to_owned()),
    ] {
        assert_eq!(refused_with(&server, query, &headers), UNAUTHORIZED, "{query} {headers}");
    }
}

#[test]
fn token_determines_the_permissions_of_a_client() {
    let server = RunningServer::with_tokens(&[]);
    let channels = json!({
        "read": ["subscribe"], "write": ["publish"], "look": ["presence"], "past": ["history"],
        "all.*": ["subscribe", "publish", "presence", "history"],
    });
    let mut client = server.client_with(&token("alice", channels));
    // Publish before subscribing: a subscriber would receive its own message before the next reply.
    for (channel, publish, presence, history, subscribe) in [
        ("read", false, false, false, true),
        ("write", true, false, false, false),
        ("look", false, true, false, false),
        ("past", false, false, true, false),
        ("all.one", true, true, true, true),
        ("all", false, false, false, false),
        ("reader", false, false, false, false),
    ] {
        for (command, may) in [
            (json!({"id": 1, "publish": {"channel": channel, "data": 1}}), publish),
            (json!({"id": 1, "presence": {"channel": channel}}), presence),
            (json!({"id": 1, "history": {"channel": channel}}), history),
            (json!({"id": 1, "subscribe": {"channel": channel}}), subscribe),
        ] {
            let reply = client.request(&command);
            let is_forbidden = reply["error"]["code"] == "forbidden";
            assert_eq!((reply["ok"].is_object(), is_forbidden), (may, !may), "{command}: {reply}");
        }
    }
    // Tokens of the `token` command are accepted.
    let arguments = ["token", "--sub", "alice", "--ttl", "1h", "--allow", "news=subscribe"];
    let issued = run_to_end(&arguments, &[("ENCKE_AUTH__SECRET", SECRET)]).stdout;
    let mut client = server.client_with(issued.trim_end());
    client.subscribe("news");
    client.assert_refused(r#"{"id":1,"publish":{"channel":"news","data":1}}"#, "forbidden");
}

/// Connections with a token end when it expires. A refresh postpones this.
#[test]
fn expired_token_suspends_the_session() {
    let server = RunningServer::with_tokens(&[]);
    let mut reader = server.client_with(&token("bob", json!({"news": ["subscribe"]})));
    let epoch = reader.subscribe("news");
    let exp = soon();
    let expires = expiring("alice", exp);
    let mut client = server.client_with(&expires);
    let mut refreshed = server.client_with(&expires);
    assert_eq!(refreshed.request(refresh(&expiring("alice", exp + 5)))["ok"], json!({}));
    let query = format!("channels=news&token={expires}");
    let (events, streaming) = EventStream::greeted(server.public, &query);

    assert_eq!(client.close_code(), Some(TOKEN_EXPIRED));
    let late = unix_time().checked_sub(Duration::from_secs(exp)).expect("not early");
    assert!(late <= MAX_LATENESS, "{late:?}");
    let last = r#"data: {"goaway":{"reason":"token_expired","retry_ms":1000}}"#;
    assert_eq!(events.to_end(), ["retry: 1000", last]);
    let suspended = "opened connect, suspended token_expired";
    for hello in [&client.hello, &streaming] {
        server.await_lifecycle(&hello.session, suspended);
    }
    assert_eq!(Client::refusal_code(server.public, &resuming(&client.hello, &expires)), TOKEN_EXPIRED);
    let valid = token("alice", json!({"chat": ["subscribe"]}));
    assert!(Client::connect(server.public, &resuming(&client.hello, &valid)).hello.recovered);
    // An `EventSource` reconnects with its original token.
    let id = format!("Last-Event-ID: {}:0\r\n", streaming.resume);
    assert_eq!(request_events(server.public, &query, &id).status, 401);
    let mut again = EventStream::open_with(server.public, &format!("token={valid}"), &id);
    assert!(again.hello().recovered);
    assert_eq!(again.event(), r#"data: {"unsubscribed":{"channel":"news","reason":"forbidden"}}"#);

    server.await_lifecycle(&refreshed.hello.session, "opened connect");
    // The server reads a command after the token has expired, but before acting on the expiry.
    let claims = json!({"sub": "alice", "exp": exp + 5, "channels": {"*": ["publish"]}});
    let mut writer = server.client_with(&sign(&claims, SECRET));
    server.while_stopped(|| {
        writer.send(r#"{"id":1,"publish":{"channel":"news","data":1}}"#);
        until("the token has expired", || unix_time() > Duration::from_secs(exp + 5));
    });
    for mut client in [refreshed, writer] {
        assert_eq!(client.close_code(), Some(TOKEN_EXPIRED));
        server.await_lifecycle(&client.hello.session, suspended);
    }
    let subscribed = reader.request(r#"{"id":2,"subscribe":{"channel":"news"}}"#);
    assert_eq!(subscribed["ok"], json!({"channel": "news", "epoch": epoch, "offset": 0}), "not published");
}

#[test]
fn refresh_with_an_invalid_token_changes_nothing() {
    let server = RunningServer::with_tokens(&[]);
    let news = token("alice", json!({"news": ["subscribe"]}));
    let mut client = server.client_with(&news);
    let bobs = token("bob", json!({"*": ["publish"]}));
    client.assert_refused(refresh(&bobs), "forbidden");
    for bad in ["", "nonsense", &expiring("alice", unix_time().as_secs())] {
        client.assert_refused(refresh(bad), "unauthorized");
    }
    client.assert_refused(r#"{"id":1,"publish":{"channel":"news","data":1}}"#, "forbidden");
    client.subscribe("news");
    // A forged token ends the connection. The session is kept for clients with a valid token.
    let forged = sign(&json!({"sub": "alice", "channels": {}}), "fedcba9876543210fedcba9876543210");
    client.assert_refused(refresh(&forged), "unauthorized");
    assert_eq!(client.close_code(), Some(UNAUTHORIZED));
    assert_user(&server, &client.hello, "alice");
}

#[test]
fn a_narrower_token_ends_subscriptions() {
    let server = RunningServer::with_tokens(&[]);
    let narrow = token("alice", json!({"chat": ["subscribe"]}));
    let wide = token("alice", json!({"*": ["subscribe"]}));
    let forbidden = json!({"unsubscribed": {"channel": "news", "reason": "forbidden"}});
    let mut client = server.client_with(&wide);
    subscribe_to_both(&mut client);
    client.send(refresh(&narrow));
    assert_eq!(client.object(), forbidden);
    assert_eq!(client.object(), json!({"reply": {"id": 2, "ok": {}}}));
    assert_only_in_chat(&server, &mut client);
    client.assert_refused(r#"{"id":3,"subscribe":{"channel":"news"}}"#, "forbidden");

    let mut client = server.client_with(&wide);
    subscribe_to_both(&mut client);
    let mut again = Client::connect(server.public, &resuming(&client.hello, &narrow));
    assert!(again.hello.recovered);
    assert_eq!(again.object(), forbidden);
    assert_only_in_chat(&server, &mut again);
}

#[test]
fn session_belongs_to_its_user() {
    let server = RunningServer::with_tokens(&[]);
    let mut alice = server.client_with(&token("alice", json!({"*": ["subscribe"]})));
    let bob = token("bob", json!({"*": ["subscribe"]}));
    let resume = &alice.hello.resume;
    for query in [resuming(&alice.hello, &bob), format!("resume={resume}")] {
        assert_eq!(Client::refusal_code(server.public, &query), UNAUTHORIZED);
    }
    let headers = format!("Last-Event-ID: {resume}:0\r\n{}", bearer(&bob));
    request_events(server.public, "", &headers).assert_error(403, "forbidden");

    assert_eq!(alice.request(r#"{"id":1,"ack":{"seq":0}}"#)["ok"], json!({}));
    server.await_lifecycle(&alice.hello.session, "opened connect");
    assert_user(&server, &alice.hello, "alice");
}

/// A connection whose session was taken over by a connection with a narrower token can no longer add
/// subscriptions.
#[test]
fn stream_that_was_taken_over_adds_no_subscriptions() {
    const TRIES: usize = 50;
    let server = RunningServer::with_tokens(&[]);
    let wide = token("alice", json!({"*": ["subscribe"]}));
    let narrow = token("alice", json!({"news": ["subscribe"]}));
    let hello = server.client_with(&narrow).hello;
    let mut taken_over = 0;
    for _ in 0..TRIES {
        let request = format!(
            "GET /events?resume={}&channels=secret&token={wide} HTTP/1.1\r\nHost: {}\r\n\
             Connection: close\r\n\r\n",
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
