use encke_tests::bayeux::{
    BayeuxPolling, assert_successful, client_id, connect, connect_with_ack, events, handshake, subscribe,
    with_field,
};
use encke_tests::waiting::until;
use encke_tests::{RunningServer, crowd};
use serde_json::{Value, json};

use super::{publish, up_to};

const POLLERS: usize = 500;
const MESSAGES: u64 = 30;

/// Every other poller uses acknowledgements.
#[test]
fn five_hundred_pollers_miss_nothing() {
    crowd::require_descriptors(POLLERS);
    // On a busy machine, it takes long until a poller that was answered polls again.
    let server = RunningServer::with(&["session.poll_gap=1m"]);
    let mut pollers: Vec<_> = (0..POLLERS).map(|number| Poller::open(&server, number % 2 == 0)).collect();
    pollers.iter_mut().for_each(Poller::poll);
    until("all polls are held", || {
        server.admin.metrics().value(r#"encke_connections{transport="poll",dialect="bayeux"}"#)
            >= POLLERS as f64
    });
    for number in 1..=MESSAGES {
        publish(&server, "/news", [number]);
        // Let some pollers get ahead of the others.
        let behind = usize::try_from(number).expect("the number is small");
        for poller in pollers.iter_mut().skip(behind % 3).step_by(3) {
            poller.take();
        }
    }
    for poller in &mut pollers {
        while poller.received.len() < up_to(MESSAGES).len() {
            poller.take();
        }
        assert_eq!(poller.received, up_to(MESSAGES));
    }
    assert_eq!(server.admin.metrics().sessions("attached"), POLLERS as f64);
    assert_eq!(server.admin.metrics().events("suspended", "poll_gap"), 0.0);
}

/// A client that sends one request at a time.
struct Poller {
    polls: BayeuxPolling,
    client_id: String,
    /// Last ack, if the client acknowledges.
    ack: Option<u64>,
    received: Vec<Value>,
}

impl Poller {
    fn open(server: &RunningServer, acknowledges: bool) -> Self {
        let mut polls = BayeuxPolling::connect(server.public);
        let hello = with_field(handshake(), "ext", json!({ "ack": acknowledges }));
        let client_id = client_id(&polls.reply(&hello));
        assert_successful(&polls.reply(&subscribe(&client_id, "/news")));
        let mut poller = Self { polls, client_id, ack: acknowledges.then_some(0), received: Vec::new() };
        // The server answers the first connect immediately.
        poller.poll();
        let answer = poller.polls.response();
        poller.note(&answer);
        poller
    }

    fn poll(&mut self) {
        let poll = match self.ack {
            Some(ack) => connect_with_ack(&self.client_id, ack),
            None => connect(&self.client_id),
        };
        self.polls.send(&poll);
    }

    /// Waits for the answer to the held poll and polls again.
    fn take(&mut self) {
        let answer = self.polls.response();
        self.note(&answer);
        self.poll();
    }

    fn note(&mut self, answer: &[Value]) {
        self.received.extend(events(answer));
        let reply = answer.last().expect("a reply comes last");
        assert_successful(reply);
        if let Some(ack) = &mut self.ack {
            *ack = reply["ext"]["ack"].as_u64().unwrap_or_else(|| panic!("no ack: {reply}"));
        }
    }
}
