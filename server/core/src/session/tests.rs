//! Tests of a session's timing, in virtual time. All times are in milliseconds after [`START_MS`].

mod delivery;
mod polls;

use std::time::Duration;

use super::harness::SessionHarness;
use super::*;
use crate::Timestamp;
use crate::close::{CloseCode, CloseReason, SuspendReason};

const START_MS: u64 = 1_000_000;
const A: ConnectionId = ConnectionId(1);
const B: ConnectionId = ConnectionId(2);
/// Entropy for which the first ping is sent after half the interval.
const HALF: u32 = 0;
/// Entropy for which the first ping is sent after the whole interval.
const WHOLE: u32 = u32::MAX;

fn at(ms: u64) -> Timestamp {
    Timestamp::from_nanos((START_MS + ms) * 1_000_000)
}

fn attach(connection: ConnectionId, heartbeat: Heartbeat, entropy: u32) -> Attach {
    Attach {
        connection,
        kind: ConnectionKind::Stream(heartbeat),
        seq: None,
        delivery: DeliveryMode::AtLeastOnce,
        token_expires: None,
        entropy,
    }
}

fn timeouts() -> SessionTimeouts {
    SessionTimeouts {
        ping_interval: Duration::from_millis(1_000),
        pong_timeout: Duration::from_millis(400),
        poll_hold: Duration::from_millis(700),
        poll_gap: Duration::from_millis(300),
        reconnect_window: Duration::from_millis(5_000),
        idle: None,
        lifetime: None,
    }
}

struct TimedSession {
    session: SessionHarness,
}

impl TimedSession {
    fn open(timeouts: SessionTimeouts, attach: Attach) -> Self {
        let mut timed = Self { session: SessionHarness::open(at(0), &timeouts, Outbox::new(1024), attach) };
        assert_eq!(timed.outputs(), [event(1, Transition::Opened)]);
        timed
    }

    fn stream(entropy: u32) -> Self {
        Self::open(timeouts(), attach(A, Heartbeat::Frame, entropy))
    }

    fn outputs(&mut self) -> Vec<Output> {
        std::iter::from_fn(|| self.session.poll_output()).collect()
    }

    /// Advances the time without any input.
    fn wait(&mut self, ms: u64) -> Vec<Output> {
        self.session.handle_timeout(at(ms));
        self.outputs()
    }

    fn input(&mut self, ms: u64, input: Input) -> Vec<Output> {
        self.session.handle(at(ms), input);
        self.outputs()
    }

    fn on(&mut self, ms: u64, connection: ConnectionId, input: ConnectionInput) -> Vec<Output> {
        self.input(ms, Input::Connection(connection, input))
    }

    fn received(&mut self, ms: u64) {
        self.session.received(at(ms));
    }

    fn next(&self) -> Option<(Timestamp, Deadline)> {
        self.session.next_deadline()
    }

    fn armed(&self) -> Vec<Deadline> {
        self.session.deadlines().map(|(_, deadline)| deadline).collect()
    }
}

fn event(number: u32, transition: Transition) -> Output {
    Output::Event(LifecycleEvent { number, transition })
}

fn fired(deadline: Deadline, ms: u64) -> Output {
    Output::Fired(deadline, at(ms))
}

const NOTHING: [Output; 0] = [];

#[test]
fn the_first_ping_comes_after_half_to_whole_the_interval() {
    for (entropy, due) in [(HALF, 500), (WHOLE, 1_000)] {
        let mut timed = TimedSession::stream(entropy);
        assert_eq!(timed.next(), Some((at(due), Deadline::Ping)));
        assert_eq!(timed.wait(due - 1), NOTHING);
        assert_eq!(timed.wait(due), [fired(Deadline::Ping, due), Output::Ping(A)]);
        assert_eq!(timed.wait(due), NOTHING, "once");
    }
}

