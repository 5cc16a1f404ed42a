//! Clients that change transports on connections that break. `ENCKE_SEED=<n>` repeats a run with the same
//! faults.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use encke_tests::admin::HttpResponse;
use encke_tests::bayeux::{
    BayeuxPolling, JSON, assert_successful, client_id, connect_now, connect_now_with_ack, events, handshake,
    post, subscribe, with_field,
};
use encke_tests::raw::{PING, PONG, TEXT, masked};
use encke_tests::relay::Fate;
use encke_tests::waiting::TIMEOUT;
use encke_tests::{RawClient, Relay, RunningServer};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};

use super::{publish, up_to};

const CONNECTIONS: u32 = 40;

/// How long a client waits for messages before it sends the next connect.
const LISTEN_TIME: Duration = Duration::from_millis(20);

#[expect(clippy::print_stdout, reason = "a failing run can be repeated")]
fn rng() -> (u64, SmallRng) {
    let seed =
        std::env::var("ENCKE_SEED").map_or_else(|_| rand::random(), |seed| seed.parse().expect("a number"));
    println!("ENCKE_SEED={seed}");
    (seed, SmallRng::seed_from_u64(seed))
}

/// Starts a relay that cuts connections somewhere after the response to an upgrade and leaves one in four
/// intact.
fn relay(server: &RunningServer, seed: u64) -> Relay {
    let mut rng = SmallRng::seed_from_u64(seed ^ 1);
    Relay::new(server.public, move || match rng.random_range(0..4) {
        0 => Fate::Intact,
        _ => Fate::Cut(rng.random_range(400..4_000)),
    })
}

/// Opens a session that is subscribed to `/news`. Returns its client id.
fn open(server: &RunningServer, acknowledges: bool) -> String {
    let mut polls = BayeuxPolling::connect(server.public);
    let id = client_id(&polls.reply(&with_field(handshake(), "ext", json!({ "ack": acknowledges }))));
    assert_successful(&polls.reply(&subscribe(&id, "/news")));
    id
}

/// WebSocket that may break at any time, after which it returns nothing more.
struct BreakingSocket {
    raw: RawClient,
    broken: bool,
    /// Number of connects without a reply.
    unanswered: usize,
}

impl BreakingSocket {
    fn connect(address: SocketAddr) -> Self {
        let mut raw = RawClient::connect(address);
        raw.request_upgrade_at("/bayeux", "");
        raw.await_upgrade();
        Self { raw, broken: false, unanswered: 0 }
    }

    fn send(&mut self, connect: &Value) {
        self.broken |= self.raw.try_send(&masked(TEXT, connect.to_string().as_bytes())).is_err();
        self.unanswered += 1;
    }

    /// Returns the next messages. `None` if none arrive within `limit` or the connection has ended.
    fn next(&mut self, limit: Duration) -> Option<Vec<Value>> {
        let until = Instant::now() + limit;
        while !self.broken {
            match self.raw.frame_within(until.saturating_duration_since(Instant::now())) {
                Ok(Some(frame)) if frame.first == PING => {
                    self.broken |= self.raw.try_send(&masked(PONG, &frame.payload)).is_err();
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

    /// Sends a connect. Returns the messages up to its reply, or `None` if no reply arrives.
    fn request(&mut self, connect: &Value) -> Option<Vec<Value>> {
        let received = self.request_up_to_end(connect);
        received.iter().any(is_reply).then_some(received)
    }
}

fn is_reply(message: &Value) -> bool {
    message["channel"] == "/meta/connect"
}

/// Sends a request on a separate connection. Returns the messages of the response if it arrives completely.
fn request_once(address: SocketAddr, message: &Value) -> Option<Vec<Value>> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(TIMEOUT)).ok()?;
    let request = post("/bayeux", &format!("{JSON}Connection: close\r\n"), &message.to_string());
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).ok()?;
    let answer = String::from_utf8(answer).ok().filter(|text| text.contains("\r\n\r\n"))?;
    let answer = HttpResponse::parse(&answer);
    let length: usize = answer.header("content-length")?.parse().ok()?;
    (answer.body.len() == length).then(|| encke_tests::bayeux::messages(&answer))
}

/// WebSockets and requests alternate at random. Wherever they break, every message arrives once and in order.
#[test]
fn with_acknowledgements_nothing_is_lost_across_transports() {
    let (seed, mut rng) = rng();
    let server = RunningServer::with(&["limits.commands_per_second=0"]);
    let relay = relay(&server, seed);
    let id = open(&server, true);
    let (mut received, mut ack, mut published) = (Vec::new(), 0, 0);
    let mut note = |answer: Option<Vec<Value>>, ack: &mut u64| {
        let Some(answer) = answer else { return };
        received.extend(events(&answer));
        let reply = answer.last().expect("a reply comes last");
        assert_successful(reply);
        *ack = reply["ext"]["ack"].as_u64().expect("an ack");
        assert_eq!(reply["ext"].get("encke"), None, "no gap");
    };
    for _ in 0..CONNECTIONS {
        let mut socket = rng.random_bool(0.5).then(|| BreakingSocket::connect(relay.address));
        for _ in 0..rng.random_range(1..6) {
            let more = rng.random_range(0..8);
            publish(&server, "/news", published + 1..=published + more);
            published += more;
            let connect = connect_now_with_ack(&id, ack);
            let answer = match &mut socket {
                Some(socket) => socket.request(&connect),
                None => request_once(relay.address, &connect),
            };
            note(answer, &mut ack);
        }
    }
    for _ in 0..2 {
        note(request_once(server.public, &connect_now_with_ack(&id, ack)), &mut ack);
    }
    assert_eq!(received, up_to(published));
}

/// Messages arrive at most once and in order. Missing ones are reported.
#[test]
fn without_acknowledgements_lost_messages_are_reported() {
    let (seed, mut rng) = rng();
    let server = RunningServer::with(&["limits.commands_per_second=0"]);
    let relay = relay(&server, seed);
    let id = open(&server, false);
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
            publish(&server, "/news", published + 1..=published + more);
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
