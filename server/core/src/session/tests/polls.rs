//! The timetable of polls: what is held, what lies between two, and what the client hears when it ends. `poll_hold` is 700 ms,
//! `poll_gap` 300, the window 5,000.

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

/// A session whose first poll, `A`, is held.
fn held() -> Table {
    Table::open(timeouts(), poll(1, 700))
}

/// A session whose first poll was answered at 0.
fn between() -> Table {
    let mut table = held();
    assert_eq!(table.on(0, A, ANSWERED), NOTHING);
    table
}

#[test]
fn a_poll_is_held_as_long_as_it_asks_and_no_longer_than_allowed() {
    for (asked, held) in [(1, 1), (699, 699), (700, 700), (701, 700), (u64::MAX, 700)] {
        let mut table = Table::open(timeouts(), poll(1, asked));
        assert_eq!(table.armed(), [Deadline::PollHold]);
        assert_eq!(table.wait(held - 1), NOTHING, "{asked}");
        assert_eq!(table.wait(held), [fired(Deadline::PollHold, held), Output::AnswerPoll(A)], "{asked}");
        assert_eq!(table.wait(9_000), NOTHING, "once");
    }
}

#[test]
fn a_poll_that_is_not_to_be_held_is_answered_at_once() {
    let mut session = Driven::open(at(0), &timeouts(), Outbox::<()>::new(8), poll(1, 0));
    let outputs: Vec<_> = std::iter::from_fn(|| session.poll_output()).collect();
    assert_eq!(outputs, [event(1, Transition::Opened), Output::AnswerPoll(A)]);
    assert_eq!(session.next_deadline(), None);
    let mut table = between();
    assert_eq!(table.input(1, Input::Attach(poll(2, 0))), [Output::AnswerPoll(B)]);
}

#[test]
fn a_poll_whose_answer_has_begun_is_not_answered_again() {
    let mut table = held();
    assert_eq!(table.on(600, A, ConnectionInput::Sent), NOTHING);
    assert_eq!(table.armed(), []);
    assert_eq!(table.wait(9_000), NOTHING);
    assert_eq!(table.on(9_000, A, ANSWERED), NOTHING);
    assert_eq!(table.next(), Some((at(9_300), Deadline::PollGap)));
}

#[test]
fn a_thousand_cycles_are_one_event() {
    let mut table = held();
    for cycle in 1..=1_000 {
        let now = cycle * 1_000;
        assert_eq!(table.session.phase(), Phase::Attached(ConnectionId(cycle)));
        table.wait(now - 300);
        assert_eq!(table.on(now - 290, ConnectionId(cycle), ANSWERED), NOTHING);
        assert_eq!(table.session.phase(), Phase::BetweenPolls);
        assert_eq!(table.on(now - 280, ConnectionId(cycle), LEFT), NOTHING, "it is over");
        assert_eq!(table.input(now, Input::Attach(poll(cycle + 1, 700))), NOTHING);
    }
    let kicked = table.input(1_000_001, Input::Close(CloseReason::Kicked));
    assert_eq!(kicked[1], event(2, Transition::Closed(CloseReason::Kicked)), "the second event of all");
}

#[test]
fn the_window_counts_from_the_answer() {
    // The pause that was asked for, when the session suspends, when it expires.
    for (pause, gap, window) in
        [(0, 400, 5_100), (1_000, 1_400, 5_100), (4_699, 5_099, 5_100), (4_700, 5_100, 5_100)]
    {
        let mut table = held();
        table.on(100, A, ConnectionInput::Answered { pause: millis(pause) });
        assert_eq!(table.next(), Some((at(gap), Deadline::PollGap)));
        assert_eq!(table.wait(gap - 1), NOTHING);
        let mut outputs = table.wait(gap);
        assert_eq!(outputs[..2], [fired(Deadline::PollGap, gap), suspended(2, SuspendReason::PollGap)]);
        if gap < window {
            assert_eq!(table.next(), Some((at(window), Deadline::Reconnect)));
            assert_eq!(table.wait(window - 1), NOTHING);
            outputs.extend(table.wait(window));
        }
        assert_eq!(outputs[2..], [fired(Deadline::Reconnect, window), event(3, Transition::Expired)]);
    }
}

