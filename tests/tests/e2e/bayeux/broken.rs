use std::time::Duration;

use encke_tests::process::Signal;
use encke_tests::relay::Fate;
use encke_tests::server::FREQUENT_PINGS;
use encke_tests::stock::{ALL, BayeuxTransport};
use encke_tests::waiting::{eventually_within, let_pass, until};
use encke_tests::{BayeuxLibrary, Launch, Relay, RunningServer};

use super::{StartedClient, start, start_all, up_to};

/// Time limit for a client that is not notified of anything: its own request timeout plus an allowance for a
/// busy machine.
const LONG: Duration = Duration::from_secs(40);

/// Returns the number of successful connects.
fn connects(running: &StartedClient) -> usize {
    running.client.values("connect").iter().filter(|connect| connect["successful"] == true).count()
}

/// Calls `interfere`, and waits until each client has completed `more` connects since then.
#[track_caller]
fn await_connects_after(all: &[StartedClient], more: usize, interfere: impl FnOnce()) {
    let before: Vec<_> = all.iter().map(connects).collect();
    interfere();
    for (running, before) in all.iter().zip(before) {
        eventually_within(LONG, format!("{} has reconnected", running.name), || {
            (connects(running) >= before + more).then_some(())
        });
    }
}

/// Returns all clients except aiocometd, which interprets an advised interval in milliseconds as seconds.
fn all_that_pause() -> Vec<(BayeuxLibrary, BayeuxTransport)> {
    ALL.into_iter().filter(|(stock, _)| *stock != BayeuxLibrary::Aiocometd).collect()
}

/// Asserts that the client is still in its first session.
#[track_caller]
fn assert_same_session(server: &RunningServer, running: &StartedClient) {
    assert_eq!(running.client.count("handshake"), 1, "{}", running.name);
    assert_eq!(server.admin.phase(&running.session).as_deref(), Some("attached"), "{}", running.name);
}

#[test]
fn stock_client_resumes_after_a_cut() {
    let server = RunningServer::with(&["session.poll_hold=1s"]);
    let relay = Relay::new(server.public, || Fate::Intact);
    let all = start_all(relay.address, &["/news"]);
    server.admin.publish_each("/news", 1..=2);
    all.iter().for_each(|running| running.client.await_delivered("/news", &up_to(2)));
    for round in 1..=2 {
        // Wait for the second poll after the cut, so that the next message is not in transit on a closed
        // connection.
        await_connects_after(&all, 2, || assert!(relay.cut_all() >= all.len()));
        server.admin.publish("/news", 2 + round);
        for running in &all {
            running.client.await_delivered("/news", &up_to(2 + round));
            assert_same_session(&server, running);
        }
    }
}

/// The relay goes silent without notifying either side. Faye over WebSocket is excluded: it closes the dead
/// socket and then waits half a minute for a reply to its Close frame.
#[test]
fn stock_client_resumes_after_an_unnoticed_connection_loss() {
    // A client notices by itself that its poll is not answered, soon after the response is due.
    let server = Launch::with(&FREQUENT_PINGS).set("session.poll_hold=1s").start();
    let relay = Relay::new(server.public, || Fate::Intact);
    let mut selected = Vec::from(ALL);
    selected.retain(|each| *each != (BayeuxLibrary::Faye, BayeuxTransport::WebSocket));
    let all = start(&selected, relay.address, &["/news"]);
    server.admin.publish_each("/news", 1..=2);
    all.iter().for_each(|running| running.client.await_delivered("/news", &up_to(2)));
    await_connects_after(&all, 2, || relay.silence_all());
    server.admin.publish("/news", 3);
    for running in &all {
        running.client.await_delivered("/news", &up_to(3));
        assert_same_session(&server, running);
    }
}

/// An administrator drops the connections, and then ends the sessions.
#[test]
fn stock_client_resumes_after_a_dropped_connection_but_not_after_a_kick() {
    let server = RunningServer::with(&["session.poll_hold=1s"]);
    let all = start(&all_that_pause(), server.public, &["/news"]);
    for round in 1..=2 {
        await_connects_after(&all, 3, || {
            for running in &all {
                assert_eq!(server.admin.disconnect(&running.session).status, 204, "{}", running.name);
            }
        });
        server.admin.publish("/news", round);
        for running in &all {
            running.client.await_delivered("/news", &up_to(round));
            assert_same_session(&server, running);
        }
    }
    let aiocometd = ALL.into_iter().filter(|(stock, _)| *stock == BayeuxLibrary::Aiocometd);
    let others = start(&Vec::from_iter(aiocometd), server.public, &["/news"]);
    let all = || all.iter().chain(&others);
    for running in all() {
        server.admin.kick(&running.session);
    }
    for running in all() {
        until(format!("{} is advised not to reconnect", running.name), || {
            running.client.values("connect").iter().any(|reply| reply["advice"]["reconnect"] == "none")
        });
    }
    // A client that wanted to reconnect would do so within half a second.
    let_pass(Duration::from_secs(2));
    assert_eq!(server.admin.metrics().sessions("attached"), 0.0);
    for running in all() {
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
        let selected = if signal == Signal::KILL { Vec::from(ALL) } else { all_that_pause() };
        let all = start(&selected, relay.address, &["/news", "/more/*"]);
        server.admin.publish("/news", 1);
        all.iter().for_each(|running| running.client.await_delivered("/news", &up_to(1)));
        server.signal(signal);
        server.await_exit();
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
        server.admin.publish("/news", 2);
        server.admin.publish("/more/x", 1);
        for running in &all {
            running.client.await_delivered("/news", &up_to(2));
            running.client.await_delivered("/more/x", &up_to(1));
        }
    }
}
