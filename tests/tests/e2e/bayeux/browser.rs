use std::collections::BTreeSet;
use std::time::Duration;

use encke_tests::bayeux::session;
use encke_tests::waiting::{eventually_within, until};
use encke_tests::{RunningServer, Script};
use serde_json::{Value, json};

use super::up_to;

/// Opens tabs with pages of the server `from` that connect to `server`, which may be the same. The script
/// accepts commands.
#[track_caller]
fn tabs(from: &RunningServer, server: &RunningServer, tabs: &[Value]) -> Script {
    let (from, server) = (from.public.to_string(), server.public.to_string());
    let script = Script::start_in_browser("bayeux_page.mjs", &[&from, &server, &json!(tabs).to_string()]);
    eventually_within(Duration::from_secs(60), "all tabs are open", || script.values("ready").pop());
    script
}

/// Waits until a tab is subscribed over this transport. Returns the id of its session.
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

/// Asserts that a tab receives the numbers from 1 to `last`, once each and in order, and nothing else.
#[track_caller]
fn await_news(page: &Script, tab: u32, last: u64) {
    let given = || page.values(&format!("message@{tab}"));
    until(format!("tab {tab} has {last} messages"), || given().len() as u64 >= last);
    let data: Vec<_> = given().into_iter().map(|mut message| message["data"].take()).collect();
    assert_eq!(data, up_to(last), "tab {tab}");
}

/// Settings without a limit on the polls per browser, because one browser's tabs stand for several tests.
const MANY_TABS: [&str; 2] = ["session.poll_hold=1s", "bayeux.polls_per_browser=0"];

/// The pages have the server's own origin.
#[test]
fn pages_of_cometd_and_faye_subscribe_and_publish() {
    let server = RunningServer::with(&MANY_TABS);
    let used = ["long-polling", "websocket"];
    subscribe_and_publish(&server, &server, &[("cometd", used), ("faye", used)]);
}

/// A browser sends a preflight request before CometD sends JSON to another origin. Faye handshakes with a script
/// element there, regardless of whether it later uses a form or a WebSocket.
#[test]
fn pages_of_cometd_and_faye_from_an_allowed_origin() {
    let pages = RunningServer::with(&[]);
    let origins = format!(r#"auth.origins=["http://{}"]"#, pages.public);
    let server =
        RunningServer::with(&[&MANY_TABS[..], &[&*origins, "bayeux.callback_polling=true"]].concat());
    let cometd = ("cometd", ["long-polling", "websocket"]);
    let faye = ("faye", ["cross-origin-long-polling", "websocket"]);
    subscribe_and_publish(&pages, &server, &[cometd, faye]);
}

/// Runs each client with each of its two transports; the first is its name for long-polling.
#[track_caller]
fn subscribe_and_publish(from: &RunningServer, server: &RunningServer, clients: &[(&str, [&str; 2])]) {
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
        server.admin.publish_each(&channel, 1..=3);
        await_news(&page, tab, 3);
        page.send_command(&json!({"tab": tab, "publish": [channel, 4]}));
        assert_eq!(page.await_value(&format!("publish@{tab}"), 1)["successful"], true);
        await_news(&page, tab, 4);
        // Wait until a held connect is answered without a message, and publish afterwards.
        let connect = format!("connect@{tab}");
        page.await_object(&connect, page.count(&connect) + 2);
        server.admin.publish(&channel, 5);
        await_news(&page, tab, 5);
        assert_eq!(page.count(&format!("handshake@{tab}")), 1, "{client} {used}");
        page.send_command(&json!({"tab": tab, "disconnect": true}));
        server.await_removal(&session);
    }
}

/// Both tabs have the same cookie and share the few connections that a browser opens to a server.
#[test]
fn second_tab_of_a_browser_polls_at_intervals() {
    let server = RunningServer::with(&["session.poll_hold=2s"]);
    let each = json!({"client": "cometd", "transport": "long-polling", "subscribe": ["/news"]});
    let mut page = tabs(&server, &server, &[each.clone(), each]);
    let sessions = [1, 2].map(|tab| await_ready(&page, tab, "long-polling"));
    let is_advised = |tab: u32| {
        let advised = page.values(&format!("connect@{tab}"));
        advised.iter().any(|reply| reply["advice"]["multiple-clients"] == true)
    };
    until("a tab is advised that there are several", || is_advised(1) || is_advised(2));
    server.admin.publish_each("/news", 1..=5);
    for tab in [1, 2] {
        await_news(&page, tab, 5);
    }
    // Close the tab with the held connect. From now on, the other tab's connects are held.
    let (holding, waiting) = if is_advised(1) { (2, 1) } else { (1, 2) };
    page.send_command(&json!({"tab": holding, "close": true}));
    let key = format!("connect@{waiting}");
    until("the other tab is advised that it is alone", || {
        let replies = page.values(&key);
        let paused = replies.iter().rposition(|reply| reply["advice"]["multiple-clients"] == true);
        replies.iter().skip(paused.unwrap_or_default() + 1).any(|reply| reply["advice"]["interval"] == 0)
    });
    server.admin.publish("/news", 6);
    await_news(&page, waiting, 6);
    assert_eq!(server.admin.phase(&sessions[waiting as usize - 1]).as_deref(), Some("attached"));
}

/// The page is new but the session is the same, so messages published in the meantime arrive as well.
/// Messages that the old page had not acknowledged arrive again, because the new page does not know them.
#[test]
fn reloaded_page_keeps_its_session() {
    let server = RunningServer::with(&MANY_TABS);
    let transports = ["long-polling", "websocket"];
    let options = transports.map(|transport| {
        json!({"client": "cometd", "transport": transport, "subscribe": [format!("/{transport}")]})
    });
    let mut page = tabs(&server, &server, &options);
    for (transport, tab) in transports.into_iter().zip(1..) {
        let channel = format!("/{transport}");
        let session = await_ready(&page, tab, transport);
        server.admin.publish_each(&channel, 1..=3);
        await_news(&page, tab, 3);
        for reload in 2..=3 {
            page.send_command(&json!({"tab": tab, "reload": true}));
            let first = 3 * (reload - 1) + 1;
            server.admin.publish_each(&channel, first..first + 3);
            let nth = usize::try_from(reload).expect("the number is small");
            let handshake = page.await_value(&format!("handshake@{tab}"), nth);
            assert_eq!(handshake["ext"]["reload"], true, "{handshake}");
            let given = || -> BTreeSet<u64> {
                let given = page.values(&format!("message@{tab}"));
                given.iter().filter_map(|message| message["data"].as_u64()).collect()
            };
            until(format!("all messages up to {} arrive", first + 2), || given().len() as u64 >= first + 2);
            assert_eq!(given(), (1..first + 3).collect());
        }
        server.await_phase(&session, "attached");
    }
    let opened = server.admin.metrics().events("opened", "connect");
    assert_eq!(opened, 2.0, "each tab has opened one session");
}