#[test]
fn an_answered_ping_is_followed_by_the_next_an_interval_after_the_answer() {
    let mut timed = TimedSession::stream(WHOLE);
    timed.wait(1_000);
    assert_eq!(timed.next(), None, "Pong waits until the ping's bytes are in the kernel");
    timed.on(1_010, A, ConnectionInput::PingSent { seq: 0 });
    assert_eq!(timed.next(), Some((at(1_410), Deadline::Pong)));
    assert_eq!(
        timed.on(1_030, A, ConnectionInput::PongFrame { seq: 0 }),
        [Output::RoundTrip(Duration::from_millis(20))]
    );
    assert_eq!(timed.next(), Some((at(2_030), Deadline::Ping)));
    assert_eq!(timed.wait(2_030), [fired(Deadline::Ping, 2_030), Output::Ping(A)]);
}

#[test]
fn a_silent_peer_is_probed_and_then_suspended() {
    let mut timed = TimedSession::stream(WHOLE);
    timed.wait(1_000);
    timed.on(1_000, A, ConnectionInput::PingSent { seq: 0 });
    assert_eq!(timed.wait(1_399), NOTHING);
    assert_eq!(timed.wait(1_400), [Output::Probe(A)]);
    assert_eq!(timed.wait(1_500), NOTHING, "probed only once");
    assert_eq!(
        timed.on(1_501, A, ConnectionInput::Probed),
        [
            fired(Deadline::Pong, 1_400),
            Output::Close(A, CloseCode::PongTimeout),
            event(2, Transition::Suspended(SuspendReason::PongTimeout)),
        ]
    );
    assert_eq!(timed.next(), Some((at(6_501), Deadline::Reconnect)));
    assert_eq!(timed.wait(6_500), NOTHING);
    assert_eq!(timed.wait(6_501), [fired(Deadline::Reconnect, 6_501), event(3, Transition::Expired)]);
    assert_eq!(timed.session.phase(), Phase::Closed(CloseReason::ReconnectWindow));
    assert_eq!(timed.wait(99_999), NOTHING, "exactly once");
    assert_eq!(timed.next(), None);
}

#[test]
fn bytes_in_the_kernel_when_pong_is_due_keep_the_connection() {
    let mut timed = TimedSession::stream(WHOLE);
    timed.wait(1_000);
    timed.on(1_000, A, ConnectionInput::PingSent { seq: 0 });
    assert_eq!(timed.wait(2_000), [Output::Probe(A)], "the probe is requested even if the timeout is late");
    timed.received(2_001);
    assert_eq!(timed.on(2_002, A, ConnectionInput::Probed), NOTHING);
    assert_eq!(timed.next(), Some((at(3_001), Deadline::Ping)));
}

#[test]
fn bytes_read_after_the_ping_are_an_answer_even_if_the_kernel_reported_them_before() {
    let mut timed = TimedSession::stream(WHOLE);
    timed.wait(1_000);
    timed.on(1_000, A, ConnectionInput::PingSent { seq: 0 });
    timed.session.received_in_step(at(990));
    assert_eq!(timed.wait(1_400), NOTHING);
    assert_eq!(timed.next(), Some((at(2_000), Deadline::Ping)));
}

#[test]
fn a_ping_behind_data_gets_its_whole_timeout_again() {
    let mut timed = TimedSession::stream(WHOLE);
    timed.wait(1_000);
    timed.on(1_000, A, ConnectionInput::PingSent { seq: 0 });
    assert_eq!(timed.wait(1_400), [Output::Probe(A)]);
    assert_eq!(timed.on(1_450, A, ConnectionInput::PingDelayed), NOTHING);
    assert_eq!(timed.next(), Some((at(1_850), Deadline::Pong)));
    assert_eq!(timed.wait(1_850), [Output::Probe(A)]);
}

