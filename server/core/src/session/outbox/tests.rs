use super::*;

/// Positions of messages that are in only one log.
fn no_positions(_: u64) -> &'static [LogPosition] {
    &[]
}

impl LogHandle for char {
    fn log(&self) -> u64 {
        u64::from(*self)
    }

    fn overlaps(&self, _: &Self) -> bool {
        false
    }
}

/// Takes one turn of `outbox`, whose only channel holds `first..=last`.
fn take(outbox: &mut Outbox<()>, first: u64, last: u64) -> Option<TurnOutcome> {
    let turn = outbox.next_turn()?;
    Some(outbox.take(turn, LogBounds { first, last }, 100, no_positions))
}

fn messages(seq: u64, offset: u64, count: usize) -> Option<TurnOutcome> {
    Some(TurnOutcome::Messages { seq, offset, count, caught_up: true })
}

fn again(seq: u64, offset: u64, count: usize) -> Option<TurnOutcome> {
    Some(TurnOutcome::Messages { seq, offset, count, caught_up: false })
}

fn gap(seq: u64, from: u64, to: u64) -> Option<TurnOutcome> {
    Some(TurnOutcome::Gap { seq, range: Some((from, to)) })
}

#[test]
fn messages_after_the_cursor_are_sent_once() {
    let mut outbox = Outbox::new(8);
    let slot = outbox.subscribe((), 5, false);
    assert_eq!(take(&mut outbox, 1, 5), Some(TurnOutcome::CaughtUp));
    assert_eq!(take(&mut outbox, 1, 7), None, "the subscription is not marked as ready");
    outbox.mark_ready(slot);
    outbox.mark_ready(slot);
    assert_eq!(take(&mut outbox, 1, 7), messages(1, 6, 2));
    assert_eq!(take(&mut outbox, 1, 7), None);
    assert_eq!((outbox.seq(), outbox.sent(), outbox.unacked()), (2, 2, 2));
}

#[test]
fn client_catches_up_after_each_connect_and_subscribe() {
    let mut outbox = Outbox::new(8);
    assert!(!outbox.is_catching_up());
    let slot = outbox.subscribe((), 0, false);
    assert_eq!(take(&mut outbox, 1, 2), messages(1, 1, 2));
    assert!(outbox.is_catching_up(), "the owner decides when the client has caught up");
    outbox.continue_catching_up(true);
    assert!(outbox.is_catching_up());
    outbox.continue_catching_up(false);
    outbox.mark_ready(slot);
    assert_eq!(take(&mut outbox, 1, 3), messages(3, 3, 1));
    assert!(!outbox.is_catching_up());
    outbox.resume(Some(3), WhenFull::Stop);
    assert!(outbox.is_catching_up());
}

#[test]
fn sent_messages_are_found_by_seq() {
    let mut outbox = Outbox::new(2);
    let slot = outbox.subscribe((), 0, false);
    assert_eq!(take(&mut outbox, 3, 4), gap(1, 1, 2));
    assert_eq!(take(&mut outbox, 3, 3), messages(2, 3, 1));
    assert_eq!(
        (0..4).map(|seq| outbox.message_at(seq)).collect::<Vec<_>>(),
        [None, None, Some((slot, 3)), None]
    );
    outbox.acknowledge(2);
    assert_eq!(outbox.message_at(2), None, "it has left the ring");
}

#[test]
fn a_cursor_that_fell_off_the_log_gets_a_gap() {
    let mut outbox = Outbox::new(8);
    outbox.subscribe((), 0, false);
    assert_eq!(take(&mut outbox, 4, 5), gap(1, 1, 3));
    assert_eq!(take(&mut outbox, 4, 5), messages(2, 4, 2));
    assert_eq!(take(&mut outbox, 9, 8), None, "it has caught up");
}

#[test]
fn resending_needs_the_log() {
    let mut outbox = Outbox::new(2);
    outbox.subscribe((), 0, true);
    assert!(!outbox.needs_log());
    assert!(matches!(take(&mut outbox, 1, 2), Some(TurnOutcome::Gap { seq: 1, .. })));
    assert!(!outbox.needs_log(), "new messages need not be read at once");
    assert_eq!(take(&mut outbox, 1, 1), messages(2, 1, 1));
    outbox.resume(Some(0), WhenFull::Stop);
    assert!(!outbox.needs_log(), "the gap is sent first");
    take(&mut outbox, 1, 0);
    assert!(outbox.needs_log());
    outbox.resume_with_gaps(WhenFull::Stop, false, false);
    assert!(!outbox.needs_log(), "all messages become gaps");
}

