use std::collections::BTreeSet;

use encke_tests::bayeux::session;
use encke_tests::waiting::until;
use encke_tests::{Launch, RunningServer, Script};
use serde_json::{Value, json};

use super::{publish, up_to};

/// Tabs from one server with clients of another, which may be the same. They take commands.
#[track_caller]
fn tabs(from: &RunningServer, server: &RunningServer, tabs: &[Value]) -> Script {
    let (from, server) = (from.public.to_string(), server.public.to_string());
    let script = Script::start("bayeux_page.mjs", &[&from, &server, &json!(tabs).to_string()]);
    script.await_object("ready", 1);
    script
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
        page.values(&key("transport")).last().is_some_and(|used| used == transport)
    });
    session(handshake["clientId"].as_str().expect("a client id"))
}

/// These come to a tab, once and in order, and nothing else.
#[track_caller]
fn await_news(page: &Script, tab: u32, last: u64) {
    let given = || page.values(&format!("message@{tab}"));
    until(format!("{last} messages come to tab {tab}"), || given().len() as u64 >= last);
    let data: Vec<_> = given().into_iter().map(|mut message| message["data"].take()).collect();
    assert_eq!(data, up_to(last), "tab {tab}");
}

/// One browser may poll as often as it likes: its tabs are there for as many tests.
const MANY_TABS: [&str; 2] = ["session.poll_hold=1s", "bayeux.polls_per_browser=0"];

/// Of the server's own origin.
#[test]
fn pages_of_cometd_and_faye_follow_and_publish() {
    let server = RunningServer::with(&MANY_TABS);
    let used = ["long-polling", "websocket"];
    follow_and_publish(&server, &server, &[("cometd", used), ("faye", used)]);
}

/// A browser asks before it sends JSON there.
#[test]
fn pages_of_cometd_from_a_listed_origin() {
    let pages = RunningServer::with(&[]);
    let server = listing(&pages).start();
    follow_and_publish(&pages, &server, &[("cometd", ["long-polling", "websocket"])]);
}

/// Faye handshakes by a script if the server is of another origin, whatever it uses then: a form, or a WebSocket.
#[test]
fn pages_of_faye_from_a_listed_origin() {
    let pages = RunningServer::with(&[]);
    let server = listing(&pages).set("bayeux.callback_polling=true").start();
    follow_and_publish(&pages, &server, &[("faye", ["cross-origin-long-polling", "websocket"])]);
}

/// A server that lists the origin of another.
fn listing(pages: &RunningServer) -> Launch {
    let listed = format!(r#"auth.origins=["http://{}"]"#, pages.public);
    MANY_TABS.iter().fold(Launch::default().set(&listed), |launch, setting| launch.set(setting))
}

/// Each client by requests, which it calls by the first name, and by the other transport.
#[track_caller]
fn follow_and_publish(from: &RunningServer, server: &RunningServer, clients: &[(&str, [&str; 2])]) {
    let all: Vec<_> = clients.iter().flat_map(|(client, used)| used.map(|used| (*client, used))).collect();
    let channel = |client: &str, used: &str| format!("/news/{client}/{used}");
    let options = all.iter().map(|(client, used)| {
        let only = (*used != "websocket").then_some("long-polling");
        json!({"client": client, "transport": only, "subscribe": [channel(client, used)]})
    });
    let mut page = tabs(from, server, &Vec::from_iter(options));
    for ((client, used), tab) in all.into_iter().zip(1..) {
        let channel = channel(client, used);
        let session = await_ready(&page, tab, used);
        publish(server, &channel, 1..=3);
        await_news(&page, tab, 3);
        page.send_command(&json!({"tab": tab, "publish": [channel, 4]}));
        assert_eq!(page.await_value(&format!("publish@{tab}"), 1)["successful"], true);
        await_news(&page, tab, 4);
        // A hold that ends with nothing, and what comes after it.
        let connect = format!("connect@{tab}");
        page.await_object(&connect, page.count(&connect) + 2);
        publish(server, &channel, [5]);
        await_news(&page, tab, 5);
        assert_eq!(page.count(&format!("handshake@{tab}")), 1, "{client} {used}");
        page.send_command(&json!({"tab": tab, "disconnect": true}));
        server.await_removal(&session);
    }
}

/// They have the same cookie, and share the few connections that a browser opens to a server.
#[test]
fn of_two_tabs_one_polls_by_the_clock() {
    let server = RunningServer::with(&["session.poll_hold=2s"]);
    let each = json!({"client": "cometd", "transport": "long-polling", "subscribe": ["/news"]});
    let mut page = tabs(&server, &server, &[each.clone(), each]);
    let sessions = [1, 2].map(|tab| await_ready(&page, tab, "long-polling"));
    let told = |tab: u32| {
        let advised = page.values(&format!("connect@{tab}"));
        advised.iter().any(|reply| reply["advice"]["multiple-clients"] == true)
    };
    until("one is told of the other", || told(1) || told(2));
    publish(&server, "/news", 1..=5);
    for tab in [1, 2] {
        await_news(&page, tab, 5);
    }
    // The one that is held goes; the other's connects are held from then on.
    let (polls, waits) = if told(1) { (2, 1) } else { (1, 2) };
    page.send_command(&json!({"tab": polls, "close": true}));
    let key = format!("connect@{waits}");
    until("the other hears that it is alone", || {
        let replies = page.values(&key);
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
    let server = RunningServer::with(&MANY_TABS);
    let transports = ["long-polling", "websocket"];
    let options = transports.map(|transport| {
        json!({"client": "cometd", "transport": transport, "subscribe": [format!("/{transport}")]})
    });
    let mut page = tabs(&server, &server, &options);
    for (transport, tab) in transports.into_iter().zip(1..) {
        let channel = format!("/{transport}");
        let session = await_ready(&page, tab, transport);
        publish(&server, &channel, 1..=3);
        await_news(&page, tab, 3);
        for reload in 2..=3 {
            page.send_command(&json!({"tab": tab, "reload": true}));
            let first = 3 * (reload - 1) + 1;
            publish(&server, &channel, first..first + 3);
            let nth = usize::try_from(reload).expect("small");
            let handshake = page.await_value(&format!("handshake@{tab}"), nth);
            assert_eq!(handshake["ext"]["reload"], true, "{handshake}");
            let given = || -> BTreeSet<u64> {
                let given = page.values(&format!("message@{tab}"));
                given.iter().filter_map(|message| message["data"].as_u64()).collect()
            };
            until(format!("all up to {} come", first + 2), || given().len() as u64 >= first + 2);
            assert_eq!(given(), (1..first + 3).collect());
        }
        server.await_phase(&session, "attached");
    }
    let opened = server.admin.metrics().events("opened", "connect");
    assert_eq!(opened, 2.0, "no session but the first of each");
}