#[test]
fn a_pong_read_before_the_probe_ends_keeps_the_connection() {
    let mut timed = TimedSession::stream(WHOLE);
    timed.wait(1_000);
    timed.on(1_000, A, ConnectionInput::PingSent { seq: 0 });
    timed.wait(1_400);
    assert_eq!(
        timed.on(1_405, A, ConnectionInput::PongFrame { seq: 0 }),
        [Output::RoundTrip(Duration::from_millis(405))]
    );
    assert_eq!(timed.on(1_406, A, ConnectionInput::Probed), NOTHING);
    assert_eq!(timed.session.phase(), Phase::Attached(A));
}

#[test]
fn traffic_after_the_ping_is_an_answer() {
    let mut timed = TimedSession::stream(WHOLE);
    timed.wait(1_000);
    timed.on(1_000, A, ConnectionInput::PingSent { seq: 0 });
    timed.received(1_200);
    assert_eq!(timed.wait(1_400), NOTHING);
    assert_eq!(timed.next(), Some((at(2_200), Deadline::Ping)));
}

#[test]
fn traffic_before_the_ping_is_not_an_answer() {
    let mut timed = TimedSession::stream(WHOLE);
    timed.wait(1_000);
    timed.received(1_005);
    timed.on(1_010, A, ConnectionInput::PingSent { seq: 0 });
    assert_eq!(timed.wait(1_410), [Output::Probe(A)]);
}

#[test]
fn traffic_shifts_a_frame_ping_and_keeps_its_spread() {
    let mut timed = TimedSession::stream(HALF);
    timed.received(300);
    assert_eq!(timed.wait(500), NOTHING);
    assert_eq!(timed.next(), Some((at(800), Deadline::Ping)));
    assert_eq!(timed.wait(800), [fired(Deadline::Ping, 800), Output::Ping(A)]);
}

#[test]
fn traffic_does_not_postpone_a_message_ping() {
    let mut timed = TimedSession::open(timeouts(), attach(A, Heartbeat::Message, HALF));
    timed.received(300);
    assert_eq!(timed.wait(500), [fired(Deadline::Ping, 500), Output::Ping(A)]);
    timed.on(510, A, ConnectionInput::PingSent { seq: 0 });
    timed.on(700, A, ConnectionInput::PongFrame { seq: 0 });
    assert_eq!(timed.next(), Some((at(1_510), Deadline::Ping)), "a steady interval");
}

#[test]
fn a_pong_that_answers_no_ping_is_ignored() {
    let mut timed = TimedSession::stream(WHOLE);
    assert_eq!(timed.on(10, A, ConnectionInput::PongFrame { seq: 0 }), NOTHING);
    timed.wait(1_000);
    assert_eq!(
        timed.on(1_001, A, ConnectionInput::PongFrame { seq: 0 }),
        NOTHING,
        "the ping has not left yet"
    );
    timed.on(1_002, A, ConnectionInput::PingSent { seq: 0 });
    assert_eq!(timed.on(1_003, A, ConnectionInput::PongFrame { seq: 5 }), NOTHING, "no ping had seq 5");
    assert_eq!(timed.next(), Some((at(1_402), Deadline::Pong)));
}

#[test]
fn a_held_write_disarms_pong() {
    let mut timed = TimedSession::stream(WHOLE);
    timed.wait(1_000);
    timed.on(1_000, A, ConnectionInput::PingSent { seq: 0 });
    timed.on(1_100, A, ConnectionInput::WriteHeld);
    assert_eq!(timed.armed(), []);
    assert_eq!(timed.wait(9_000), NOTHING);
    timed.on(9_000, A, ConnectionInput::WriteResumed);
    assert_eq!(timed.next(), Some((at(9_400), Deadline::Pong)), "the full timeout");
}

#[test]
fn a_held_write_cancels_the_probe() {
    let mut timed = TimedSession::stream(WHOLE);
    timed.wait(1_000);
    timed.on(1_000, A, ConnectionInput::PingSent { seq: 0 });
    assert_eq!(timed.wait(1_400), [Output::Probe(A)]);
    timed.on(1_401, A, ConnectionInput::WriteHeld);
    assert_eq!(timed.on(1_402, A, ConnectionInput::Probed), NOTHING);
    assert_eq!(timed.session.phase(), Phase::Attached(A));
}

