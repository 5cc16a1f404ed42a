//! The acknowledgement extension on connections that break. `ENCKE_SEED=<n>` repeats a run with the same
//! faults.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use encke_tests::relay::Fate;
use encke_tests::stock::BayeuxTransport;
use encke_tests::waiting::eventually_within;
use encke_tests::{BayeuxLibrary, Relay, RunningServer};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::{start, up_to};

/// Generous time limit, because a client backs off after each connection that breaks.
const LONG: Duration = Duration::from_secs(60);

/// Number of messages by which the publisher may be ahead of the client. Less than a channel's history.
const AHEAD: usize = 100;

const BROKEN: usize = 10;

/// Connections break at any point: within the handshake, a reply or a message, before or after the server has
/// answered.
#[test]
fn extension_prevents_losses_and_duplicates_wherever_connections_break() {
    let seed = encke_seeds::seed();
    std::thread::scope(|scope| {
        for transport in [BayeuxTransport::LongPolling, BayeuxTransport::WebSocket] {
            scope.spawn(move || break_connections(seed, transport));
        }
    });
}

fn break_connections(seed: u64, transport: BayeuxTransport) {
    let mut rng = SmallRng::seed_from_u64(seed);
    let server = RunningServer::with(&["session.poll_hold=1s"]);
    let connections = Arc::new(AtomicUsize::new(0));
    let relay = Relay::new(server.public, {
        let connections = Arc::clone(&connections);
        // Leave the first two connections intact, so that the session and its subscriptions are created.
        move || match connections.fetch_add(1, Ordering::AcqRel) {
            0..2 => Fate::Intact,
            number if number < 2 + BROKEN => Fate::Cut(rng.random_range(0..6_000)),
            _ => Fate::Intact,
        }
    });
    let running = start(&[(BayeuxLibrary::CometDWithAck, transport)], relay.address, &["/news"]).remove(0);
    let mut published = 0;
    let mut cut_at = 0;
    while connections.load(Ordering::Acquire) < 2 + BROKEN {
        published += 1;
        server.admin.publish("/news", published);
        // Cut the first connections, and any that happen to last long.
        if published >= cut_at {
            relay.cut_all();
            cut_at = published + 50;
        }
        let last = usize::try_from(published).expect("the number fits into usize");
        eventually_within(LONG, "the client keeps up", || {
            (running.client.delivered("/news").len() + AHEAD >= last).then_some(())
        });
    }
    let last = usize::try_from(published).expect("the number fits into usize");
    eventually_within(LONG, format!("{last} messages by {transport:?}"), || {
        (running.client.delivered("/news").len() >= last).then_some(())
    });
    assert_eq!(running.client.delivered("/news"), up_to(published), "{transport:?}");
    assert_eq!(running.client.count("handshake"), 1, "the session is the first one");
    let replies = running.client.values("connect");
    assert!(replies.iter().all(|reply| reply["ext"].get("encke").is_none()), "no gaps: {replies:?}");
}
