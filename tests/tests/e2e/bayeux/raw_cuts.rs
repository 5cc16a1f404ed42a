//! WebSockets that break, without the acknowledgement extension. `ENCKE_SEED=<n>` repeats a run with the same
//! faults.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use encke_tests::bayeux::{BayeuxPolling, BayeuxWebSocket, connect_now, events};
use encke_tests::raw::{PING, PONG, TEXT, masked};
use encke_tests::relay::Fate;
use encke_tests::waiting::TIMEOUT;
use encke_tests::{RawClient, Relay, RunningServer};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use serde_json::Value;

use super::up_to;

const CONNECTIONS: u32 = 40;

/// How long a client waits for messages before it sends the next connect.
const LISTEN_TIME: Duration = Duration::from_millis(20);

/// WebSocket that may break at any time, after which it returns nothing more.
struct BreakingSocket {
    raw: RawClient,
    broken: bool,
    /// Number of connects without a reply.
    unanswered: usize,
}

impl BreakingSocket {
    fn connect(address: SocketAddr) -> Self {
        Self { raw: BayeuxWebSocket::connect(address).raw, broken: false, unanswered: 0 }
    }

    fn send(&mut self, connect: &Value) {
        self.broken |= self.raw.try_send(masked(TEXT, connect.to_string().as_bytes())).is_err();
        self.unanswered += 1;
    }

    /// Returns the next messages. `None` if none arrive within `limit` or the connection has ended.
    fn next(&mut self, limit: Duration) -> Option<Vec<Value>> {
        let until = Instant::now() + limit;
        while !self.broken {
            match self.raw.frame_within(until.saturating_duration_since(Instant::now())) {
                Ok(Some(frame)) if frame.first == PING => {
                    self.broken |= self.raw.try_send(masked(PONG, &frame.payload)).is_err();
                }
                Ok(Some(frame)) if frame.first == TEXT => {
                    let messages: Vec<_> = serde_json::from_slice(&frame.payload).expect("an array");
                    self.unanswered -= messages.iter().filter(|message| is_reply(message)).count();
                    return Some(messages);
                }
                Ok(Some(_)) => {}
                Ok(None) => return None,
                Err(_) => self.broken = true,
            }
        }
        None
    }

    /// Sends a connect. Returns all messages up to the replies to this connect and to all earlier ones, or up
    /// to the end of the connection.
    fn request_up_to_end(&mut self, connect: &Value) -> Vec<Value> {
        self.send(connect);
        let mut received = Vec::new();
        while self.unanswered > 0
            && let Some(more) = self.next(TIMEOUT)
        {
            received.extend(more);
        }
        received
    }
}

fn is_reply(message: &Value) -> bool {
    message["channel"] == "/meta/connect"
}

/// Messages arrive at most once and in order. Missing ones are reported.
#[test]
fn without_acknowledgements_lost_messages_are_reported() {
    let seed = encke_seeds::seed();
    let mut rng = SmallRng::seed_from_u64(seed);
    let mut fates = SmallRng::seed_from_u64(seed ^ 1);
    let server = RunningServer::with(&["limits.commands_per_second=0"]);
    // Connections are cut somewhere after the response to the upgrade. One in four is left intact.
    let relay = Relay::new(server.public, move || match fates.random_range(0..4) {
        0 => Fate::Intact,
        _ => Fate::Cut(fates.random_range(400..4_000)),
    });
    let id = BayeuxPolling::connect(server.public).open(&["/news"]);
    let (mut received, mut reported, mut published) = (Vec::<u64>::new(), BTreeSet::new(), 0);
    let mut note = |messages: Vec<Value>| {
        for message in messages {
            if let Some(gaps) = message["ext"]["encke"]["gaps"].as_array() {
                for gap in gaps {
                    let end = |name: &str| gap[name].as_u64().unwrap_or_else(|| panic!("{gap}"));
                    reported.extend(end("from")..=end("to"));
                }
            }
            received.extend(events(&[message]).iter().filter_map(Value::as_u64));
        }
    };
    for number in 0..=CONNECTIONS {
        let address = if number == CONNECTIONS { server.public } else { relay.address };
        let mut socket = BreakingSocket::connect(address);
        for _ in 0..rng.random_range(2..6) {
            socket.send(&connect_now(&id));
            let more = rng.random_range(0..24);
            server.admin.publish_each("/news", published + 1..=published + more);
            published += more;
            while let Some(messages) = socket.next(LISTEN_TIME) {
                note(messages);
            }
        }
        // Read everything that was sent before the last of these replies. The loss of messages that the
        // client left unread could not be detected.
        for _ in 0..2 {
            note(socket.request_up_to_end(&connect_now(&id)));
        }
    }
    assert!(received.is_sorted_by(|one, next| one < next), "{received:?}");
    assert!(received.len() < up_to(published).len(), "nothing was lost, so the test proves nothing");
    let missing: Vec<_> =
        (1..=published).filter(|number| !received.contains(number) && !reported.contains(number)).collect();
    assert_eq!(missing, [] as [u64; 0], "of {published}; received: {received:?}; reported: {reported:?}");
}