#[test]
fn a_ping_sent_while_a_later_write_is_held_arms_no_pong() {
    let mut timed = TimedSession::stream(WHOLE);
    timed.wait(1_000);
    timed.on(1_000, A, ConnectionInput::WriteHeld);
    timed.on(1_001, A, ConnectionInput::PingSent { seq: 0 });
    assert_eq!(timed.armed(), []);
    timed.on(1_002, A, ConnectionInput::WriteResumed);
    assert_eq!(timed.next(), Some((at(1_402), Deadline::Pong)));
}

#[test]
fn a_lost_connection_suspends_and_a_new_one_resumes() {
    let mut timed = TimedSession::stream(WHOLE);
    assert_eq!(
        timed.on(100, A, ConnectionInput::Ended(SuspendReason::ConnectionLost)),
        [event(2, Transition::Suspended(SuspendReason::ConnectionLost))]
    );
    assert_eq!(timed.next(), Some((at(5_100), Deadline::Reconnect)));
    let resume = Input::Attach(attach(B, Heartbeat::Frame, HALF));
    assert_eq!(timed.input(5_099, resume), [event(3, Transition::Resumed(ResumeKind::Reconnect))]);
    assert_eq!(timed.session.phase(), Phase::Attached(B));
    assert_eq!(timed.armed(), [Deadline::Ping]);
}

#[test]
fn a_resume_at_the_end_of_the_window_is_too_late() {
    let mut timed = TimedSession::stream(WHOLE);
    timed.on(0, A, ConnectionInput::Ended(SuspendReason::PeerClosed));
    let outputs = timed.input(5_000, Input::Attach(attach(B, Heartbeat::Frame, HALF)));
    assert_eq!(outputs, [fired(Deadline::Reconnect, 5_000), event(3, Transition::Expired)]);
    assert_eq!(timed.session.phase(), Phase::Closed(CloseReason::ReconnectWindow));
}

#[test]
fn a_second_connection_replaces_the_first() {
    let mut timed = TimedSession::stream(WHOLE);
    assert_eq!(
        timed.input(100, Input::Attach(attach(B, Heartbeat::Frame, WHOLE))),
        [Output::Close(A, CloseCode::Replaced), event(2, Transition::Resumed(ResumeKind::TakeOver))]
    );
    for late in [
        ConnectionInput::Ended(SuspendReason::ConnectionLost),
        ConnectionInput::Close(CloseReason::Client),
        ConnectionInput::WriteHeld,
        ConnectionInput::Ack { seq: 9 },
    ] {
        assert_eq!(timed.on(101, A, late), NOTHING);
    }
    assert_eq!(timed.session.phase(), Phase::Attached(B));
    assert_eq!(timed.next(), Some((at(1_100), Deadline::Ping)));
}

#[test]
fn a_take_over_cancels_the_old_ping() {
    let mut timed = TimedSession::stream(WHOLE);
    timed.wait(1_000);
    timed.on(1_000, A, ConnectionInput::PingSent { seq: 0 });
    timed.wait(1_400);
    timed.input(1_401, Input::Attach(attach(B, Heartbeat::Frame, WHOLE)));
    assert_eq!(timed.on(1_402, A, ConnectionInput::Probed), NOTHING);
    assert_eq!(timed.next(), Some((at(2_401), Deadline::Ping)));
}

#[test]
fn a_seq_that_was_never_sent_is_refused() {
    let mut timed = TimedSession::stream(WHOLE);
    timed.on(0, A, ConnectionInput::Ended(SuspendReason::PeerClosed));
    let mut stranger = attach(B, Heartbeat::Frame, HALF);
    stranger.seq = Some(1);
    assert_eq!(timed.input(1, Input::Attach(stranger)), NOTHING);
    assert_eq!(timed.session.phase(), Phase::Suspended);
    stranger.seq = Some(0);
    assert_eq!(
        timed.input(2, Input::Attach(stranger)),
        [event(3, Transition::Resumed(ResumeKind::Reconnect))]
    );
}

