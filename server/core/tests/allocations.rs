//! Memory allocations of a session. This is a separate test binary because the counting allocator replaces
//! the global one.

use std::time::Duration;

use allocation_counter::measure;
use encke_core::Timestamp;
use encke_core::session::outbox::LogBounds;
use encke_core::session::{
    Attach, ConnectionId, ConnectionInput, ConnectionKind, Deadline, DeliveryMode, Heartbeat, Input, Outbox,
    Output, Outputs, Session, SessionTimeouts, StepContext,
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

/// A session with the context that its owner would provide.
struct OwnedSession {
    session: Session,
    outputs: Outputs,
    now: Timestamp,
}

impl OwnedSession {
    fn open(heartbeat: Heartbeat) -> Self {
        let mut outputs = Outputs::new();
        let now = Timestamp::from_nanos(1_000_000_000);
        let attach = Attach {
            connection: CONNECTION,
            kind: ConnectionKind::Stream(heartbeat),
            seq: None,
            delivery: DeliveryMode::AtLeastOnce,
            token_expires: None,
            entropy: 0,
        };
        let mut step = StepContext { now, timeouts: &TIMEOUTS, outputs: &mut outputs };
        let session = Session::open(&mut step, Outbox::new(1024), attach);
        Self { session, outputs, now }
    }

    fn step(&mut self, act: impl FnOnce(&mut Session, &mut StepContext<'_>)) {
        self.outputs.clear();
        act(
            &mut self.session,
            &mut StepContext { now: self.now, timeouts: &TIMEOUTS, outputs: &mut self.outputs },
        );
    }

    fn handle(&mut self, input: ConnectionInput) {
        self.step(|session, step| session.handle(step, Input::Connection(CONNECTION, input)));
    }

    /// Fires the next ping, sends it, and answers it with `pong`.
    fn heartbeat(&mut self, pong: ConnectionInput) {
        let (due, deadline) = self.session.next_deadline(&TIMEOUTS).expect("a ping is due");
        assert_eq!(deadline, Deadline::Ping);
        self.now = due;
        self.step(|session, step| session.handle_timeout(step));
        assert_eq!(self.outputs.last(), Some(&Output::Ping(CONNECTION)));
        self.handle(ConnectionInput::PingSent { seq: 0 });
        self.now = due + Duration::from_millis(20);
        self.session.received(self.now);
        self.handle(pong);
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
        let mut session = OwnedSession::open(heartbeat);
        let allocated = measure(|| (0..1_000).for_each(|_| session.heartbeat(pong)));
        assert_eq!(allocated.count_total, 0, "{heartbeat:?}");
    }
}

#[test]
fn a_session_without_subscriptions_allocates_nothing() {
    let mut session = None;
    let allocated = measure(|| session = Some(OwnedSession::open(Heartbeat::Frame)));
    assert!(session.is_some());
    assert_eq!(allocated.count_total, 0);
}

#[test]
fn one_subscription_and_its_ring_are_stored_inline() {
    let mut session = OwnedSession::open(Heartbeat::Frame).session;
    let outbox = session.outbox_mut();
    let allocated = measure(|| {
        let slot = outbox.subscribe((), 0, false);
        for last in 1..=400 {
            outbox.mark_ready(slot);
            let turn = outbox.next_turn().expect("there are new messages");
            outbox.take(turn, LogBounds { first: 1, last }, 32, |_| &[]);
        }
    });
    assert_eq!(allocated.count_total, 0);
    assert_eq!(session.outbox().unacked(), 400);
}