#[test]
fn a_full_ring_stops_until_something_is_acknowledged() {
    let mut outbox = Outbox::new(4);
    outbox.subscribe((), 0, false);
    assert_eq!(take(&mut outbox, 1, 9), again(1, 1, 4));
    assert!(outbox.needs_acknowledgement());
    assert_eq!(take(&mut outbox, 1, 9), None);
    outbox.acknowledge(3);
    assert!(!outbox.needs_acknowledgement());
    assert_eq!(take(&mut outbox, 1, 9), again(5, 5, 3));
}

#[test]
fn a_ring_without_acknowledgements_wraps() {
    let mut outbox = Outbox::new(4);
    outbox.subscribe((), 0, false);
    outbox.resume(None, WhenFull::Wrap);
    assert_eq!(take(&mut outbox, 1, 9), again(1, 1, 4));
    assert_eq!(take(&mut outbox, 1, 9), again(5, 5, 4));
    assert_eq!(take(&mut outbox, 1, 9), messages(9, 9, 1));
    assert!(!outbox.needs_acknowledgement(), "the client cannot give one");
    outbox.resume(Some(2), WhenFull::Wrap);
    assert_eq!(take(&mut outbox, 1, 9), gap(5, 1, 5), "the range is too wide: only 3, 4 and 5 are missing");
    assert_eq!(take(&mut outbox, 1, 9), again(6, 6, 4));
}

#[test]
fn a_resume_resends_messages_after_the_clients_seq() {
    let mut outbox = Outbox::new(8);
    let slot = outbox.subscribe((), 0, false);
    assert_eq!(take(&mut outbox, 1, 4), messages(1, 1, 4));
    outbox.resume(Some(2), WhenFull::Stop);
    assert_eq!(outbox.sent(), 2);
    outbox.mark_ready(slot);
    assert_eq!(take(&mut outbox, 1, 5), again(3, 3, 2));
    assert_eq!(take(&mut outbox, 1, 5), messages(5, 5, 1), "then the new message");
}

#[test]
fn messages_lost_from_the_log_become_one_gap() {
    let mut outbox = Outbox::new(8);
    outbox.subscribe((), 0, false);
    take(&mut outbox, 1, 4);
    outbox.resume(Some(0), WhenFull::Stop);
    assert_eq!(take(&mut outbox, 4, 4), gap(3, 1, 3));
    assert_eq!(take(&mut outbox, 4, 4), again(4, 4, 1));
    outbox.resume(Some(3), WhenFull::Stop);
    assert_eq!(take(&mut outbox, 5, 4), gap(4, 4, 4));
    assert_eq!(outbox.sent(), 4);
}

#[test]
fn acknowledging_messages_not_sent_on_this_connection_loses_nothing() {
    let mut outbox = Outbox::new(8);
    outbox.subscribe((), 0, false);
    take(&mut outbox, 1, 4);
    outbox.resume(Some(1), WhenFull::Stop);
    outbox.acknowledge(4);
    assert_eq!(take(&mut outbox, 1, 4), again(2, 2, 3));
}

#[test]
fn a_resume_without_a_seq_continues_after_the_acknowledged() {
    let mut outbox = Outbox::new(8);
    outbox.subscribe((), 0, false);
    take(&mut outbox, 1, 4);
    outbox.acknowledge(3);
    outbox.resume(None, WhenFull::Stop);
    assert_eq!(take(&mut outbox, 1, 4), again(4, 4, 1));
}

#[test]
fn a_client_disconnected_between_two_gaps_gets_the_second_later() {
    let bounds = LogBounds { first: 1, last: 1 };
    let mut outbox = Outbox::new(8);
    outbox.subscribe('a', 0, false);
    outbox.subscribe('b', 0, false);
    for _ in 0..2 {
        let turn = outbox.next_turn().expect("both have one message");
        outbox.take(turn, bounds, 1, no_positions);
    }
    outbox.acknowledge(2);
    outbox.resume(Some(0), WhenFull::Stop);
    let turn = outbox.next_turn().expect("a pending gap");
    assert_eq!(outbox.channel(turn.slot), Some(&'a'));
    assert_eq!(outbox.take(turn, bounds, 1, no_positions), TurnOutcome::Gap { seq: 1, range: Some((1, 1)) });
    outbox.resume(Some(1), WhenFull::Stop);
    let turn = outbox.next_turn().expect("a pending gap");
    assert_eq!(outbox.channel(turn.slot), Some(&'b'));
    assert_eq!(outbox.take(turn, bounds, 1, no_positions), TurnOutcome::Gap { seq: 2, range: Some((1, 1)) });
    assert_eq!(outbox.next_turn(), None);
}

