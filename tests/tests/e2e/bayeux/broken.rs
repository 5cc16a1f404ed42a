use std::collections::HashSet;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use encke_tests::network::NetworkLink;
use encke_tests::process::Signal;
use encke_tests::relay::Fate;
use encke_tests::stock::{ALL, BayeuxTransport};
use encke_tests::waiting::{TIMEOUT, eventually_within, let_pass, until};
use encke_tests::{Launch, Relay, RunningServer, BayeuxLibrary, StockClient};
use serde_json::json;

use super::{Running, publish, start, start_all, up_to};

/// Clients notice by themselves that a poll is not answered: soon after it should have been.
const SOON: [&str; 3] = ["session.poll_hold=1s", "session.ping_interval=1s", "session.pong_timeout=500ms"];

/// The wait for a client that is not told anything: what it allows for a request, and a busy machine's share.
const LONG: Duration = Duration::from_secs(40);

#[track_caller]
fn await_connects(running: &Running, count: usize) {
    let connects = || {
        let heard = running.client.values("connect");
        (heard.iter().filter(|connect| connect["successful"] == true).count() >= count).then_some(())
    };
    eventually_within(LONG, format!("{} is back", running.name), connects);
}

fn connects(running: &Running) -> usize {
    running.client.values("connect").iter().filter(|connect| connect["successful"] == true).count()
}

/// Its session is the one that it had.
#[track_caller]
fn assert_same_session(server: &RunningServer, running: &Running) {
    assert_eq!(running.client.count("handshake"), 1, "{}", running.name);
    assert_eq!(server.admin.phase(&running.session).as_deref(), Some("attached"), "{}", running.name);
}

/// Waits until the log has it that the session's window is over.
#[track_caller]
fn await_expired(server: &RunningServer, session: &str) {
    until(format!("the log has the end of {session}"), || {
        server.logs.lifecycle(session).last() == Some(&("expired".into(), "reconnect_window".into()))
    });
}

#[test]
fn a_stock_client_that_is_cut_comes_back_to_its_session() {
    let server = RunningServer::with(&["session.poll_hold=1s"]);
    let relay = Relay::new(server.public, || Fate::Intact);
    let all = start_all(relay.address, &["/news"]);
    publish(&server, "/news", 1..=2);
    all.iter().for_each(|running| running.client.await_delivered("/news", &up_to(2)));
    for round in 1..=2 {
        let before: Vec<_> = all.iter().map(connects).collect();
        assert!(relay.cut_all() >= all.len());
        // The second poll after the cut: a message that is published from here on is not on its way through a connection that is gone.
        for (running, before) in all.iter().zip(before) {
            await_connects(running, before + 2);
        }
        publish(&server, "/news", [2 + round]);
        for running in &all {
            running.client.await_delivered("/news", &up_to(2 + round));
        }
    }
    for running in &all {
        assert_same_session(&server, running);
    }
}

/// Nobody tells either side. Faye by WebSocket is not among them: it closes the dead socket, and waits half a minute for the answer.
#[test]
fn a_stock_client_that_hears_nothing_comes_back_to_its_session() {
    let server = RunningServer::with(&SOON);
    let relay = Relay::new(server.public, || Fate::Intact);
    let but_one = ALL.map(|each| (each != (BayeuxLibrary::Faye, BayeuxTransport::WebSocket)).then_some(each));
    let all = start(&Vec::from_iter(but_one.into_iter().flatten()), relay.address, &["/news"]);
    publish(&server, "/news", 1..=2);
    all.iter().for_each(|running| running.client.await_delivered("/news", &up_to(2)));
    relay.silence_all();
    let before: Vec<_> = all.iter().map(connects).collect();
    for (running, before) in all.iter().zip(before) {
        await_connects(running, before + 2);
    }
    publish(&server, "/news", [3]);
    for running in &all {
        running.client.await_delivered("/news", &up_to(3));
        assert_same_session(&server, running);
    }
}

/// The server notices a machine that has lost its power, and the session ends when its window does.
#[test]
fn a_stock_client_whose_machine_is_gone_expires() {
    let link = NetworkLink::new();
    let server = SOON
        .iter()
        .fold(
            Launch::listening_on(&SocketAddr::new(link.near_address(), 0).to_string()),
            |launch, setting| launch.set(setting),
        )
        .argument("--insecure")
        .set("session.poll_gap=1s")
        .set("session.reconnect_window=3s")
        .start();
    let clients = [BayeuxTransport::LongPolling, BayeuxTransport::WebSocket].map(|transport| {
        let client = StockClient::start_beyond(&link, BayeuxLibrary::CometD, transport, server.public, &["/news"]);
        (client, transport)
    });
    let sessions = clients.each_ref().map(|(client, transport)| client.await_ready(*transport, &["/news"]));
    link.cut();
    link.signal(Signal::KILL);
    link.forget_connections();
    for session in &sessions {
        await_expired(&server, session);
        server.await_removal(session);
    }
    let metrics = server.admin.metrics();
    assert_eq!(
        (metrics.events("suspended", "pong_timeout"), metrics.events("suspended", "poll_gap")),
        (1.0, 1.0)
    );
}

