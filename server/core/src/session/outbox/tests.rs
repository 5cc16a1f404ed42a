use super::*;

/// A turn of `outbox`, whose only channel holds `first..=last`.
fn take(outbox: &mut Outbox<()>, first: u64, last: u64) -> Option<Run> {
    let turn = outbox.next_turn()?;
    Some(outbox.take(turn, Bounds { first, last }, 100))
}

fn messages(seq: u64, offset: u64, count: usize) -> Option<Run> {
    Some(Run::Messages { seq, offset, count, caught_up: true })
}

fn again(seq: u64, offset: u64, count: usize) -> Option<Run> {
    Some(Run::Messages { seq, offset, count, caught_up: false })
}

fn gap(seq: u64, from: u64, to: u64) -> Option<Run> {
    Some(Run::Gap { seq, range: Some((from, to)) })
}

#[test]
fn what_is_published_after_the_cursor_is_sent_once() {
    let mut outbox = Outbox::new(8);
    let slot = outbox.subscribe((), 5, false);
    assert_eq!(take(&mut outbox, 1, 5), Some(Run::CaughtUp));
    assert_eq!(take(&mut outbox, 1, 7), None, "not marked");
    outbox.mark_ready(slot);
    outbox.mark_ready(slot);
    assert_eq!(take(&mut outbox, 1, 7), messages(1, 6, 2));
    assert_eq!(take(&mut outbox, 1, 7), None);
    assert_eq!((outbox.seq(), outbox.sent(), outbox.unacked()), (2, 2, 2));
}