#[test]
fn messages_lost_by_going_back_are_not_acknowledged() {
    let mut outbox = Outbox::new(8);
    outbox.subscribe((), 0, false);
    take(&mut outbox, 1, 4);
    outbox.acknowledge(4);
    outbox.resume(Some(1), WhenFull::Stop);
    outbox.resume(None, WhenFull::Stop);
    assert_eq!(outbox.sent(), 1);
    assert_eq!(take(&mut outbox, 1, 4), gap(4, 1, 4));
}

#[test]
fn a_gap_of_unknown_length_comes_first() {
    let mut outbox = Outbox::new(8);
    outbox.subscribe((), 2, true);
    assert_eq!(take(&mut outbox, 1, 3), Some(TurnOutcome::Gap { seq: 1, range: None }));
    assert_eq!(take(&mut outbox, 1, 3), messages(2, 3, 1));
    outbox.acknowledge(2);
    outbox.resume(Some(0), WhenFull::Stop);
    assert_eq!(
        take(&mut outbox, 1, 3),
        Some(TurnOutcome::Gap { seq: 2, range: None }),
        "a gap of unknown length has no range"
    );
}

#[test]
fn messages_sent_before_an_unsubscribe_can_be_resent() {
    let mut outbox = Outbox::new(8);
    let slot = outbox.subscribe((), 0, false);
    take(&mut outbox, 1, 2);
    outbox.unsubscribe(slot);
    outbox.mark_ready(slot);
    assert_eq!(take(&mut outbox, 1, 3), None, "no new messages");
    assert_eq!(outbox.subscriptions().count(), 0);
    outbox.resume(Some(1), WhenFull::Stop);
    assert_eq!(take(&mut outbox, 1, 3), again(2, 2, 1));
    outbox.acknowledge(2);
    assert_eq!(outbox.channel(slot), None, "the channel handle is dropped");
    assert_eq!(outbox.subscribe((), 3, false), slot, "and its slot is reused");
}

#[test]
fn channels_take_turns() {
    let mut outbox = Outbox::new(100);
    let busy = outbox.subscribe('b', 0, false);
    let quiet = outbox.subscribe('q', 0, false);
    let mut order = Vec::new();
    while let Some(turn) = outbox.next_turn() {
        order.push(turn.slot);
        let last = if turn.slot == busy { 30 } else { 1 };
        outbox.take(turn, LogBounds { first: 1, last }, 10, no_positions);
    }
    assert_eq!(order, [busy, quiet, busy, busy]);
}

#[test]
fn clearing_returns_the_subscribed_channels() {
    let mut outbox = Outbox::new(8);
    outbox.subscribe('a', 0, false);
    let left = outbox.subscribe('b', 0, false);
    outbox.unsubscribe(left);
    assert_eq!(outbox.clear().collect::<Vec<_>>(), ['a']);
    assert_eq!(outbox.next_turn(), None);
}

/// The logs of `/a`, of `/b`, and of `/*`, which contains the messages of both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    A,
    B,
    All,
}

impl LogHandle for Shape {
    fn log(&self) -> u64 {
        *self as u64
    }

    fn overlaps(&self, other: &Self) -> bool {
        self == other || *self == Self::All || *other == Self::All
    }
}

/// The published messages: the first to `/a`, the second to `/b`, the third to `/a`.
fn published(log: Shape, offset: u64) -> &'static [LogPosition] {
    const fn at(log: Shape, offset: u64) -> LogPosition {
        LogPosition { log: log as u64, offset }
    }
    const FIRST: &[LogPosition] = &[at(Shape::A, 1), at(Shape::All, 1)];
    const SECOND: &[LogPosition] = &[at(Shape::B, 1), at(Shape::All, 2)];
    const THIRD: &[LogPosition] = &[at(Shape::A, 2), at(Shape::All, 3)];
    match (log, offset) {
        (Shape::A | Shape::All, 1) => FIRST,
        (Shape::B, 1) | (Shape::All, 2) => SECOND,
        _ => THIRD,
    }
}

/// Takes one turn. `/a` and `/b` are complete; `/*` has lost the messages before `first`.
fn take_shared(outbox: &mut Outbox<Shape>, first: u64) -> Option<(Shape, TurnOutcome)> {
    let turn = outbox.next_turn()?;
    let log = *outbox.channel(turn.slot).expect("the slot is in use");
    let bounds = match log {
        Shape::A => LogBounds { first: 1, last: 2 },
        Shape::B => LogBounds { first: 1, last: 1 },
        Shape::All => LogBounds { first, last: 3 },
    };
    let run = outbox.take(turn, bounds, 100, |offset| published(log, offset));
    outbox.check_invariants();
    Some((log, run))
}