/// The kernel ends its connections. Its session waits for as long as it may, and no longer.
#[test]
fn a_stock_client_that_is_killed_expires_on_time() {
    const WINDOW: Duration = Duration::from_secs(3);
    let server = RunningServer::with(&["session.poll_gap=1s", "session.reconnect_window=3s"]);
    let all = start_all(server.public, &["/news"]);
    let killed = Instant::now();
    all.iter().for_each(|running| running.client.signal(Signal::KILL));
    for running in &all {
        server.await_removal(&running.session);
        // By WebSocket, from the cut on; by polls from the last answer, which was before.
        if running.transport == BayeuxTransport::WebSocket {
            let after = killed.elapsed();
            assert!(after >= WINDOW, "{} after {after:?}", running.name);
        }
        await_expired(&server, &running.session);
    }
    assert_eq!(server.admin.metrics().events("expired", "reconnect_window"), all.len() as f64);
}

/// An administrator drops its connections. aiocometd takes the milliseconds that it is asked to stay away for seconds.
#[test]
fn a_stock_client_that_is_dropped_comes_back_to_its_session() {
    let server = RunningServer::with(&["session.poll_hold=1s"]);
    let which = ALL.iter().copied().filter(|(stock, _)| *stock != BayeuxLibrary::Aiocometd);
    let all = start(&Vec::from_iter(which), server.public, &["/news"]);
    for round in 1..=2 {
        let before: Vec<_> = all.iter().map(connects).collect();
        for running in &all {
            assert_eq!(server.admin.disconnect(&running.session).status, 204, "{}", running.name);
        }
        for (running, before) in all.iter().zip(before) {
            await_connects(running, before + 3);
        }
        publish(&server, "/news", [round]);
        for running in &all {
            running.client.await_delivered("/news", &up_to(round));
            assert_same_session(&server, running);
        }
    }
}

#[test]
fn a_stock_client_that_is_kicked_stays_away() {
    let server = RunningServer::with(&[]);
    let all = start_all(server.public, &["/news"]);
    for running in &all {
        server.admin.kick(&running.session);
    }
    for running in &all {
        until(format!("{} is told", running.name), || {
            running.client.values("connect").iter().any(|reply| reply["advice"]["reconnect"] == "none")
        });
    }
    // Otherwise they would be back in half a second.
    let_pass(Duration::from_secs(2));
    assert_eq!(server.admin.metrics().sessions("attached"), 0.0);
    for running in &all {
        assert_eq!(running.client.count("handshake"), 1, "{}", running.name);
    }
}

/// One that ends as it should, and one that does not. Each client handshakes anew by itself, and follows what it followed.
#[test]
fn a_stock_client_goes_on_with_another_server() {
    for signal in [Signal::TERM, Signal::KILL] {
        let mut server = RunningServer::with(&["shutdown.drain=200ms"]);
        let relay = Relay::new(server.public, || Fate::Intact);
        // Of a drain, aiocometd takes the milliseconds that it is asked to stay away for seconds.
        let which =
            ALL.iter().copied().filter(|(stock, _)| signal == Signal::KILL || *stock != BayeuxLibrary::Aiocometd);
        let all = start(&Vec::from_iter(which), relay.address, &["/news", "/more/*"]);
        publish(&server, "/news", [1]);
        all.iter().for_each(|running| running.client.await_delivered("/news", &up_to(1)));
        server.signal(signal);
        server.await_exit(TIMEOUT);
        let server = RunningServer::with(&["session.poll_hold=1s"]);
        relay.redirect_to(server.public);
        for running in &all {
            let again = eventually_within(LONG, format!("{} has a new session", running.name), || {
                let handshakes = running.client.values("handshake");
                let last = handshakes.iter().rfind(|reply| reply["successful"] == true)?;
                let session = encke_tests::bayeux::session(last["clientId"].as_str()?);
                (session != running.session).then_some(session)
            });
            running.client.await_subscribed(&["/news", "/more/*"], 2);
            server.await_phase(&again, "attached");
        }
        publish(&server, "/news", [2]);
        publish(&server, "/more/x", [1]);
        for running in &all {
            running.client.await_delivered("/news", &up_to(2));
            running.client.await_delivered("/more/x", &up_to(1));
        }
    }
}

/// As if its machine had been suspended. What is published before and after comes, with the extension without exception.
#[test]
fn stock_clients_outlast_a_server_that_stands_still() {
    let server = RunningServer::with(&["session.poll_hold=2s", "session.reconnect_window=30s"]);
    let all = start_all(server.public, &["/news"]);
    publish(&server, "/news", 1..=20);
    server.freeze(Duration::from_secs(13));
    let before: Vec<_> = all.iter().map(connects).collect();
    publish(&server, "/news", 21..=40);
    for (running, before) in all.iter().zip(before) {
        await_connects(running, before + 2);
    }
    publish(&server, "/news", [41]);
    for running in &all {
        let last = || running.client.delivered("/news").last() == Some(&json!(41));
        until(format!("{} has the last", running.name), last);
        let mut given = running.client.delivered("/news");
        if running.stock == BayeuxLibrary::CometDWithAck {
            // What still comes on the socket that it closes, it has asked for on the next one.
            let mut seen = HashSet::new();
            given.retain(|number| seen.insert(number.to_string()));
            assert_eq!(given, up_to(41), "{}", running.name);
        }
        let numbers: Vec<_> = given.iter().filter_map(serde_json::Value::as_u64).collect();
        assert!(numbers.is_sorted_by(|one, next| one < next), "{}: {numbers:?}", running.name);
        assert_same_session(&server, running);
    }
}
