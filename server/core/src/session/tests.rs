//! The session's timetable, in virtual time. All instants are milliseconds after [`START_MS`].

mod delivery;
mod polls;

use std::time::Duration;

use super::driven::Driven;
use super::*;
use crate::Timestamp;
use crate::close::{CloseCode, CloseReason, SuspendReason};

const START_MS: u64 = 1_000_000;
const A: ConnectionId = ConnectionId(1);
const B: ConnectionId = ConnectionId(2);
/// The first ping comes after half the interval.
const HALF: u32 = 0;
/// The first ping comes after the whole interval.
const WHOLE: u32 = u32::MAX;

fn at(ms: u64) -> Timestamp {
    Timestamp::from_nanos((START_MS + ms) * 1_000_000)
}

fn attach(connection: ConnectionId, heartbeat: Heartbeat, entropy: u32) -> Attach {
    Attach {
        connection,
        kind: ConnectionKind::Stream(heartbeat),
        seq: None,
        delivery: Delivery::AtLeastOnce,
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

/// A session and what it brought about so far.
struct Table {
    session: Driven,
}

impl Table {
    fn open(timeouts: SessionTimeouts, attach: Attach) -> Self {
        let mut table = Self { session: Driven::open(at(0), &timeouts, Outbox::new(1024), attach) };
        assert_eq!(table.outputs(), [event(1, Transition::Opened)]);
        table
    }

    fn stream(entropy: u32) -> Self {
        Self::open(timeouts(), attach(A, Heartbeat::Frame, entropy))
    }

    fn outputs(&mut self) -> Vec<Output> {
        std::iter::from_fn(|| self.session.poll_output()).collect()
    }

    /// Time passes, nothing else.
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
        let mut table = Table::stream(entropy);
        assert_eq!(table.next(), Some((at(due), Deadline::Ping)));
        assert_eq!(table.wait(due - 1), NOTHING);
        assert_eq!(table.wait(due), [fired(Deadline::Ping, due), Output::Ping(A)]);
        assert_eq!(table.wait(due), NOTHING, "once");
    }
}

#[test]
fn an_answered_ping_is_followed_by_the_next_an_interval_after_the_answer() {
    let mut table = Table::stream(WHOLE);
    table.wait(1_000);
    assert_eq!(table.next(), None, "Pong waits until the ping's bytes are in the kernel");
    table.on(1_010, A, ConnectionInput::PingSent { seq: 0 });
    assert_eq!(table.next(), Some((at(1_410), Deadline::Pong)));
    assert_eq!(
        table.on(1_030, A, ConnectionInput::PongFrame { seq: 0 }),
        [Output::RoundTrip(Duration::from_millis(20))]
    );
    assert_eq!(table.next(), Some((at(2_030), Deadline::Ping)));
    assert_eq!(table.wait(2_030), [fired(Deadline::Ping, 2_030), Output::Ping(A)]);
}

#[test]
fn a_silent_peer_is_probed_and_then_given_up() {
    let mut table = Table::stream(WHOLE);
    table.wait(1_000);
    table.on(1_000, A, ConnectionInput::PingSent { seq: 0 });
    assert_eq!(table.wait(1_399), NOTHING);
    assert_eq!(table.wait(1_400), [Output::Probe(A)]);
    assert_eq!(table.wait(1_500), NOTHING, "asked once");
    assert_eq!(
        table.on(1_501, A, ConnectionInput::Probed),
        [
            fired(Deadline::Pong, 1_400),
            Output::Close(A, CloseCode::PongTimeout),
            event(2, Transition::Suspended(SuspendReason::PongTimeout)),
        ]
    );
    assert_eq!(table.next(), Some((at(6_501), Deadline::Reconnect)));
    assert_eq!(table.wait(6_500), NOTHING);
    assert_eq!(table.wait(6_501), [fired(Deadline::Reconnect, 6_501), event(3, Transition::Expired)]);
    assert_eq!(table.session.phase(), Phase::Closed(CloseReason::ReconnectWindow));
    assert_eq!(table.wait(99_999), NOTHING, "exactly once");
    assert_eq!(table.next(), None);
}

#[test]
fn bytes_that_the_kernel_held_when_pong_was_due_are_life() {
    let mut table = Table::stream(WHOLE);
    table.wait(1_000);
    table.on(1_000, A, ConnectionInput::PingSent { seq: 0 });
    assert_eq!(table.wait(2_000), [Output::Probe(A)], "however late we are");
    table.received(2_001);
    assert_eq!(table.on(2_002, A, ConnectionInput::Probed), NOTHING);
    assert_eq!(table.next(), Some((at(3_001), Deadline::Ping)));
}

#[test]
fn a_pong_that_is_read_before_the_probe_is_answered_is_life() {
    let mut table = Table::stream(WHOLE);
    table.wait(1_000);
    table.on(1_000, A, ConnectionInput::PingSent { seq: 0 });
    table.wait(1_400);
    assert_eq!(
        table.on(1_405, A, ConnectionInput::PongFrame { seq: 0 }),
        [Output::RoundTrip(Duration::from_millis(405))]
    );
    assert_eq!(table.on(1_406, A, ConnectionInput::Probed), NOTHING);
    assert_eq!(table.session.phase(), Phase::Attached(A));
}

#[test]
fn any_traffic_since_the_ping_is_an_answer() {
    let mut table = Table::stream(WHOLE);
    table.wait(1_000);
    table.on(1_000, A, ConnectionInput::PingSent { seq: 0 });
    table.received(1_200);
    assert_eq!(table.wait(1_400), NOTHING);
    assert_eq!(table.next(), Some((at(2_200), Deadline::Ping)));
}

#[test]
fn traffic_before_the_ping_is_not_an_answer() {
    let mut table = Table::stream(WHOLE);
    table.wait(1_000);
    table.received(1_005);
    table.on(1_010, A, ConnectionInput::PingSent { seq: 0 });
    assert_eq!(table.wait(1_410), [Output::Probe(A)]);
}

#[test]
fn traffic_puts_off_a_frame_ping_by_as_much_and_keeps_its_spread() {
    let mut table = Table::stream(HALF);
    table.received(300);
    assert_eq!(table.wait(500), NOTHING);
    assert_eq!(table.next(), Some((at(800), Deadline::Ping)));
    assert_eq!(table.wait(800), [fired(Deadline::Ping, 800), Output::Ping(A)]);
}

#[test]
fn traffic_never_puts_off_a_message_ping() {
    let mut table = Table::open(timeouts(), attach(A, Heartbeat::Message, HALF));
    table.received(300);
    assert_eq!(table.wait(500), [fired(Deadline::Ping, 500), Output::Ping(A)]);
    table.on(510, A, ConnectionInput::PingSent { seq: 0 });
    table.on(700, A, ConnectionInput::PongFrame { seq: 0 });
    assert_eq!(table.next(), Some((at(1_510), Deadline::Ping)), "a steady beat");
}

#[test]
fn a_pong_that_answers_no_ping_is_ignored() {
    let mut table = Table::stream(WHOLE);
    assert_eq!(table.on(10, A, ConnectionInput::PongFrame { seq: 0 }), NOTHING);
    table.wait(1_000);
    assert_eq!(
        table.on(1_001, A, ConnectionInput::PongFrame { seq: 0 }),
        NOTHING,
        "the ping has not left yet"
    );
    table.on(1_002, A, ConnectionInput::PingSent { seq: 0 });
    assert_eq!(table.on(1_003, A, ConnectionInput::PongFrame { seq: 5 }), NOTHING, "never asked with 5");
    assert_eq!(table.next(), Some((at(1_402), Deadline::Pong)));
}

#[test]
fn a_held_write_governs_instead_of_pong() {
    let mut table = Table::stream(WHOLE);
    table.wait(1_000);
    table.on(1_000, A, ConnectionInput::PingSent { seq: 0 });
    table.on(1_100, A, ConnectionInput::WriteHeld);
    assert_eq!(table.armed(), []);
    assert_eq!(table.wait(9_000), NOTHING);
    table.on(9_000, A, ConnectionInput::WriteResumed);
    assert_eq!(table.next(), Some((at(9_400), Deadline::Pong)), "the whole time to answer");
}

#[test]
fn a_write_that_is_held_while_probing_calls_the_probe_off() {
    let mut table = Table::stream(WHOLE);
    table.wait(1_000);
    table.on(1_000, A, ConnectionInput::PingSent { seq: 0 });
    assert_eq!(table.wait(1_400), [Output::Probe(A)]);
    table.on(1_401, A, ConnectionInput::WriteHeld);
    assert_eq!(table.on(1_402, A, ConnectionInput::Probed), NOTHING);
    assert_eq!(table.session.phase(), Phase::Attached(A));
}

#[test]
fn a_ping_sent_while_a_later_write_is_held_arms_no_pong() {
    let mut table = Table::stream(WHOLE);
    table.wait(1_000);
    table.on(1_000, A, ConnectionInput::WriteHeld);
    table.on(1_001, A, ConnectionInput::PingSent { seq: 0 });
    assert_eq!(table.armed(), []);
    table.on(1_002, A, ConnectionInput::WriteResumed);
    assert_eq!(table.next(), Some((at(1_402), Deadline::Pong)));
}

#[test]
fn a_lost_connection_suspends_and_a_new_one_resumes() {
    let mut table = Table::stream(WHOLE);
    assert_eq!(
        table.on(100, A, ConnectionInput::Ended(SuspendReason::ConnectionLost)),
        [event(2, Transition::Suspended(SuspendReason::ConnectionLost))]
    );
    assert_eq!(table.next(), Some((at(5_100), Deadline::Reconnect)));
    let resume = Input::Attach(attach(B, Heartbeat::Frame, HALF));
    assert_eq!(table.input(5_099, resume), [event(3, Transition::Resumed(ResumeKind::Reconnect))]);
    assert_eq!(table.session.phase(), Phase::Attached(B));
    assert_eq!(table.armed(), [Deadline::Ping]);
}

#[test]
fn a_resume_that_comes_with_the_end_of_the_window_is_too_late() {
    let mut table = Table::stream(WHOLE);
    table.on(0, A, ConnectionInput::Ended(SuspendReason::PeerClosed));
    let outputs = table.input(5_000, Input::Attach(attach(B, Heartbeat::Frame, HALF)));
    assert_eq!(outputs, [fired(Deadline::Reconnect, 5_000), event(3, Transition::Expired)]);
    assert_eq!(table.session.phase(), Phase::Closed(CloseReason::ReconnectWindow));
}

#[test]
fn the_second_connection_wins_and_the_first_has_nothing_more_to_say() {
    let mut table = Table::stream(WHOLE);
    assert_eq!(
        table.input(100, Input::Attach(attach(B, Heartbeat::Frame, WHOLE))),
        [Output::Close(A, CloseCode::Replaced), event(2, Transition::Resumed(ResumeKind::TakeOver))]
    );
    for late in [
        ConnectionInput::Ended(SuspendReason::ConnectionLost),
        ConnectionInput::Close(CloseReason::Client),
        ConnectionInput::WriteHeld,
        ConnectionInput::Ack { seq: 9 },
    ] {
        assert_eq!(table.on(101, A, late), NOTHING);
    }
    assert_eq!(table.session.phase(), Phase::Attached(B));
    assert_eq!(table.next(), Some((at(1_100), Deadline::Ping)));
}

#[test]
fn a_take_over_forgets_the_old_connections_ping() {
    let mut table = Table::stream(WHOLE);
    table.wait(1_000);
    table.on(1_000, A, ConnectionInput::PingSent { seq: 0 });
    table.wait(1_400);
    table.input(1_401, Input::Attach(attach(B, Heartbeat::Frame, WHOLE)));
    assert_eq!(table.on(1_402, A, ConnectionInput::Probed), NOTHING);
    assert_eq!(table.next(), Some((at(2_401), Deadline::Ping)));
}

#[test]
fn a_seq_that_was_never_sent_means_another_session() {
    let mut table = Table::stream(WHOLE);
    table.on(0, A, ConnectionInput::Ended(SuspendReason::PeerClosed));
    let mut stranger = attach(B, Heartbeat::Frame, HALF);
    stranger.seq = Some(1);
    assert_eq!(table.input(1, Input::Attach(stranger)), NOTHING);
    assert_eq!(table.session.phase(), Phase::Suspended);
    stranger.seq = Some(0);
    assert_eq!(
        table.input(2, Input::Attach(stranger)),
        [event(3, Transition::Resumed(ResumeKind::Reconnect))]
    );
}

#[test]
fn an_ack_of_what_was_never_sent_breaks_the_protocol() {
    let mut table = Table::stream(WHOLE);
    assert_eq!(table.on(1, A, ConnectionInput::Ack { seq: 0 }), NOTHING);
    assert_eq!(
        table.on(2, A, ConnectionInput::Ack { seq: 1 }),
        [
            Output::Close(A, CloseCode::ProtocolError),
            event(2, Transition::Closed(CloseReason::ProtocolError))
        ]
    );
}

#[test]
fn the_close_command_leaves_no_reconnect_window() {
    let mut table = Table::stream(WHOLE);
    assert_eq!(
        table.on(5, A, ConnectionInput::Close(CloseReason::Client)),
        [Output::Close(A, CloseCode::Normal), event(2, Transition::Closed(CloseReason::Client))]
    );
    assert_eq!(table.next(), None);
    assert_eq!(table.input(6, Input::Attach(attach(B, Heartbeat::Frame, HALF))), NOTHING);
    assert_eq!(table.session.phase(), Phase::Closed(CloseReason::Client));
}

#[test]
fn an_administrator_drops_the_connection_or_ends_the_session() {
    let mut table = Table::stream(WHOLE);
    assert_eq!(
        table.input(5, Input::Disconnect),
        [
            Output::Close(A, CloseCode::Disconnected),
            event(2, Transition::Suspended(SuspendReason::Disconnected))
        ]
    );
    assert_eq!(table.input(6, Input::Disconnect), NOTHING);
    assert_eq!(
        table.input(7, Input::Close(CloseReason::Kicked)),
        [event(3, Transition::Closed(CloseReason::Kicked))]
    );
    assert_eq!(table.input(8, Input::Close(CloseReason::Draining)), NOTHING);
}

#[test]
fn idle_is_put_off_by_commands_alone() {
    let mut table = Table::open(
        SessionTimeouts { idle: Some(Duration::from_millis(900)), ..timeouts() },
        attach(A, Heartbeat::Frame, WHOLE),
    );
    table.received(500);
    table.on(500, A, ConnectionInput::Ack { seq: 0 });
    assert_eq!(table.next(), Some((at(900), Deadline::Idle)));
    table.on(600, A, ConnectionInput::Command);
    table.on(700, A, ConnectionInput::Ended(SuspendReason::ConnectionLost));
    assert_eq!(table.armed(), [Deadline::Reconnect, Deadline::Idle], "also while suspended");
    assert_eq!(
        table.wait(1_500),
        [fired(Deadline::Idle, 1_500), event(3, Transition::Closed(CloseReason::Idle))]
    );
}

#[test]
fn a_lifetime_ends_in_whatever_phase() {
    let lifetime = SessionTimeouts { lifetime: Some(Duration::from_millis(900)), ..timeouts() };
    let mut table = Table::open(lifetime, attach(A, Heartbeat::Frame, WHOLE));
    assert_eq!(
        table.wait(900),
        [
            fired(Deadline::Lifetime, 900),
            Output::Close(A, CloseCode::Lifetime),
            event(2, Transition::Closed(CloseReason::Lifetime))
        ]
    );
}

#[test]
fn a_token_suspends_when_it_runs_out_unless_refreshed() {
    let mut with_token = attach(A, Heartbeat::Frame, WHOLE);
    with_token.token_expires = Some(at(300));
    let mut table = Table::open(timeouts(), with_token);
    table.on(200, A, ConnectionInput::TokenRefreshed(Some(at(400))));
    assert_eq!(table.wait(399), NOTHING);
    assert_eq!(
        table.wait(400),
        [
            fired(Deadline::Token, 400),
            Output::Close(A, CloseCode::TokenExpired),
            event(2, Transition::Suspended(SuspendReason::TokenExpired))
        ]
    );
    table.input(500, Input::Attach(attach(B, Heartbeat::Frame, WHOLE)));
    assert_eq!(table.armed(), [Deadline::Ping], "the new connection's token has no end");
}

#[test]
fn what_was_due_acts_before_an_input_and_in_the_order_of_the_table() {
    let mut timeouts = timeouts();
    timeouts.idle = Some(timeouts.ping_interval);
    timeouts.lifetime = Some(timeouts.ping_interval);
    let mut table = Table::open(timeouts, attach(A, Heartbeat::Frame, WHOLE));
    assert_eq!(
        table.on(2_000, A, ConnectionInput::Command),
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
fn a_clock_that_goes_backwards_stands_still() {
    let mut table = Table::stream(WHOLE);
    table.wait(900);
    table.on(100, A, ConnectionInput::Ended(SuspendReason::ConnectionLost));
    assert_eq!(table.next(), Some((at(5_900), Deadline::Reconnect)));
}

#[test]
fn each_deadline_is_armed_in_the_phases_of_its_comment() {
    let all = SessionTimeouts {
        idle: Some(Duration::from_millis(60_000)),
        lifetime: Some(Duration::from_millis(60_000)),
        ..timeouts()
    };
    let mut with_token = attach(A, Heartbeat::Frame, WHOLE);
    with_token.token_expires = Some(at(60_000));
    let mut table = Table::open(all, with_token);
    use Deadline::{Idle, Lifetime, Ping, PollGap, PollHold, Pong, Reconnect, Token};
    assert_eq!(table.armed(), [Ping, Idle, Token, Lifetime], "attached, quiet");
    table.wait(1_000);
    assert_eq!(table.armed(), [Idle, Token, Lifetime], "ping on its way to the kernel");
    table.on(1_001, A, ConnectionInput::PingSent { seq: 0 });
    assert_eq!(table.armed(), [Pong, Idle, Token, Lifetime], "ping outstanding");
    table.on(1_002, A, ConnectionInput::Ended(SuspendReason::PeerClosed));
    assert_eq!(table.armed(), [Reconnect, Idle, Lifetime], "suspended");
    let poll =
        Attach { connection: B, kind: ConnectionKind::Poll { hold: Duration::from_secs(1) }, ..with_token };
    table.input(1_003, Input::Attach(poll));
    assert_eq!(table.armed(), [PollHold, Idle, Token, Lifetime], "attached to a poll");
    table.on(1_004, B, ConnectionInput::Sent);
    assert_eq!(table.armed(), [Idle, Token, Lifetime], "a poll that is being answered");
    table.on(1_004, B, ConnectionInput::Answered { pause: Duration::ZERO });
    assert_eq!(table.armed(), [PollGap, Idle, Token, Lifetime], "between polls");
    let events = Attach { connection: ConnectionId(3), kind: ConnectionKind::Events, ..with_token };
    table.input(1_004, Input::Attach(events));
    assert_eq!(table.armed(), [Ping, Token, Lifetime], "attached to a stream of events");
    table.input(1_005, Input::Attach(Attach { connection: A, ..with_token }));
    assert_eq!(table.armed(), [Ping, Idle, Token, Lifetime], "attached again");
    table.input(1_006, Input::Close(CloseReason::Kicked));
    assert_eq!(table.armed(), [], "closed");
}