#[test]
fn a_pause_beyond_the_window_ends_with_it() {
    let mut table = held();
    table.on(0, A, ConnectionInput::Answered { pause: millis(9_000) });
    assert_eq!(
        table.wait(5_000),
        [
            fired(Deadline::PollGap, 5_000),
            suspended(2, SuspendReason::PollGap),
            fired(Deadline::Reconnect, 5_000),
            event(3, Transition::Expired)
        ]
    );
}

#[test]
fn a_worker_that_comes_late_suspends_first() {
    let mut table = between();
    let outputs = table.wait(60_000);
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
fn whatever_the_client_asks_for_puts_off_the_gap_and_the_window() {
    // Requests at these times; when the gap is over; when the window is, which began at 0.
    let table: [(&[u64], u64, u64); 6] = [
        (&[], 300, 5_000),
        (&[100], 400, 5_100),
        (&[100, 200, 350], 650, 5_350),
        (&[200, 1_000], 500, 6_000),
        (&[4_999], 300, 9_999),
        (&[4_000, 8_000], 300, 10_000),
    ];
    for request in [Request::Heard, Request::Command, Request::Ack { seq: 0 }, Request::TokenRefreshed(None)]
    {
        for (requests, gap, window) in table {
            let mut table = between();
            let mut outputs = Vec::new();
            for ms in requests {
                outputs.extend(table.input(*ms, Input::Request(request)));
            }
            outputs.extend(table.wait(gap));
            let gap_over = [fired(Deadline::PollGap, gap), suspended(2, SuspendReason::PollGap)];
            assert_eq!(outputs, gap_over, "{requests:?}");
            assert_eq!(table.next(), Some((at(window), Deadline::Reconnect)), "{requests:?}");
        }
    }
}

#[test]
fn a_client_that_only_sends_commands_is_kept_for_two_windows() {
    let mut table = between();
    for ms in (100..10_000).step_by(100) {
        assert_eq!(table.input(ms, Input::Request(Request::Command)), NOTHING);
        assert_eq!(table.session.phase(), Phase::BetweenPolls);
    }
    let outputs = table.input(10_000, Input::Request(Request::Command));
    assert_eq!(outputs.last(), Some(&event(3, Transition::Expired)));
    assert_eq!(outputs.len(), 4);
}

#[test]
fn a_request_does_not_cut_the_pause_short() {
    let mut table = held();
    table.on(0, A, ConnectionInput::Answered { pause: millis(1_000) });
    table.input(10, Input::Request(Request::Heard));
    assert_eq!(table.next(), Some((at(1_300), Deadline::PollGap)));
}

#[test]
fn a_request_puts_off_the_window_of_a_lost_stream_and_is_no_life_of_a_silent_one() {
    let mut table = Table::stream(WHOLE);
    table.wait(1_000);
    table.on(1_000, A, ConnectionInput::PingSent { seq: 0 });
    table.input(1_200, Input::Request(Request::Command));
    assert_eq!(table.wait(1_400), [Output::Probe(A)], "the request came another way");
    table.on(1_400, A, ConnectionInput::Probed);
    assert_eq!(table.next(), Some((at(6_400), Deadline::Reconnect)));
    for (ms, window) in [(2_000, 7_000), (6_999, 11_400), (11_399, 11_400)] {
        assert_eq!(table.input(ms, Input::Request(Request::Heard)), NOTHING);
        assert_eq!(table.next(), Some((at(window), Deadline::Reconnect)));
    }
}

#[test]
fn a_request_that_acknowledges_what_was_never_sent_ends_the_session() {
    let bad = Input::Request(Request::Ack { seq: 1 });
    let closed = |number| event(number, Transition::Closed(CloseReason::ProtocolError));
    assert_eq!(held().input(1, bad), [Output::Close(A, CloseCode::ProtocolError), closed(2)]);
    assert_eq!(between().input(1, bad), [closed(2)]);
    let mut table = between();
    table.wait(300);
    assert_eq!(table.input(301, bad), [closed(3)]);
}

#[test]
fn the_second_poll_supersedes_the_first() {
    let mut table = held();
    assert_eq!(table.input(100, Input::Attach(poll(2, 700))), [Output::Superseded(A)]);
    for late in [ANSWERED, LEFT, ConnectionInput::Sent, ConnectionInput::Close(CloseReason::Client)] {
        assert_eq!(table.on(101, A, late), NOTHING);
    }
    assert_eq!(table.session.phase(), Phase::Attached(B));
    assert_eq!(table.next(), Some((at(800), Deadline::PollHold)));
}

type Standing = (&'static str, fn() -> Table);

/// How a session stands when something happens to it at 200.
const STANDINGS: [Standing; 5] = [
    ("held", held),
    ("asked to answer", || {
        let mut table = Table::open(timeouts(), poll(1, 100));
        table.wait(100);
        table
    }),
    ("answering", || {
        let mut table = held();
        table.on(100, A, ConnectionInput::Sent);
        table
    }),
    ("between", between),
    ("stream", || Table::stream(WHOLE)),
];

#[test]
fn each_connection_is_told_once_when_another_comes() {
    let replaced = Output::Close(A, CloseCode::Replaced);
    let expected: [(&str, &[Output], &[Output]); 5] = [
        // Then a poll comes; or a stream.
        ("held", &[Output::Superseded(A)], &[replaced, take_over(2)]),
        ("asked to answer", &[], &[take_over(2)]),
        ("answering", &[], &[take_over(2)]),
        ("between", &[], &[take_over(2)]),
        ("stream", &[replaced, take_over(2)], &[replaced, take_over(2)]),
    ];
    for ((name, standing), (row, by_poll, by_stream)) in STANDINGS.into_iter().zip(expected) {
        assert_eq!(name, row);
        assert_eq!(standing().input(200, Input::Attach(poll(2, 700))), by_poll, "{name}");
        assert_eq!(standing().input(200, Input::Attach(stream(2))), by_stream, "{name}");
    }
}

#[test]
fn each_poll_hears_one_thing_when_its_session_ends_or_suspends() {
    let close = |reason| event(2, Transition::Closed(reason));
    for (input, code, event) in [
        (Input::Disconnect, CloseCode::Disconnected, suspended(2, SuspendReason::Disconnected)),
        (Input::Close(CloseReason::Kicked), CloseCode::Kicked, close(CloseReason::Kicked)),
        (Input::Close(CloseReason::Draining), CloseCode::Draining, close(CloseReason::Draining)),
        (Input::Close(CloseReason::Client), CloseCode::Normal, close(CloseReason::Client)),
    ] {
        for (name, standing) in STANDINGS {
            let outputs = standing().input(200, input);
            match name {
                "held" | "stream" => assert_eq!(outputs, [Output::Close(A, code), event], "{name}"),
                _ => assert_eq!(outputs, [event], "{name}"),
            }
        }
    }
}

#[test]
fn each_poll_hears_one_thing_when_its_time_is_up() {
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
        let open = || Table::open(timeouts.clone(), attach);
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
fn a_token_that_runs_out_between_polls_leaves_what_remains_of_the_window() {
    let until = Attach { token_expires: Some(at(250)), ..poll(1, 700) };
    let mut table = Table::open(timeouts(), until);
    table.on(100, A, ANSWERED);
    table.wait(250);
    assert_eq!(table.next(), Some((at(5_100), Deadline::Reconnect)));
}

#[test]
fn a_token_is_refreshed_beside_the_poll_and_between_polls_but_not_while_suspended() {
    let refresh = Input::Request(Request::TokenRefreshed(Some(at(350))));
    let mut table = held();
    table.input(10, refresh);
    assert_eq!(table.armed(), [Deadline::PollHold, Deadline::Token]);
    table.on(20, A, ANSWERED);
    table.input(30, refresh);
    assert_eq!(table.armed(), [Deadline::PollGap, Deadline::Token]);
    table.wait(330);
    table.input(331, refresh);
    assert_eq!(table.armed(), [Deadline::Reconnect]);
}

#[test]
fn what_is_due_together_is_one_answer() {
    let idle = SessionTimeouts { idle: Some(millis(700)), ..timeouts() };
    let mut table = Table::open(idle, poll(1, 700));
    assert_eq!(
        table.wait(700),
        [
            fired(Deadline::PollHold, 700),
            Output::AnswerPoll(A),
            fired(Deadline::Idle, 700),
            event(2, Transition::Closed(CloseReason::Idle))
        ]
    );
}

#[test]
fn a_client_that_leaves_its_poll_is_between_polls() {
    let mut table = held();
    assert_eq!(table.on(200, A, LEFT), NOTHING);
    assert_eq!(table.session.phase(), Phase::BetweenPolls);
    assert_eq!(table.next(), Some((at(500), Deadline::PollGap)), "from this moment");
    assert_eq!(table.input(400, Input::Attach(poll(2, 700))), NOTHING);
}

#[test]
fn polls_are_no_commands() {
    let idle = SessionTimeouts { idle: Some(millis(900)), ..timeouts() };
    let mut table = Table::open(idle, poll(1, 700));
    table.on(100, A, ANSWERED);
    table.input(200, Input::Attach(poll(2, 700)));
    assert!(table.session.deadlines().any(|it| it == (at(900), Deadline::Idle)));
    table.input(300, Input::Request(Request::Command));
    assert!(table.session.deadlines().any(|it| it == (at(1_200), Deadline::Idle)));
    let events = Attach { connection: ConnectionId(3), kind: ConnectionKind::Events, ..stream(3) };
    table.input(400, Input::Attach(events));
    table.input(500, Input::Request(Request::Command));
    assert_eq!(table.armed(), [Deadline::Ping], "a listener may speak, and need not go on");
}

#[test]
fn a_connect_that_comes_with_an_expiry_gets_one_or_the_other() {
    for (ms, phase) in [(4_999, Phase::Attached(B)), (5_000, Phase::Closed(CloseReason::ReconnectWindow))] {
        for worker_first in [false, true] {
            let mut table = between();
            table.wait(300);
            let mut outputs = if worker_first { table.wait(ms) } else { Vec::new() };
            outputs.extend(table.input(ms, Input::Attach(poll(2, 700))));
            if !worker_first {
                outputs.extend(table.wait(ms));
            }
            assert_eq!(table.session.phase(), phase);
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
fn a_stream_holds_a_request_beside_its_pings() {
    let mut table = Table::stream(WHOLE);
    let hold = |hold| ConnectionInput::Hold { hold: millis(hold), seq: None };
    assert_eq!(table.on(10, A, hold(9_000)), NOTHING);
    assert_eq!(table.armed(), [Deadline::Ping, Deadline::PollHold]);
    assert_eq!(table.wait(710), [fired(Deadline::PollHold, 710), Output::AnswerPoll(A)]);
    assert_eq!(table.on(711, A, ConnectionInput::Released), NOTHING);
    assert_eq!(table.on(720, A, hold(0)), [Output::AnswerPoll(A)]);
    table.on(730, A, hold(500));
    table.on(800, A, hold(500));
    assert_eq!(table.wait(1_000), [fired(Deadline::Ping, 1_000), Output::Ping(A)]);
    table.on(1_001, A, ConnectionInput::PingSent { seq: 0 });
    assert_eq!(table.armed(), [Deadline::Pong, Deadline::PollHold]);
    assert_eq!(table.next(), Some((at(1_300), Deadline::PollHold)), "of the later one");
    table.on(1_100, A, ConnectionInput::Released);
    assert_eq!(table.armed(), [Deadline::Pong], "it was answered with a message");
    assert_eq!(table.session.phase(), Phase::Attached(A));
    table.on(1_200, A, hold(500));
    table.on(1_201, A, LEFT);
    assert_eq!(table.armed(), [Deadline::Reconnect], "a stream that is lost is lost");
}

#[test]
fn only_a_stream_holds_requests_and_only_of_what_was_sent() {
    let hold = ConnectionInput::Hold { hold: millis(100), seq: Some(1) };
    let mut table = Table::stream(WHOLE);
    assert_eq!(table.on(1, A, hold), NOTHING, "seq 1 was never sent");
    assert_eq!(table.armed(), [Deadline::Ping]);
    let hold = ConnectionInput::Hold { hold: millis(100), seq: None };
    let mut table = held();
    table.on(1, A, hold);
    assert_eq!(table.next(), Some((at(700), Deadline::PollHold)));
    let mut table = Table::open(timeouts(), Attach { kind: ConnectionKind::Events, ..stream(1) });
    table.on(1, A, hold);
    assert_eq!(table.armed(), [Deadline::Ping]);
    table.on(2, A, ANSWERED);
    assert_eq!(table.session.phase(), Phase::Attached(A), "what is no poll has no answer");
}
