//! What a session allocates. In a test of its own, since an allocator that counts stands in for that of the whole binary.

use std::time::Duration;

use allocation_counter::measure;
use encke_core::Timestamp;
use encke_core::session::outbox::Bounds;
use encke_core::session::{
    Attach, ConnectionId, ConnectionInput, ConnectionKind, Deadline, Delivery, Heartbeat, Input, Outbox,
    Output, Outputs, Session, SessionTimeouts, Step,
};

const CONNECTION: ConnectionId = ConnectionId(1);

const TIMEOUTS: SessionTimeouts = SessionTimeouts {
    ping_interval: Duration::from_secs(25),
    pong_timeout: Duration::from_secs(10),
    poll_hold: Duration::from_secs(30),
    poll_gap: Duration::from_secs(10),
    reconnect_window: Duration::from_secs(120),
    idle: Some(Duration::from_hours(1_000)),
    lifetime: Some(Duration::from_hours(1_000)),
};

/// A session, and what its owner has for all of them.
struct Owned {
    session: Session,
    outputs: Outputs,
    now: Timestamp,
}

impl Owned {
    fn open(heartbeat: Heartbeat) -> Self {
        let mut outputs = Outputs::new();
        let now = Timestamp::from_nanos(1_000_000_000);
        let attach = Attach {
            connection: CONNECTION,
            kind: ConnectionKind::Stream(heartbeat),
            seq: None,
            delivery: Delivery::AtLeastOnce,
            token_expires: None,
            entropy: 0,
        };
        let mut step = Step { now, timeouts: &TIMEOUTS, outputs: &mut outputs };
        let session = Session::open(&mut step, Outbox::new(1024), attach);
        Self { session, outputs, now }
    }

    fn step(&mut self, act: impl FnOnce(&mut Session, &mut Step<'_>)) {
        self.outputs.clear();
        act(&mut self.session, &mut Step { now: self.now, timeouts: &TIMEOUTS, outputs: &mut self.outputs });
    }

    fn tell(&mut self, input: ConnectionInput) {
        self.step(|session, step| session.handle(step, Input::Connection(CONNECTION, input)));
    }

    /// The next ping is due, is sent, and is answered by `pong`.
    fn heartbeat(&mut self, pong: ConnectionInput) {
        let (due, deadline) = self.session.next_deadline(&TIMEOUTS).expect("a ping comes");
        assert_eq!(deadline, Deadline::Ping);
        self.now = due;
        self.step(|session, step| session.handle_timeout(step));
        assert_eq!(self.outputs.last(), Some(&Output::Ping(CONNECTION)));
        self.tell(ConnectionInput::PingSent { seq: 0 });
        self.now = due + Duration::from_millis(20);
        self.session.received(self.now);
        self.tell(pong);
        assert_eq!(self.outputs[..], [Output::RoundTrip(Duration::from_millis(20))]);
    }
}

#[test]
fn a_heartbeat_allocates_nothing() {
    let pongs = [
        (Heartbeat::Frame, ConnectionInput::PongFrame { seq: 0 }),
        (Heartbeat::Message, ConnectionInput::PongMessage { seq: 0 }),
    ];
    for (heartbeat, pong) in pongs {
        let mut session = Owned::open(heartbeat);
        let allocated = measure(|| (0..1_000).for_each(|_| session.heartbeat(pong)));
        assert_eq!(allocated.count_total, 0, "{heartbeat:?}");
    }
}

#[test]
fn a_session_that_follows_nothing_has_no_memory_of_its_own() {
    let mut session = None;
    let allocated = measure(|| session = Some(Owned::open(Heartbeat::Frame)));
    assert!(session.is_some());
    assert_eq!(allocated.count_total, 0);
}

#[test]
fn one_subscription_and_what_it_was_sent_are_in_place() {
    let mut session = Owned::open(Heartbeat::Frame).session;
    let outbox = session.outbox_mut();
    let allocated = measure(|| {
        let slot = outbox.subscribe((), 0, false);
        for last in 1..=400 {
            outbox.mark_ready(slot);
            let turn = outbox.next_turn().expect("there is something new");
            outbox.take(turn, Bounds { first: 1, last }, 32, |_| &[]);
        }
    });
    assert_eq!(allocated.count_total, 0);
    assert_eq!(session.outbox().unacked(), 400);
}
