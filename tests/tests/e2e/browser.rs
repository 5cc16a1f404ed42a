//! The client of client-by-hand.md, run in Chromium. `ENCKE_SEED=<n>` repeats a random test with
//! the same seed.

use std::net::SocketAddr;
use std::time::Duration;

use encke_tests::process::Signal;
use encke_tests::relay::Fate;
use encke_tests::tokens::token;
use encke_tests::waiting::let_pass;
use encke_tests::{Relay, RunningServer, Script};
use serde_json::{Value, json};

use crate::package::broken_connections::break_connections;
use crate::package::{assert_news, session_id as id};

/// Starts a page of the server's origin. The page subscribes to `channels` over connections to `sessions`.
fn page(server: &RunningServer, sessions: SocketAddr, channels: &[&str]) -> Script {
    let (address, sessions) = (server.public.to_string(), sessions.to_string());
    Script::start_in_browser("session.mjs", &[&[&*address, &*sessions], channels].concat())
}

/// Starts a page that subscribes to `news`. Returns the page and its hello.
#[track_caller]
fn subscribed_page(server: &RunningServer, sessions: SocketAddr) -> (Script, Value) {
    let page = page(server, sessions, &["news"]);
    page.await_object("reply", 1);
    let hello = page.await_value("hello", 1);
    (page, hello)
}

/// Asserts that the page's `nth` hello resumes the session of `hello`.
#[track_caller]
fn assert_resumed(page: &Script, nth: usize, hello: &Value) {
    let again = page.await_value("hello", nth);
    assert_eq!((&again["recovered"], id(&again)), (&json!(true), id(hello)));
}

#[test]
fn page_receives_published_messages() {
    let server = RunningServer::with(&["limits.max_subscriptions=2"]);
    let page = page(&server, server.public, &["news", "chat", "more"]);
    for (id, channel) in [(0, "news"), (1, "chat")] {
        let reply = page.await_value("reply", id + 1);
        assert_eq!((&reply["id"], &reply["ok"]["channel"]), (&json!(id), &json!(channel)));
    }
    let refused = page.await_value("reply", 3);
    assert_eq!((&refused["id"], &refused["error"]["code"]), (&json!(2), &json!("limit")));

    let published = [
        ("news", json!({ "text": "\"ü\u{1f30d}\u{2028}\n" })),
        ("chat", json!([1, null])),
        ("news", json!(0.5)),
    ];
    for (channel, data) in &published {
        server.admin.publish(channel, data.clone());
    }
    page.await_object("message", 3);
    let received = page.values("message");
    for (message, (seq, (channel, data))) in received.iter().zip((1..).zip(&published)) {
        assert_eq!(
            [&message["seq"], &message["channel"], &message["data"]],
            [&json!(seq), &json!(channel), data]
        );
    }
    let socket = format!("ws://{}/ws?heartbeat=message", server.public);
    assert_eq!(page.values("socket"), [json!(socket)]);
}

/// The page does not mistake replies to publishes for replies to subscriptions: its session survives a
/// disconnect.
#[test]
fn page_keeps_its_session_after_publishing() {
    let server = RunningServer::with(&[]);
    let (mut page, hello) = subscribed_page(&server, server.public);
    for number in 1..=3 {
        page.send_command(&json!({"publish": ["news", number]}));
        let id = page.await_value("published", number);
        let reply = page.await_value("reply", number + 1);
        assert_eq!((&reply["id"], &reply["ok"]["offset"]), (&id, &json!(number)));
    }
    assert_eq!(server.admin.disconnect(id(&hello)).status, 204);
    assert_resumed(&page, 2, &hello);
    page.send_command(&json!({"publish": ["news", 4]}));
    assert_news(&page, 4);
}

#[test]
fn a_page_that_closes_or_leaves_ends_its_session() {
    let server = RunningServer::with(&[]);
    for command in ["close", "leave"] {
        let (mut page, hello) = subscribed_page(&server, server.public);
        page.await_object("ready", 1);
        page.send_command(&json!({ command: true }));
        server.await_removal(id(&hello));
        server.await_lifecycle(id(&hello), "opened connect, closed client");
        assert_eq!((page.count("closed"), page.count("socket")), (0, 1));
    }
}

#[test]
fn a_page_fetches_a_token_for_each_connection() {
    let server = RunningServer::with_tokens(&[]);
    let tokens = [1, 2].map(|number| token("alice", json!({"jti": number})));
    let address = server.public.to_string();
    let arguments = tokens.clone().map(|token| format!("token={token}"));
    let page =
        Script::start_in_browser("session.mjs", &[&address, &address, "news", &arguments[0], &arguments[1]]);
    page.await_object("reply", 1);
    let hello = page.await_value("hello", 1);
    assert_eq!(server.admin.disconnect(id(&hello)).status, 204);
    assert_resumed(&page, 2, &hello);
    for (socket, token) in page.values("socket").iter().zip(&tokens) {
        assert!(socket.as_str().is_some_and(|url| url.contains(&format!("token={token}"))), "{socket}");
    }
}

#[test]
fn kicked_and_replaced_pages_do_not_reconnect() {
    let server = RunningServer::with(&[]);
    let (kicked, kicked_hello) = subscribed_page(&server, server.public);
    let (replaced, replaced_hello) = subscribed_page(&server, server.public);
    assert_eq!(server.admin.kick(id(&kicked_hello)).status, 204);
    let token = replaced_hello["resume"].as_str().expect("a hello has a token");
    let _other = server.resume(token);
    assert_eq!(kicked.await_value("closed", 1), 4101);
    assert_eq!(replaced.await_value("closed", 1), 4100);
    // A page that wanted to reconnect would do so within half a second.
    let_pass(Duration::from_secs(2));
    assert_eq!((kicked.count("socket"), replaced.count("socket")), (1, 1));
}

/// The first server either drains, and advises when to reconnect, or is killed.
#[test]
fn page_continues_with_another_server() {
    for signal in [Signal::TERM, Signal::KILL] {
        let mut server = RunningServer::with(&[]);
        let relay = Relay::new(server.public, || Fate::Intact);
        let (page, hello) = subscribed_page(&server, relay.address);
        server.admin.publish_each("news", 1..=3);
        page.await_object("message", 3);
        server.signal(signal);
        server.await_exit();

        let server = RunningServer::with(&[]);
        server.admin.publish_each("news", 4..=5);
        relay.redirect_to(server.public);
        let again = page.await_value("hello", 2);
        assert_eq!(again["recovered"], false);
        assert_ne!(id(&again), id(&hello));
        // How many messages were lost with the first server is unknown, so the gap has no range.
        let gap = page.await_value("gap", 1);
        assert_eq!((&gap["channel"], &gap["from"]), (&json!("news"), &Value::Null));
        server.admin.publish("news", 6);
        assert_news(&page, 6);
        assert_eq!(page.count("gap"), 1);
        let at_ms = |key, nth| page.await_object(key, nth)["at_ms"].as_f64().expect("a time");
        if signal == Signal::TERM {
            let retry_ms = page.await_value("goaway", 1)["retry_ms"].as_f64().expect("a time");
            let waited_ms = at_ms("hello", 2) - at_ms("goaway", 1);
            assert!(waited_ms >= retry_ms, "{waited_ms} ms instead of {retry_ms}");
        }
    }
}

#[test]
fn page_receives_every_message_once_and_in_order_despite_broken_connections() {
    break_connections("the page", encke_seeds::seed(), page);
}