#[test]
fn acknowledging_an_unsent_seq_is_a_protocol_error() {
    let mut timed = TimedSession::stream(WHOLE);
    assert_eq!(timed.on(1, A, ConnectionInput::Ack { seq: 0 }), NOTHING);
    assert_eq!(
        timed.on(2, A, ConnectionInput::Ack { seq: 1 }),
        [
            Output::Close(A, CloseCode::ProtocolError),
            event(2, Transition::Closed(CloseReason::ProtocolError))
        ]
    );
}

#[test]
fn the_close_command_leaves_no_reconnect_window() {
    let mut timed = TimedSession::stream(WHOLE);
    assert_eq!(
        timed.on(5, A, ConnectionInput::Close(CloseReason::Client)),
        [Output::Close(A, CloseCode::Normal), event(2, Transition::Closed(CloseReason::Client))]
    );
    assert_eq!(timed.next(), None);
    assert_eq!(timed.input(6, Input::Attach(attach(B, Heartbeat::Frame, HALF))), NOTHING);
    assert_eq!(timed.session.phase(), Phase::Closed(CloseReason::Client));
}

#[test]
fn disconnecting_suspends_and_kicking_closes() {
    let mut timed = TimedSession::stream(WHOLE);
    assert_eq!(
        timed.input(5, Input::Disconnect),
        [
            Output::Close(A, CloseCode::Disconnected),
            event(2, Transition::Suspended(SuspendReason::Disconnected))
        ]
    );
    assert_eq!(timed.input(6, Input::Disconnect), NOTHING);
    assert_eq!(
        timed.input(7, Input::Close(CloseReason::Kicked)),
        [event(3, Transition::Closed(CloseReason::Kicked))]
    );
    assert_eq!(timed.input(8, Input::Close(CloseReason::Draining)), NOTHING);
}

#[test]
fn only_commands_postpone_idle() {
    let mut timed = TimedSession::open(
        SessionTimeouts { idle: Some(Duration::from_millis(900)), ..timeouts() },
        attach(A, Heartbeat::Frame, WHOLE),
    );
    timed.received(500);
    timed.on(500, A, ConnectionInput::Ack { seq: 0 });
    assert_eq!(timed.next(), Some((at(900), Deadline::Idle)));
    timed.on(600, A, ConnectionInput::Command);
    timed.on(700, A, ConnectionInput::Ended(SuspendReason::ConnectionLost));
    assert_eq!(timed.armed(), [Deadline::Reconnect, Deadline::Idle], "also while suspended");
    assert_eq!(
        timed.wait(1_500),
        [fired(Deadline::Idle, 1_500), event(3, Transition::Closed(CloseReason::Idle))]
    );
}

#[test]
fn a_session_ends_with_its_lifetime() {
    let lifetime = SessionTimeouts { lifetime: Some(Duration::from_millis(900)), ..timeouts() };
    let mut timed = TimedSession::open(lifetime, attach(A, Heartbeat::Frame, WHOLE));
    assert_eq!(
        timed.wait(900),
        [
            fired(Deadline::Lifetime, 900),
            Output::Close(A, CloseCode::Lifetime),
            event(2, Transition::Closed(CloseReason::Lifetime))
        ]
    );
}

