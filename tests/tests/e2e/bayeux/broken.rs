use std::collections::HashSet;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use encke_tests::network::NetworkLink;
use encke_tests::process::Signal;
use encke_tests::relay::Fate;
use encke_tests::stock::{ALL, BayeuxTransport};
use encke_tests::waiting::{TIMEOUT, eventually_within, let_pass, until};
use encke_tests::{BayeuxLibrary, Launch, Relay, RunningServer, StockClient};
use serde_json::json;

use super::{StartedClient, publish, start, start_all, up_to};

/// Short timeouts: a client notices by itself that its poll is not answered, soon after the response is due.
const SHORT_TIMEOUTS: [&str; 3] =
    ["session.poll_hold=1s", "session.ping_interval=1s", "session.pong_timeout=500ms"];

/// Time limit for a client that is not notified of anything: its own request timeout plus an allowance for a
/// busy machine.
const LONG: Duration = Duration::from_secs(40);

#[track_caller]
fn await_connects(running: &StartedClient, count: usize) {
    let connects = || {
        let replies = running.client.values("connect");
        (replies.iter().filter(|connect| connect["successful"] == true).count() >= count).then_some(())
    };
    eventually_within(LONG, format!("{} has reconnected", running.name), connects);
}

fn connects(running: &StartedClient) -> usize {
    running.client.values("connect").iter().filter(|connect| connect["successful"] == true).count()
}

/// Asserts that the client is still in its first session.
#[track_caller]
fn assert_same_session(server: &RunningServer, running: &StartedClient) {
    assert_eq!(running.client.count("handshake"), 1, "{}", running.name);
    assert_eq!(server.admin.phase(&running.session).as_deref(), Some("attached"), "{}", running.name);
}

/// Waits until the log shows that the session's reconnect window has ended.
#[track_caller]
fn await_expired(server: &RunningServer, session: &str) {
    until(format!("the log has the end of {session}"), || {
        server.logs.lifecycle(session).last() == Some(&("expired".into(), "reconnect_window".into()))
    });
}

#[test]
fn stock_client_resumes_after_a_cut() {
    let server = RunningServer::with(&["session.poll_hold=1s"]);
    let relay = Relay::new(server.public, || Fate::Intact);
    let all = start_all(relay.address, &["/news"]);
    publish(&server, "/news", 1..=2);
    all.iter().for_each(|running| running.client.await_delivered("/news", &up_to(2)));
    for round in 1..=2 {
        let before: Vec<_> = all.iter().map(connects).collect();
        assert!(relay.cut_all() >= all.len());
        // Wait for the second poll after the cut, so that the next message is not in transit on a closed
        // connection.
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

/// The relay goes silent without notifying either side. Faye over WebSocket is excluded: it closes the dead
/// socket and then waits half a minute for a reply to its Close frame.
#[test]
fn stock_client_resumes_after_an_unnoticed_connection_loss() {
    let server = RunningServer::with(&SHORT_TIMEOUTS);
    let relay = Relay::new(server.public, || Fate::Intact);
    let all_but_one =
        ALL.map(|each| (each != (BayeuxLibrary::Faye, BayeuxTransport::WebSocket)).then_some(each));
    let all = start(&Vec::from_iter(all_but_one.into_iter().flatten()), relay.address, &["/news"]);
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

/// The server notices that the client's machine has lost power, and the session expires when its reconnect
/// window ends.
#[test]
fn session_of_a_vanished_machine_expires() {
    let link = NetworkLink::new();
    let server = SHORT_TIMEOUTS
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
        let client =
            StockClient::start_beyond(&link, BayeuxLibrary::CometD, transport, server.public, &["/news"]);
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

/// The client's kernel closes the connections. The session lasts for exactly the reconnect window.
#[test]
fn session_of_a_killed_stock_client_expires_on_time() {
    const WINDOW: Duration = Duration::from_secs(3);
    let server = RunningServer::with(&["session.poll_gap=1s", "session.reconnect_window=3s"]);
    let all = start_all(server.public, &["/news"]);
    let killed = Instant::now();
    all.iter().for_each(|running| running.client.signal(Signal::KILL));
    for running in &all {
        server.await_removal(&running.session);
        // Over WebSocket, the window starts at the kill. With polls it starts at the last response, which was
        // before the kill.
        if running.transport == BayeuxTransport::WebSocket {
            let after = killed.elapsed();
            assert!(after >= WINDOW, "{} after {after:?}", running.name);
        }
        await_expired(&server, &running.session);
    }
    assert_eq!(server.admin.metrics().events("expired", "reconnect_window"), all.len() as f64);
}

/// An administrator drops the connections. aiocometd is excluded because it interprets the advised interval,
/// which is in milliseconds, as seconds.
#[test]
fn stock_client_resumes_after_a_dropped_connection() {
    let server = RunningServer::with(&["session.poll_hold=1s"]);
    let selected = ALL.iter().copied().filter(|(stock, _)| *stock != BayeuxLibrary::Aiocometd);
    let all = start(&Vec::from_iter(selected), server.public, &["/news"]);
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
fn kicked_stock_client_does_not_reconnect() {
    let server = RunningServer::with(&[]);
    let all = start_all(server.public, &["/news"]);
    for running in &all {
        server.admin.kick(&running.session);
    }
    for running in &all {
        until(format!("{} is advised not to reconnect", running.name), || {
            running.client.values("connect").iter().any(|reply| reply["advice"]["reconnect"] == "none")
        });
    }
    // A client that wanted to reconnect would do so within half a second.
    let_pass(Duration::from_secs(2));
    assert_eq!(server.admin.metrics().sessions("attached"), 0.0);
    for running in &all {
        assert_eq!(running.client.count("handshake"), 1, "{}", running.name);
    }
}

/// The first server drains or is killed, and a second one replaces it. Each client handshakes again by itself
/// and renews its subscriptions.
#[test]
fn stock_client_continues_with_another_server() {
    for signal in [Signal::TERM, Signal::KILL] {
        let mut server = RunningServer::with(&["shutdown.drain=200ms"]);
        let relay = Relay::new(server.public, || Fate::Intact);
        // aiocometd is excluded from the drain: it interprets the advised interval, which is in milliseconds,
        // as seconds.
        let selected = ALL
            .iter()
            .copied()
            .filter(|(stock, _)| signal == Signal::KILL || *stock != BayeuxLibrary::Aiocometd);
        let all = start(&Vec::from_iter(selected), relay.address, &["/news", "/more/*"]);
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

/// The server is paused as if its machine had been suspended. Messages published before and after the pause
/// arrive. With the acknowledgement extension, all of them do.
#[test]
fn stock_clients_survive_a_pause_of_the_server() {
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
        until(format!("{} has the last message", running.name), last);
        let mut given = running.client.delivered("/news");
        if running.stock == BayeuxLibrary::CometDWithAck {
            // Duplicates are possible: messages may still arrive on the socket that the client is closing
            // after it has requested them again on the next one.
            let mut seen = HashSet::new();
            given.retain(|number| seen.insert(number.to_string()));
            assert_eq!(given, up_to(41), "{}", running.name);
        }
        let numbers: Vec<_> = given.iter().filter_map(serde_json::Value::as_u64).collect();
        assert!(numbers.is_sorted_by(|one, next| one < next), "{}: {numbers:?}", running.name);
        assert_same_session(&server, running);
    }
}
