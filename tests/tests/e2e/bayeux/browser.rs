use std::collections::BTreeSet;

use encke_tests::bayeux::session;
use encke_tests::waiting::until;
use encke_tests::{Launch, RunningServer, Script};
use serde_json::{Value, json};

use super::{publish, up_to};

/// Tabs from one server with clients of another, which may be the same.
fn tabs(client: &str, from: &RunningServer, server: &RunningServer, options: &Value) -> Script {
    let (from, server) = (from.public.to_string(), server.public.to_string());
    Script::start("bayeux_page.mjs", &[client, &from, &server, &options.to_string()])
}

/// Waits until a tab follows what it is to, by this transport: the id of its session.
#[track_caller]
fn await_ready(page: &Script, tab: u32, transport: &str) -> String {
    let key = |name: &str| format!("{name}@{tab}");
    let handshake = page.await_value(&key("handshake"), 1);
    assert_eq!(handshake["successful"], true, "{handshake}");
    assert_eq!(page.await_value(&key("subscribe"), 1)["successful"], true);
    assert_eq!(page.await_value(&key("connect"), 1)["successful"], true);
    page.await_object(&key("transport"), 1);
    until(format!("tab {tab} uses {transport}"), || {
        page.heard(&key("transport")).last().is_some_and(|used| used == transport)
    });
    session(handshake["clientId"].as_str().expect("a client id"))
}

/// These come to a tab, once and in order, and nothing else.
#[track_caller]
fn await_news(page: &Script, tab: u32, last: u64) {
    let given = || page.heard(&format!("message@{tab}"));
    until(format!("{last} messages come to tab {tab}"), || given().len() as u64 >= last);
    let data: Vec<_> = given().into_iter().map(|mut message| message["data"].take()).collect();
    assert_eq!(data, up_to(last), "tab {tab}");
}

/// Of the server's own origin.
#[test]
fn pages_of_cometd_and_faye_follow_and_publish() {
    let server = RunningServer::with(&["session.poll_hold=1s"]);
    follow_and_publish("cometd", &server, &server, "long-polling");
    follow_and_publish("faye", &server, &server, "long-polling");
}

/// A browser asks before it sends JSON there.
#[test]
fn pages_of_cometd_from_a_listed_origin() {
    let pages = RunningServer::with(&[]);
    let server = listing(&pages).start();
    follow_and_publish("cometd", &pages, &server, "long-polling");
}

/// Faye handshakes by a script if the server is of another origin, whatever it uses then: a form, or a WebSocket.
#[test]
fn pages_of_faye_from_a_listed_origin() {
    let pages = RunningServer::with(&[]);
    let server = listing(&pages).set("bayeux.callback_polling=true").start();
    follow_and_publish("faye", &pages, &server, "cross-origin-long-polling");
}

/// A server that lists the origin of another.
fn listing(pages: &RunningServer) -> Launch {
    let listed = format!(r#"auth.origins=["http://{}"]"#, pages.public);
    Launch::default().set(&listed).set("session.poll_hold=1s")
}

/// By requests, which the client calls by this name, and by WebSocket: a browser for each.
#[track_caller]
fn follow_and_publish(client: &str, from: &RunningServer, server: &RunningServer, polling: &str) {
    let opened = [polling, "websocket"].map(|used| {
        let only = (used == polling).then_some("long-polling");
        let channel = format!("/news/{client}/{used}");
        let options = json!({"transport": only, "subscribe": [channel]});
        (used, channel, tabs(client, from, server, &options))
    });
    for (used, channel, mut page) in opened {
        let session = await_ready(&page, 1, used);
        publish(server, &channel, 1..=3);
        await_news(&page, 1, 3);
        page.tell(&json!({"tab": 1, "publish": [channel, 4]}));
        assert_eq!(page.await_value("publish@1", 1)["successful"], true);
        await_news(&page, 1, 4);
        // A hold that ends with nothing, and what comes after it.
        page.await_object("connect@1", page.count("connect@1") + 2);
        publish(server, &channel, [5]);
        await_news(&page, 1, 5);
        assert_eq!(page.count("handshake@1"), 1, "{client} {used}");
        page.tell(&json!({"tab": 1, "disconnect": true}));
        server.await_gone(&session);
    }
}

/// They have the same cookie, and share the few connections that a browser opens to a server.
#[test]
fn of_two_tabs_one_polls_by_the_clock() {
    let server = RunningServer::with(&["session.poll_hold=5s"]);
    let options = json!({"tabs": 2, "transport": "long-polling", "subscribe": ["/news"]});
    let mut page = tabs("cometd", &server, &server, &options);
    let sessions = [1, 2].map(|tab| await_ready(&page, tab, "long-polling"));
    let told = |tab: u32| {
        let advised = page.heard(&format!("connect@{tab}"));
        advised.iter().any(|reply| reply["advice"]["multiple-clients"] == true)
    };
    until("one is told of the other", || told(1) || told(2));
    publish(&server, "/news", 1..=5);
    for tab in [1, 2] {
        await_news(&page, tab, 5);
    }
    // The one that is held goes; the other's connects are held from then on.
    let (polls, waits) = if told(1) { (2, 1) } else { (1, 2) };
    page.tell(&json!({"tab": polls, "close": true}));
    let key = format!("connect@{waits}");
    until("the other hears that it is alone", || {
        let replies = page.heard(&key);
        let paused = replies.iter().rposition(|reply| reply["advice"]["multiple-clients"] == true);
        replies.iter().skip(paused.unwrap_or_default() + 1).any(|reply| reply["advice"]["interval"] == 0)
    });
    publish(&server, "/news", [6]);
    await_news(&page, waits, 6);
    assert_eq!(server.admin.phase(&sessions[waits as usize - 1]).as_deref(), Some("attached"));
}

/// The page is another, the session is the same: what was published meanwhile comes as well. What the old page had not acknowledged yet
/// comes again: the new one knows nothing of it.
#[test]
fn a_page_that_is_reloaded_keeps_its_session() {
    for transport in ["long-polling", "websocket"] {
        let server = RunningServer::with(&["session.poll_hold=2s"]);
        let options = json!({"transport": transport, "subscribe": ["/news"]});
        let mut page = tabs("cometd", &server, &server, &options);
        let session = await_ready(&page, 1, transport);
        publish(&server, "/news", 1..=3);
        await_news(&page, 1, 3);
        for reload in 2..=3 {
            page.tell(&json!({"tab": 1, "reload": true}));
            let first = 3 * (reload - 1) + 1;
            publish(&server, "/news", first..first + 3);
            let handshake = page.await_value("handshake@1", usize::try_from(reload).expect("small"));
            assert_eq!(handshake["ext"]["reload"], true, "{handshake}");
            let given = || -> BTreeSet<u64> {
                let given = page.heard("message@1");
                given.iter().filter_map(|message| message["data"].as_u64()).collect()
            };
            until(format!("all up to {} come", first + 2), || given().len() as u64 >= first + 2);
            assert_eq!(given(), (1..first + 3).collect());
        }
        server.await_phase(&session, "attached");
        let opened = server.admin.metrics().events("opened", "connect");
        assert_eq!(opened, 1.0, "{transport}: no session but the first");
    }
}