#[test]
fn an_expired_token_suspends_unless_refreshed() {
    let mut with_token = attach(A, Heartbeat::Frame, WHOLE);
    with_token.token_expires = Some(at(300));
    let mut timed = TimedSession::open(timeouts(), with_token);
    timed.on(200, A, ConnectionInput::TokenRefreshed(Some(at(400))));
    assert_eq!(timed.wait(399), NOTHING);
    assert_eq!(
        timed.wait(400),
        [
            fired(Deadline::Token, 400),
            Output::Close(A, CloseCode::TokenExpired),
            event(2, Transition::Suspended(SuspendReason::TokenExpired))
        ]
    );
    timed.input(500, Input::Attach(attach(B, Heartbeat::Frame, WHOLE)));
    assert_eq!(timed.armed(), [Deadline::Ping], "the new connection's token does not expire");
}

#[test]
fn due_deadlines_act_before_an_input_and_in_order() {
    let mut timeouts = timeouts();
    timeouts.idle = Some(timeouts.ping_interval);
    timeouts.lifetime = Some(timeouts.ping_interval);
    let mut timed = TimedSession::open(timeouts, attach(A, Heartbeat::Frame, WHOLE));
    assert_eq!(
        timed.on(2_000, A, ConnectionInput::Command),
        [
            fired(Deadline::Ping, 1_000),
            Output::Ping(A),
            fired(Deadline::Idle, 1_000),
            Output::Close(A, CloseCode::Idle),
            event(2, Transition::Closed(CloseReason::Idle)),
        ]
    );
}

#[test]
fn time_does_not_go_backwards() {
    let mut timed = TimedSession::stream(WHOLE);
    timed.wait(900);
    timed.on(100, A, ConnectionInput::Ended(SuspendReason::ConnectionLost));
    assert_eq!(timed.next(), Some((at(5_900), Deadline::Reconnect)));
}

#[test]
fn each_deadline_is_armed_in_the_documented_phases() {
    let all = SessionTimeouts {
        idle: Some(Duration::from_millis(60_000)),
        lifetime: Some(Duration::from_millis(60_000)),
        ..timeouts()
    };
    let mut with_token = attach(A, Heartbeat::Frame, WHOLE);
    with_token.token_expires = Some(at(60_000));
    let mut timed = TimedSession::open(all, with_token);
    use Deadline::{Idle, Lifetime, Ping, PollGap, PollHold, Pong, Reconnect, Token};
    assert_eq!(timed.armed(), [Ping, Idle, Token, Lifetime], "attached, quiet");
    timed.wait(1_000);
    assert_eq!(timed.armed(), [Idle, Token, Lifetime], "ping on its way to the kernel");
    timed.on(1_001, A, ConnectionInput::PingSent { seq: 0 });
    assert_eq!(timed.armed(), [Pong, Idle, Token, Lifetime], "ping outstanding");
    timed.on(1_002, A, ConnectionInput::Ended(SuspendReason::PeerClosed));
    assert_eq!(timed.armed(), [Reconnect, Idle, Lifetime], "suspended");
    let poll =
        Attach { connection: B, kind: ConnectionKind::Poll { hold: Duration::from_secs(1) }, ..with_token };
    timed.input(1_003, Input::Attach(poll));
    assert_eq!(timed.armed(), [PollHold, Idle, Token, Lifetime], "attached to a poll");
    timed.on(1_004, B, ConnectionInput::Sent);
    assert_eq!(timed.armed(), [Idle, Token, Lifetime], "a poll that is being answered");
    timed.on(1_004, B, ConnectionInput::Answered { pause: Duration::ZERO });
    assert_eq!(timed.armed(), [PollGap, Idle, Token, Lifetime], "between polls");
    let events = Attach { connection: ConnectionId(3), kind: ConnectionKind::Events, ..with_token };
    timed.input(1_004, Input::Attach(events));
    assert_eq!(timed.armed(), [Ping, Token, Lifetime], "attached to an event stream");
    timed.input(1_005, Input::Attach(Attach { connection: A, ..with_token }));
    assert_eq!(timed.armed(), [Ping, Idle, Token, Lifetime], "attached again");
    timed.input(1_006, Input::Close(CloseReason::Kicked));
    assert_eq!(timed.armed(), [], "closed");
}