#[test]
fn a_cursor_that_fell_off_the_log_gets_a_gap_and_goes_on() {
    let mut outbox = Outbox::new(8);
    outbox.subscribe((), 0, false);
    assert_eq!(take(&mut outbox, 4, 5), gap(1, 1, 3));
    assert_eq!(take(&mut outbox, 4, 5), messages(2, 4, 2));
    assert_eq!(take(&mut outbox, 9, 8), None, "it has caught up");
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
fn a_ring_that_nobody_can_acknowledge_wraps() {
    let mut outbox = Outbox::new(4);
    outbox.subscribe((), 0, false);
    outbox.resume(None, WhenFull::Wrap);
    assert_eq!(take(&mut outbox, 1, 9), again(1, 1, 4));
    assert_eq!(take(&mut outbox, 1, 9), again(5, 5, 4));
    assert_eq!(take(&mut outbox, 1, 9), messages(9, 9, 1));
    assert!(!outbox.needs_acknowledgement(), "the client cannot give one");
    outbox.resume(Some(2), WhenFull::Wrap);
    assert_eq!(take(&mut outbox, 1, 9), gap(5, 1, 5), "it says too much: 3, 4 and 5 are missing");
    assert_eq!(take(&mut outbox, 1, 9), again(6, 6, 4));
}

#[test]
fn a_resume_sends_again_what_follows_the_clients_seq() {
    let mut outbox = Outbox::new(8);
    let slot = outbox.subscribe((), 0, false);
    assert_eq!(take(&mut outbox, 1, 4), messages(1, 1, 4));
    outbox.resume(Some(2), WhenFull::Stop);
    assert_eq!(outbox.sent(), 2);
    outbox.mark_ready(slot);
    assert_eq!(take(&mut outbox, 1, 5), again(3, 3, 2));
    assert_eq!(take(&mut outbox, 1, 5), messages(5, 5, 1), "then what is new");
}

#[test]
fn what_the_log_has_lost_meanwhile_becomes_one_gap() {
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
fn an_acknowledgement_of_what_was_not_sent_on_this_connection_loses_nothing() {
    let mut outbox = Outbox::new(8);
    outbox.subscribe((), 0, false);
    take(&mut outbox, 1, 4);
    outbox.resume(Some(1), WhenFull::Stop);
    outbox.acknowledge(4);
    assert_eq!(take(&mut outbox, 1, 4), again(2, 2, 3));
}

#[test]
fn without_a_seq_it_goes_on_from_what_was_acknowledged() {
    let mut outbox = Outbox::new(8);
    outbox.subscribe((), 0, false);
    take(&mut outbox, 1, 4);
    outbox.acknowledge(3);
    outbox.resume(None, WhenFull::Stop);
    assert_eq!(take(&mut outbox, 1, 4), again(4, 4, 1));
}

#[test]
fn a_client_cut_between_two_gaps_gets_the_second_later() {
    let bounds = Bounds { first: 1, last: 1 };
    let mut outbox = Outbox::new(8);
    outbox.subscribe('a', 0, false);
    outbox.subscribe('b', 0, false);
    for _ in 0..2 {
        let turn = outbox.next_turn().expect("both have one message");
        outbox.take(turn, bounds, 1);
    }
    outbox.acknowledge(2);
    outbox.resume(Some(0), WhenFull::Stop);
    let turn = outbox.next_turn().expect("a pending gap");
    assert_eq!(outbox.channel(turn.slot), Some(&'a'));
    assert_eq!(outbox.take(turn, bounds, 1), Run::Gap { seq: 1, range: Some((1, 1)) });
    outbox.resume(Some(1), WhenFull::Stop);
    let turn = outbox.next_turn().expect("a pending gap");
    assert_eq!(outbox.channel(turn.slot), Some(&'b'));
    assert_eq!(outbox.take(turn, bounds, 1), Run::Gap { seq: 2, range: Some((1, 1)) });
    assert_eq!(outbox.next_turn(), None);
}

#[test]
fn what_a_client_lost_by_going_back_is_not_taken_for_acknowledged() {
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
    assert_eq!(take(&mut outbox, 1, 3), Some(Run::Gap { seq: 1, range: None }));
    assert_eq!(take(&mut outbox, 1, 3), messages(2, 3, 1));
    outbox.acknowledge(2);
    outbox.resume(Some(0), WhenFull::Stop);
    assert_eq!(take(&mut outbox, 1, 3), Some(Run::Gap { seq: 2, range: None }), "no range says it all");
}

#[test]
fn what_was_sent_before_an_unsubscribe_can_be_sent_again() {
    let mut outbox = Outbox::new(8);
    let slot = outbox.subscribe((), 0, false);
    take(&mut outbox, 1, 2);
    outbox.unsubscribe(slot);
    outbox.mark_ready(slot);
    assert_eq!(take(&mut outbox, 1, 3), None, "nothing new");
    assert_eq!(outbox.subscriptions().count(), 0);
    outbox.resume(Some(1), WhenFull::Stop);
    assert_eq!(take(&mut outbox, 1, 3), again(2, 2, 1));
    outbox.acknowledge(2);
    assert_eq!(outbox.channel(slot), None, "the channel is released");
    assert_eq!(outbox.subscribe((), 3, false), slot, "and its slot is reused");
}

#[test]
fn channels_take_turns() {
    let mut outbox = Outbox::new(100);
    let busy = outbox.subscribe("busy", 0, false);
    let quiet = outbox.subscribe("quiet", 0, false);
    let mut order = Vec::new();
    while let Some(turn) = outbox.next_turn() {
        order.push(turn.slot);
        let last = if turn.slot == busy { 30 } else { 1 };
        outbox.take(turn, Bounds { first: 1, last }, 10);
    }
    assert_eq!(order, [busy, quiet, busy, busy]);
}

#[test]
fn clearing_returns_what_was_subscribed() {
    let mut outbox = Outbox::new(8);
    outbox.subscribe('a', 0, false);
    let left = outbox.subscribe('b', 0, false);
    outbox.unsubscribe(left);
    assert_eq!(outbox.clear().collect::<Vec<_>>(), ['a']);
    assert_eq!(outbox.next_turn(), None);
}
