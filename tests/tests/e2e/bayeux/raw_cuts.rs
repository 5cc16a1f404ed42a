//! `ENCKE_SEED=<n>` gives the connections the same fates again.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use encke_tests::admin::HttpResponse;
use encke_tests::bayeux::{
    JSON, BayeuxPolling, assert_successful, client_id, connect_now, connect_now_with_ack, events, handshake, post,
    subscribe, with_field,
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

/// How long a client listens before it asks again.
const LISTENS: Duration = Duration::from_millis(20);

#[expect(clippy::print_stdout, reason = "a run that fails can be had again")]
fn rng() -> (u64, SmallRng) {
    let seed =
        std::env::var("ENCKE_SEED").map_or_else(|_| rand::random(), |seed| seed.parse().expect("a number"));
    println!("ENCKE_SEED={seed}");
    (seed, SmallRng::seed_from_u64(seed))
}

/// A relay that cuts each connection somewhere after the answer to an upgrade, and often not at all.
fn relay(server: &RunningServer, seed: u64) -> Relay {
    let mut rng = SmallRng::seed_from_u64(seed ^ 1);
    Relay::new(server.public, move || match rng.random_range(0..4) {
        0 => Fate::Intact,
        _ => Fate::Cut(rng.random_range(400..4_000)),
    })
}

/// A session of the server that follows `/news`: its client id.
fn open(server: &RunningServer, acknowledges: bool) -> String {
    let mut polls = BayeuxPolling::connect(server.public);
    let id = client_id(&polls.reply(&with_field(handshake(), "ext", json!({ "ack": acknowledges }))));
    assert_successful(&polls.reply(&subscribe(&id, "/news")));
    id
}

/// A socket that may break at any time: then it says nothing more.
struct Socket {
    raw: RawClient,
    broken: bool,
    /// Connects without a reply.
    unanswered: usize,
}

impl Socket {
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

    /// What comes within so long, or before the end.
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

    /// What comes up to the reply to a connect, and to all before it, or to the end.
    fn hear_out(&mut self, connect: &Value) -> Vec<Value> {
        self.send(connect);
        let mut came = Vec::new();
        while self.unanswered > 0
            && let Some(more) = self.next(TIMEOUT)
        {
            came.extend(more);
        }
        came
    }

    /// What comes up to the reply to a connect, if all of it comes.
    fn ask(&mut self, connect: &Value) -> Option<Vec<Value>> {
        let came = self.hear_out(connect);
        came.iter().any(is_reply).then_some(came)
    }
}

fn is_reply(message: &Value) -> bool {
    message["channel"] == "/meta/connect"
}

/// A request on a connection of its own: the answer, if all of it comes.
fn ask_once(address: SocketAddr, message: &Value) -> Option<Vec<Value>> {
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

/// By sockets and by requests in turn, wherever they break: every message once, and in order.
#[test]
fn with_acknowledgements_nothing_is_lost_across_transports() {
    let (seed, mut rng) = rng();
    let server = RunningServer::with(&["limits.commands_per_second=0"]);
    let relay = relay(&server, seed);
    let id = open(&server, true);
    let (mut came, mut ack, mut published) = (Vec::new(), 0, 0);
    let mut note = |answer: Option<Vec<Value>>, ack: &mut u64| {
        let Some(answer) = answer else { return };
        came.extend(events(&answer));
        let reply = answer.last().expect("a reply comes last");
        assert_successful(reply);
        *ack = reply["ext"]["ack"].as_u64().expect("an ack");
        assert_eq!(reply["ext"].get("encke"), None, "no gap");
    };
    for _ in 0..CONNECTIONS {
        let mut socket = rng.random_bool(0.5).then(|| Socket::connect(relay.address));
        for _ in 0..rng.random_range(1..6) {
            let more = rng.random_range(0..8);
            publish(&server, "/news", published + 1..=published + more);
            published += more;
            let connect = connect_now_with_ack(&id, ack);
            let answer = match &mut socket {
                Some(socket) => socket.ask(&connect),
                None => ask_once(relay.address, &connect),
            };
            note(answer, &mut ack);
        }
    }
    for _ in 0..2 {
        note(ask_once(server.public, &connect_now_with_ack(&id, ack)), &mut ack);
    }
    assert_eq!(came, up_to(published));
}

/// At most once, in order; and whatever did not come is told.
#[test]
fn without_them_what_a_broken_socket_swallows_is_told() {
    let (seed, mut rng) = rng();
    let server = RunningServer::with(&["limits.commands_per_second=0"]);
    let relay = relay(&server, seed);
    let id = open(&server, false);
    let (mut came, mut told, mut published) = (Vec::<u64>::new(), BTreeSet::new(), 0);
    let mut note = |messages: Vec<Value>| {
        for message in messages {
            if let Some(gaps) = message["ext"]["encke"]["gaps"].as_array() {
                for gap in gaps {
                    let end = |name: &str| gap[name].as_u64().unwrap_or_else(|| panic!("{gap}"));
                    told.extend(end("from")..=end("to"));
                }
            }
            came.extend(events(&[message]).iter().filter_map(Value::as_u64));
        }
    };
    for number in 0..=CONNECTIONS {
        let address = if number == CONNECTIONS { server.public } else { relay.address };
        let mut socket = Socket::connect(address);
        for _ in 0..rng.random_range(2..6) {
            socket.send(&connect_now(&id));
            let more = rng.random_range(0..24);
            publish(&server, "/news", published + 1..=published + more);
            published += more;
            while let Some(messages) = socket.next(LISTENS) {
                note(messages);
            }
        }
        // Whatever comes with the last of these came before it. Who leaves without having read it loses it, and nobody can see that.
        for _ in 0..2 {
            note(socket.hear_out(&connect_now(&id)));
        }
    }
    assert!(came.is_sorted_by(|one, next| one < next), "{came:?}");
    assert!(came.len() < up_to(published).len(), "nothing was lost, so this shows nothing");
    let missing: Vec<_> =
        (1..=published).filter(|number| !came.contains(number) && !told.contains(number)).collect();
    assert_eq!(missing, [] as [u64; 0], "of {published}; came: {came:?}; told: {told:?}");
}
