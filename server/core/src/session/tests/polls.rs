//! Tests of the timing of polls: how long they are held, the pause between polls, and the outputs when the
//! session ends. `poll_hold` is 700 ms, `poll_gap` 300 ms, and the reconnect window 5,000 ms.

use super::*;

fn millis(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn poll(number: u64, hold_ms: u64) -> Attach {
    let kind = ConnectionKind::Poll { hold: millis(hold_ms) };
    Attach { kind, ..attach(ConnectionId(number), Heartbeat::Frame, WHOLE) }
}

fn stream(number: u64) -> Attach {
    attach(ConnectionId(number), Heartbeat::Frame, WHOLE)
}

const ANSWERED: ConnectionInput = ConnectionInput::Answered { pause: Duration::ZERO };
const LEFT: ConnectionInput = ConnectionInput::Ended(SuspendReason::ConnectionLost);

fn take_over(number: u32) -> Output {
    event(number, Transition::Resumed(ResumeKind::TakeOver))
}

fn suspended(number: u32, reason: SuspendReason) -> Output {
    event(number, Transition::Suspended(reason))
}

/// Opens a session whose first poll, `A`, is held.
fn held() -> TimedSession {
    TimedSession::open(timeouts(), poll(1, 700))
}

/// Opens a session whose first poll was answered at 0.
fn between() -> TimedSession {
    let mut timed = held();
    assert_eq!(timed.on(0, A, ANSWERED), NOTHING);
    timed
}

#[test]
fn a_poll_is_held_for_the_requested_time_up_to_the_limit() {
    for (asked, held) in [(1, 1), (699, 699), (700, 700), (701, 700), (u64::MAX, 700)] {
        let mut timed = TimedSession::open(timeouts(), poll(1, asked));
        assert_eq!(timed.armed(), [Deadline::PollHold]);
        assert_eq!(timed.wait(held - 1), NOTHING, "{asked}");
        assert_eq!(timed.wait(held), [fired(Deadline::PollHold, held), Output::AnswerPoll(A)], "{asked}");
        assert_eq!(timed.wait(9_000), NOTHING, "once");
    }
}

#[test]
fn a_poll_with_zero_hold_time_is_answered_at_once() {
    let mut session = SessionHarness::open(at(0), &timeouts(), Outbox::<()>::new(8), poll(1, 0));
    let outputs: Vec<_> = std::iter::from_fn(|| session.poll_output()).collect();
    assert_eq!(outputs, [event(1, Transition::Opened), Output::AnswerPoll(A)]);
    assert_eq!(session.next_deadline(), None);
    let mut timed = between();
    assert_eq!(timed.input(1, Input::Attach(poll(2, 0))), [Output::AnswerPoll(B)]);
}

#[test]
fn a_poll_whose_answer_has_begun_is_not_answered_again() {
    let mut timed = held();
    assert_eq!(timed.on(600, A, ConnectionInput::Sent), NOTHING);
    assert_eq!(timed.armed(), []);
    assert_eq!(timed.wait(9_000), NOTHING);
    assert_eq!(timed.on(9_000, A, ANSWERED), NOTHING);
    assert_eq!(timed.next(), Some((at(9_300), Deadline::PollGap)));
}

#[test]
fn successive_polls_emit_no_events() {
    let mut timed = held();
    for cycle in 1..=1_000 {
        let now = cycle * 1_000;
        assert_eq!(timed.session.phase(), Phase::Attached(ConnectionId(cycle)));
        timed.wait(now - 300);
        assert_eq!(timed.on(now - 290, ConnectionId(cycle), ANSWERED), NOTHING);
        assert_eq!(timed.session.phase(), Phase::BetweenPolls);
        assert_eq!(timed.on(now - 280, ConnectionId(cycle), LEFT), NOTHING, "the poll is over");
        assert_eq!(timed.input(now, Input::Attach(poll(cycle + 1, 700))), NOTHING);
    }
    let kicked = timed.input(1_000_001, Input::Close(CloseReason::Kicked));
    assert_eq!(kicked[1], event(2, Transition::Closed(CloseReason::Kicked)), "only the second event");
}

#[test]
fn the_window_counts_from_the_answer() {
    // The requested pause, and the times at which the session suspends and expires.
    for (pause, gap, window) in
        [(0, 400, 5_100), (1_000, 1_400, 5_100), (4_699, 5_099, 5_100), (4_700, 5_100, 5_100)]
    {
        let mut timed = held();
        timed.on(100, A, ConnectionInput::Answered { pause: millis(pause) });
        assert_eq!(timed.next(), Some((at(gap), Deadline::PollGap)));
        assert_eq!(timed.wait(gap - 1), NOTHING);
        let mut outputs = timed.wait(gap);
        assert_eq!(outputs[..2], [fired(Deadline::PollGap, gap), suspended(2, SuspendReason::PollGap)]);
        if gap < window {
            assert_eq!(timed.next(), Some((at(window), Deadline::Reconnect)));
            assert_eq!(timed.wait(window - 1), NOTHING);
            outputs.extend(timed.wait(window));
        }
        assert_eq!(outputs[2..], [fired(Deadline::Reconnect, window), event(3, Transition::Expired)]);
    }
}

#[test]
fn a_pause_does_not_outlast_the_window() {
    let mut timed = held();
    timed.on(0, A, ConnectionInput::Answered { pause: millis(9_000) });
    assert_eq!(
        timed.wait(5_000),
        [
            fired(Deadline::PollGap, 5_000),
            suspended(2, SuspendReason::PollGap),
            fired(Deadline::Reconnect, 5_000),
            event(3, Transition::Expired)
        ]
    );
}

#[test]
fn a_late_timeout_suspends_before_it_expires() {
    let mut timed = between();
    let outputs = timed.wait(60_000);
    assert_eq!(
        outputs,
        [
            fired(Deadline::PollGap, 300),
            suspended(2, SuspendReason::PollGap),
            fired(Deadline::Reconnect, 5_000),
            event(3, Transition::Expired)
        ]
    );
}

#[test]
fn any_request_postpones_the_gap_and_the_window() {
    // Times of the requests, and the resulting ends of the gap and of the window, which began at 0.
    let cases: [(&[u64], u64, u64); 6] = [
        (&[], 300, 5_000),
        (&[100], 400, 5_100),
        (&[100, 200, 350], 650, 5_350),
        (&[200, 1_000], 500, 6_000),
        (&[4_999], 300, 9_999),
        (&[4_000, 8_000], 300, 10_000),
    ];
    for request in [
        RequestInput::Activity,
        RequestInput::Command,
        RequestInput::Ack { seq: 0 },
        RequestInput::TokenRefreshed(None),
    ] {
        for (requests, gap, window) in cases {
            let mut timed = between();
            let mut outputs = Vec::new();
            for ms in requests {
                outputs.extend(timed.input(*ms, Input::Request(request)));
            }
            outputs.extend(timed.wait(gap));
            let gap_over = [fired(Deadline::PollGap, gap), suspended(2, SuspendReason::PollGap)];
            assert_eq!(outputs, gap_over, "{requests:?}");
            assert_eq!(timed.next(), Some((at(window), Deadline::Reconnect)), "{requests:?}");
        }
    }
}

#[test]
fn a_client_that_only_sends_commands_is_kept_for_two_windows() {
    let mut timed = between();
    for ms in (100..10_000).step_by(100) {
        assert_eq!(timed.input(ms, Input::Request(RequestInput::Command)), NOTHING);
        assert_eq!(timed.session.phase(), Phase::BetweenPolls);
    }
    let outputs = timed.input(10_000, Input::Request(RequestInput::Command));
    assert_eq!(outputs.last(), Some(&event(3, Transition::Expired)));
    assert_eq!(outputs.len(), 4);
}

#[test]
fn a_request_does_not_shorten_the_pause() {
    let mut timed = held();
    timed.on(0, A, ConnectionInput::Answered { pause: millis(1_000) });
    timed.input(10, Input::Request(RequestInput::Activity));
    assert_eq!(timed.next(), Some((at(1_300), Deadline::PollGap)));
}

#[test]
fn a_request_postpones_the_window_but_does_not_answer_a_ping() {
    let mut timed = TimedSession::stream(WHOLE);
    timed.wait(1_000);
    timed.on(1_000, A, ConnectionInput::PingSent { seq: 0 });
    timed.input(1_200, Input::Request(RequestInput::Command));
    assert_eq!(timed.wait(1_400), [Output::Probe(A)], "the request did not use the connection");
    timed.on(1_400, A, ConnectionInput::Probed);
    assert_eq!(timed.next(), Some((at(6_400), Deadline::Reconnect)));
    for (ms, window) in [(2_000, 7_000), (6_999, 11_400), (11_399, 11_400)] {
        assert_eq!(timed.input(ms, Input::Request(RequestInput::Activity)), NOTHING);
        assert_eq!(timed.next(), Some((at(window), Deadline::Reconnect)));
    }
}

#[test]
fn acknowledging_an_unsent_seq_ends_the_session() {
    let bad = Input::Request(RequestInput::Ack { seq: 1 });
    let closed = |number| event(number, Transition::Closed(CloseReason::ProtocolError));
    assert_eq!(held().input(1, bad), [Output::Close(A, CloseCode::ProtocolError), closed(2)]);
    assert_eq!(between().input(1, bad), [closed(2)]);
    let mut timed = between();
    timed.wait(300);
    assert_eq!(timed.input(301, bad), [closed(3)]);
}

#[test]
fn the_second_poll_supersedes_the_first() {
    let mut timed = held();
    assert_eq!(timed.input(100, Input::Attach(poll(2, 700))), [Output::Superseded(A)]);
    for late in [ANSWERED, LEFT, ConnectionInput::Sent, ConnectionInput::Close(CloseReason::Client)] {
        assert_eq!(timed.on(101, A, late), NOTHING);
    }
    assert_eq!(timed.session.phase(), Phase::Attached(B));
    assert_eq!(timed.next(), Some((at(800), Deadline::PollHold)));
}

type Situation = (&'static str, fn() -> TimedSession);

/// States that a session can be in before an input at 200 ms.
const SITUATIONS: [Situation; 5] = [
    ("held", held),
    ("answer due", || {
        let mut timed = TimedSession::open(timeouts(), poll(1, 100));
        timed.wait(100);
        timed
    }),
    ("answering", || {
        let mut timed = held();
        timed.on(100, A, ConnectionInput::Sent);
        timed
    }),
    ("between", between),
    ("stream", || TimedSession::stream(WHOLE)),
];

#[test]
fn a_replaced_connection_gets_one_output() {
    let replaced = Output::Close(A, CloseCode::Replaced);
    let expected: [(&str, &[Output], &[Output]); 5] = [
        // Name of the situation, the outputs if the next connection is a poll, and the outputs if it is a
        // stream.
        ("held", &[Output::Superseded(A)], &[replaced, take_over(2)]),
        ("answer due", &[], &[take_over(2)]),
        ("answering", &[], &[take_over(2)]),
        ("between", &[], &[take_over(2)]),
        ("stream", &[replaced, take_over(2)], &[replaced, take_over(2)]),
    ];
    for ((name, situation), (row, by_poll, by_stream)) in SITUATIONS.into_iter().zip(expected) {
        assert_eq!(name, row);
        assert_eq!(situation().input(200, Input::Attach(poll(2, 700))), by_poll, "{name}");
        assert_eq!(situation().input(200, Input::Attach(stream(2))), by_stream, "{name}");
    }
}

#[test]
fn a_poll_gets_one_output_when_its_session_ends_or_suspends() {
    let close = |reason| event(2, Transition::Closed(reason));
    for (input, code, event) in [
        (Input::Disconnect, CloseCode::Disconnected, suspended(2, SuspendReason::Disconnected)),
        (Input::Close(CloseReason::Kicked), CloseCode::Kicked, close(CloseReason::Kicked)),
        (Input::Close(CloseReason::Draining), CloseCode::Draining, close(CloseReason::Draining)),
        (Input::Close(CloseReason::Client), CloseCode::Normal, close(CloseReason::Client)),
    ] {
        for (name, situation) in SITUATIONS {
            let outputs = situation().input(200, input);
            match name {
                "held" | "stream" => assert_eq!(outputs, [Output::Close(A, code), event], "{name}"),
                _ => assert_eq!(outputs, [event], "{name}"),
            }
        }
    }
}

#[test]
fn a_poll_gets_one_output_when_a_deadline_passes() {
    let idle = SessionTimeouts { idle: Some(millis(250)), ..timeouts() };
    let lifetime = SessionTimeouts { lifetime: Some(millis(250)), ..timeouts() };
    let until = Attach { token_expires: Some(at(250)), ..poll(1, 700) };
    let closed = |reason| event(2, Transition::Closed(reason));
    for (timeouts, attach, deadline, code, event) in [
        (idle, poll(1, 700), Deadline::Idle, CloseCode::Idle, closed(CloseReason::Idle)),
        (lifetime, poll(1, 700), Deadline::Lifetime, CloseCode::Lifetime, closed(CloseReason::Lifetime)),
        (
            timeouts(),
            until,
            Deadline::Token,
            CloseCode::TokenExpired,
            suspended(2, SuspendReason::TokenExpired),
        ),
    ] {
        let open = || TimedSession::open(timeouts.clone(), attach);
        let due = fired(deadline, 250);
        assert_eq!(open().wait(250), [due, Output::Close(A, code), event], "held");
        let mut answering = open();
        answering.on(200, A, ConnectionInput::Sent);
        assert_eq!(answering.wait(250), [due, event], "answering");
        let mut between = open();
        between.on(200, A, ANSWERED);
        assert_eq!(between.wait(250), [due, event], "between");
    }
}

#[test]
fn a_token_expiring_between_polls_does_not_extend_the_window() {
    let until = Attach { token_expires: Some(at(250)), ..poll(1, 700) };
    let mut timed = TimedSession::open(timeouts(), until);
    timed.on(100, A, ANSWERED);
    timed.wait(250);
    assert_eq!(timed.next(), Some((at(5_100), Deadline::Reconnect)));
}

#[test]
fn a_token_can_be_refreshed_unless_suspended() {
    let refresh = Input::Request(RequestInput::TokenRefreshed(Some(at(350))));
    let mut timed = held();
    timed.input(10, refresh);
    assert_eq!(timed.armed(), [Deadline::PollHold, Deadline::Token]);
    timed.on(20, A, ANSWERED);
    timed.input(30, refresh);
    assert_eq!(timed.armed(), [Deadline::PollGap, Deadline::Token]);
    timed.wait(330);
    timed.input(331, refresh);
    assert_eq!(timed.armed(), [Deadline::Reconnect]);
}

#[test]
fn deadlines_due_together_give_one_answer() {
    let idle = SessionTimeouts { idle: Some(millis(700)), ..timeouts() };
    let mut timed = TimedSession::open(idle, poll(1, 700));
    assert_eq!(
        timed.wait(700),
        [
            fired(Deadline::PollHold, 700),
            Output::AnswerPoll(A),
            fired(Deadline::Idle, 700),
            event(2, Transition::Closed(CloseReason::Idle))
        ]
    );
}

#[test]
fn an_abandoned_poll_leaves_the_session_between_polls() {
    let mut timed = held();
    assert_eq!(timed.on(200, A, LEFT), NOTHING);
    assert_eq!(timed.session.phase(), Phase::BetweenPolls);
    assert_eq!(timed.next(), Some((at(500), Deadline::PollGap)), "counted from the abandonment");
    assert_eq!(timed.input(400, Input::Attach(poll(2, 700))), NOTHING);
}

#[test]
fn polls_do_not_postpone_idle() {
    let idle = SessionTimeouts { idle: Some(millis(900)), ..timeouts() };
    let mut timed = TimedSession::open(idle, poll(1, 700));
    timed.on(100, A, ANSWERED);
    timed.input(200, Input::Attach(poll(2, 700)));
    assert!(timed.session.deadlines().any(|it| it == (at(900), Deadline::Idle)));
    timed.input(300, Input::Request(RequestInput::Command));
    assert!(timed.session.deadlines().any(|it| it == (at(1_200), Deadline::Idle)));
    let events = Attach { connection: ConnectionId(3), kind: ConnectionKind::Events, ..stream(3) };
    timed.input(400, Input::Attach(events));
    timed.input(500, Input::Request(RequestInput::Command));
    assert_eq!(timed.armed(), [Deadline::Ping], "a command does not arm Idle on an event stream");
}

#[test]
fn a_reconnect_at_the_expiry_either_resumes_or_expires() {
    for (ms, phase) in [(4_999, Phase::Attached(B)), (5_000, Phase::Closed(CloseReason::ReconnectWindow))] {
        for worker_first in [false, true] {
            let mut timed = between();
            timed.wait(300);
            let mut outputs = if worker_first { timed.wait(ms) } else { Vec::new() };
            outputs.extend(timed.input(ms, Input::Attach(poll(2, 700))));
            if !worker_first {
                outputs.extend(timed.wait(ms));
            }
            assert_eq!(timed.session.phase(), phase);
            let resumed = event(3, Transition::Resumed(ResumeKind::Reconnect));
            match phase {
                Phase::Attached(_) => assert_eq!(outputs, [resumed]),
                _ => {
                    let expired = [fired(Deadline::Reconnect, 5_000), event(3, Transition::Expired)];
                    assert_eq!(outputs, expired);
                }
            }
        }
    }
}

#[test]
fn a_stream_holds_a_request_while_it_pings() {
    let mut timed = TimedSession::stream(WHOLE);
    let hold = |hold| ConnectionInput::Hold { hold: millis(hold), seq: None };
    assert_eq!(timed.on(10, A, hold(9_000)), NOTHING);
    assert_eq!(timed.armed(), [Deadline::Ping, Deadline::PollHold]);
    assert!(timed.session.is_holding());
    assert_eq!(timed.wait(710), [fired(Deadline::PollHold, 710), Output::AnswerPoll(A)]);
    assert!(!timed.session.is_holding(), "the hold time has elapsed");
    assert_eq!(timed.on(711, A, ConnectionInput::Released), NOTHING);
    assert_eq!(timed.on(720, A, hold(0)), [Output::AnswerPoll(A)]);
    assert!(!timed.session.is_holding());
    timed.on(730, A, hold(500));
    timed.on(800, A, hold(500));
    assert_eq!(timed.wait(1_000), [fired(Deadline::Ping, 1_000), Output::Ping(A)]);
    timed.on(1_001, A, ConnectionInput::PingSent { seq: 0 });
    assert_eq!(timed.armed(), [Deadline::Pong, Deadline::PollHold]);
    assert_eq!(timed.next(), Some((at(1_300), Deadline::PollHold)), "the deadline of the later request");
    timed.on(1_100, A, ConnectionInput::Released);
    assert_eq!(timed.armed(), [Deadline::Pong], "it was answered with a message");
    assert_eq!(timed.session.phase(), Phase::Attached(A));
    timed.on(1_200, A, hold(500));
    timed.on(1_201, A, LEFT);
    assert_eq!(timed.armed(), [Deadline::Reconnect], "losing a stream suspends the session");
    assert!(!timed.session.is_holding());
}

#[test]
fn only_a_stream_holds_requests_and_only_with_a_valid_seq() {
    let hold = ConnectionInput::Hold { hold: millis(100), seq: Some(1) };
    let mut timed = TimedSession::stream(WHOLE);
    assert_eq!(timed.on(1, A, hold), NOTHING, "seq 1 was never sent");
    assert_eq!(timed.armed(), [Deadline::Ping]);
    let hold = ConnectionInput::Hold { hold: millis(100), seq: None };
    let mut timed = held();
    timed.on(1, A, hold);
    assert_eq!(timed.next(), Some((at(700), Deadline::PollHold)));
    let mut timed = TimedSession::open(timeouts(), Attach { kind: ConnectionKind::Events, ..stream(1) });
    timed.on(1, A, hold);
    assert_eq!(timed.armed(), [Deadline::Ping]);
    timed.on(2, A, ANSWERED);
    assert_eq!(timed.session.phase(), Phase::Attached(A), "only a poll can be answered");
}