fn sent(seq: u64, offset: u64, count: usize, caught_up: bool) -> TurnOutcome {
    TurnOutcome::Messages { seq, offset, count, caught_up }
}

#[test]
fn a_message_sent_by_one_subscription_is_skipped_by_the_others() {
    let mut outbox = Outbox::new(8);
    outbox.subscribe(Shape::All, 0, false);
    outbox.subscribe(Shape::A, 0, false);
    assert_eq!(take_shared(&mut outbox, 1), Some((Shape::All, sent(1, 1, 3, true))));
    assert_eq!(take_shared(&mut outbox, 1), Some((Shape::A, TurnOutcome::CaughtUp)));
    assert_eq!(take_shared(&mut outbox, 1), None);
}

#[test]
fn ending_a_subscription_does_not_move_the_others() {
    for ends_at in 0..3 {
        let mut outbox = Outbox::new(8);
        let channel = outbox.subscribe(Shape::A, 0, false);
        outbox.subscribe(Shape::All, 0, false);
        let (mut offsets, mut turns) = (Vec::new(), 0);
        loop {
            if turns == ends_at {
                outbox.unsubscribe(channel);
            }
            turns += 1;
            let Some((log, run)) = take_shared(&mut outbox, 1) else { break };
            if let TurnOutcome::Messages { offset, count, .. } = run {
                offsets.extend((offset..).take(count).map(|offset| published(log, offset)[1].offset));
            }
        }
        assert_eq!(offsets, [1, 2, 3], "{ends_at}");
    }
}

#[test]
fn a_message_waits_for_earlier_ones_of_other_subscriptions() {
    let mut outbox = Outbox::new(8);
    outbox.subscribe(Shape::A, 0, false);
    outbox.subscribe(Shape::All, 0, false);
    // The second message of `/a` must wait for the message of `/b`, which only the pattern's log contains.
    assert_eq!(take_shared(&mut outbox, 1), Some((Shape::A, sent(1, 1, 1, false))));
    assert_eq!(take_shared(&mut outbox, 1), Some((Shape::All, sent(2, 2, 2, true))));
    assert_eq!(take_shared(&mut outbox, 1), Some((Shape::A, TurnOutcome::CaughtUp)));
}

#[test]
fn a_subscription_beginning_in_the_past_skips_messages_already_sent() {
    let mut outbox = Outbox::new(8);
    let pattern = outbox.subscribe(Shape::All, 1, false);
    assert_eq!(take_shared(&mut outbox, 1), Some((Shape::All, sent(1, 2, 2, true))));
    outbox.subscribe(Shape::A, 0, false);
    outbox.unsubscribe(pattern);
    assert_eq!(
        take_shared(&mut outbox, 1),
        Some((Shape::A, sent(3, 1, 1, false))),
        "published before the pattern subscription began"
    );
    assert_eq!(
        take_shared(&mut outbox, 1),
        Some((Shape::A, TurnOutcome::CaughtUp)),
        "the second message was already sent"
    );
}

#[test]
fn messages_covered_by_a_gap_may_be_sent_by_another_subscription() {
    let mut outbox = Outbox::new(8);
    outbox.subscribe(Shape::All, 0, false);
    assert_eq!(
        take_shared(&mut outbox, 4),
        Some((Shape::All, TurnOutcome::Gap { seq: 1, range: Some((1, 3)) }))
    );
    outbox.subscribe(Shape::A, 0, false);
    assert_eq!(take_shared(&mut outbox, 4), Some((Shape::All, TurnOutcome::CaughtUp)));
    assert_eq!(take_shared(&mut outbox, 4), Some((Shape::A, sent(2, 1, 2, true))));
}

#[test]
fn messages_of_an_ended_subscription_are_reported_by_the_others() {
    let mut outbox = Outbox::new(8);
    let pattern = outbox.subscribe(Shape::All, 0, false);
    outbox.subscribe(Shape::A, 0, false);
    assert_eq!(take_shared(&mut outbox, 1), Some((Shape::All, sent(1, 1, 3, true))));
    assert_eq!(take_shared(&mut outbox, 1), Some((Shape::A, TurnOutcome::CaughtUp)));
    outbox.acknowledge(3);
    outbox.unsubscribe(pattern);
    outbox.resume(Some(0), WhenFull::Stop);
    assert_eq!(take_shared(&mut outbox, 1), Some((Shape::A, TurnOutcome::Gap { seq: 4, range: None })));
}
