//! Tests of messages that clients receive again, and of the gaps that replace them, for polls and for
//! requests held on a stream. There is one channel, whose messages have the offsets 1 to `last`.

use super::*;
use crate::session::outbox::{LogBounds, SubscriptionSlot, TurnOutcome};

struct PollingClient {
    timed: TimedSession,
    slot: SubscriptionSlot,
    last: u64,
    polls: u64,
    delivery: DeliveryMode,
}

const ANSWERED: ConnectionInput = ConnectionInput::Answered { pause: Duration::ZERO };
const LEFT: ConnectionInput = ConnectionInput::Ended(SuspendReason::ConnectionLost);

impl PollingClient {
    fn new(delivery: DeliveryMode, max_unacked: usize) -> Self {
        let mut session =
            SessionHarness::open(at(0), &timeouts(), Outbox::new(max_unacked), poll(1, None, delivery));
        let slot = session.outbox_mut().subscribe((), 0, false);
        while session.poll_output().is_some() {}
        let mut client = Self { timed: TimedSession { session }, slot, last: 0, polls: 1, delivery };
        client.answer();
        client
    }

    fn publish(&mut self, count: u64) {
        self.last += count;
        self.timed.session.outbox_mut().mark_ready(self.slot);
    }

    fn poll(&mut self, seq: Option<u64>) {
        self.polls += 1;
        let attach = poll(self.polls, seq, self.delivery);
        self.timed.input(1, Input::Attach(attach));
        assert_eq!(self.timed.session.phase(), Phase::Attached(attach.connection));
    }

    fn stream(&mut self, seq: Option<u64>) {
        self.polls += 1;
        let id = ConnectionId(self.polls);
        self.timed.input(
            1,
            Input::Attach(Attach { seq, delivery: self.delivery, ..attach(id, Heartbeat::Frame, WHOLE) }),
        );
    }

    fn on(&mut self, input: ConnectionInput) {
        let outputs = self.timed.on(1, ConnectionId(self.polls), input);
        assert!(!outputs.iter().any(|it| matches!(it, Output::Close(..))), "{outputs:?}");
    }

    /// Takes everything from the outbox: seqs for messages, offsets for gaps.
    fn take(&mut self) -> Vec<Received> {
        let log = LogBounds { first: 1, last: self.last };
        let mut received = Vec::new();
        while let Some(turn) = self.timed.session.outbox().next_turn() {
            match self.timed.session.outbox_mut().take(turn, log, 100, |_| &[]) {
                TurnOutcome::Messages { seq, count, .. } => {
                    received.push(Received::Messages(seq, seq + count as u64 - 1))
                }
                TurnOutcome::Gap { seq, range } => {
                    received.push(Received::Gap(seq, range.expect("the range is known")))
                }
                TurnOutcome::CaughtUp => {}
                other => unreachable!("unexpected with a single requested subscription: {other:?}"),
            }
            self.timed.session.outbox().check_invariants();
        }
        self.on(ConnectionInput::Sent);
        received
    }

    fn answer(&mut self) -> Vec<Received> {
        let received = self.take();
        self.on(ANSWERED);
        assert_eq!(self.timed.session.phase(), Phase::BetweenPolls);
        received
    }

    fn unacked(&self) -> usize {
        self.timed.session.outbox().unacked()
    }
}

#[derive(Debug, PartialEq)]
enum Received {
    Messages(u64, u64),
    Gap(u64, (u64, u64)),
}

use Received::{Gap, Messages};

fn poll(number: u64, seq: Option<u64>, delivery: DeliveryMode) -> Attach {
    let kind = ConnectionKind::Poll { hold: Duration::from_millis(700) };
    Attach { kind, seq, delivery, ..attach(ConnectionId(number), Heartbeat::Frame, WHOLE) }
}

#[test]
fn the_next_polls_seq_acknowledges() {
    let mut client = PollingClient::new(DeliveryMode::AtLeastOnce, 64);
    client.publish(3);
    client.poll(Some(0));
    assert_eq!(client.answer(), [Messages(1, 3)]);
    client.publish(2);
    client.poll(Some(3));
    assert_eq!(client.answer(), [Messages(4, 5)]);
    client.poll(Some(5));
    assert_eq!(client.unacked(), 2, "messages acknowledged by the previous poll are dropped");
    client.poll(Some(5));
    assert_eq!((client.unacked(), client.answer()), (0, vec![]));
}

#[test]
fn a_lost_answer_is_resent() {
    let mut client = PollingClient::new(DeliveryMode::AtLeastOnce, 64);
    client.publish(3);
    client.poll(Some(0));
    client.answer();
    client.poll(Some(0));
    assert_eq!(client.answer(), [Messages(1, 3)]);
    client.poll(Some(0));
    client.take();
    client.on(LEFT);
    client.poll(Some(2));
    assert_eq!(client.answer(), [Messages(3, 3)]);
}

#[test]
fn an_older_overlapping_poll_gets_later_messages_again() {
    let mut client = PollingClient::new(DeliveryMode::AtLeastOnce, 64);
    client.publish(3);
    client.poll(Some(0));
    client.answer();
    client.poll(Some(3));
    client.poll(Some(0));
    assert_eq!(client.answer(), [Messages(1, 3)]);
    client.poll(Some(3));
    client.publish(1);
    client.poll(Some(1));
    assert_eq!(client.answer(), [Messages(2, 3), Messages(4, 4)]);
}

#[test]
fn a_poll_older_than_the_previous_acknowledgement_gets_a_gap() {
    let mut client = PollingClient::new(DeliveryMode::AtLeastOnce, 64);
    client.publish(3);
    client.poll(Some(0));
    client.answer();
    client.poll(Some(3));
    client.poll(Some(3));
    client.poll(Some(1));
    assert_eq!(client.answer(), [Gap(3, (1, 3))]);
    client.poll(None);
    assert_eq!(client.answer(), [Gap(3, (1, 3))], "the client has not acknowledged the gap");
    client.poll(Some(3));
    client.poll(None);
    assert_eq!(client.answer(), []);
}

#[test]
fn a_poll_frees_a_small_ring_at_once() {
    let mut client = PollingClient::new(DeliveryMode::AtLeastOnce, 4);
    client.publish(9);
    client.poll(Some(0));
    assert_eq!(client.answer(), [Messages(1, 4)]);
    client.poll(Some(4));
    assert_eq!(client.answer(), [Messages(5, 8)], "not held while there are messages");
}

#[test]
fn a_poll_with_an_unsent_seq_changes_nothing() {
    let mut client = PollingClient::new(DeliveryMode::AtLeastOnce, 64);
    client.publish(1);
    client.poll(Some(0));
    client.answer();
    assert_eq!(client.timed.input(1, Input::Attach(poll(9, Some(2), DeliveryMode::AtLeastOnce))), NOTHING);
    assert_eq!(client.timed.session.phase(), Phase::BetweenPolls);
}

#[test]
fn abandoning_a_held_poll_loses_nothing() {
    for delivery in [DeliveryMode::AtLeastOnce, DeliveryMode::AtMostOnce] {
        let mut client = PollingClient::new(delivery, 64);
        client.poll(None);
        client.on(LEFT);
        client.publish(2);
        client.poll(None);
        client.publish(1);
        client.on(LEFT);
        client.poll(None);
        assert_eq!(client.answer(), [Messages(1, 3)]);
    }
}

#[test]
fn at_most_once_the_next_connect_empties_the_ring() {
    let mut client = PollingClient::new(DeliveryMode::AtMostOnce, 64);
    client.publish(3);
    client.poll(None);
    assert_eq!(client.answer(), [Messages(1, 3)]);
    assert_eq!(client.unacked(), 3);
    client.poll(None);
    assert_eq!(client.unacked(), 0);
    client.publish(1);
    assert_eq!(client.answer(), [Messages(4, 4)]);
}

#[test]
fn at_most_once_a_failed_connection_leaves_a_gap() {
    let mut client = PollingClient::new(DeliveryMode::AtMostOnce, 64);
    client.publish(3);
    client.poll(None);
    client.answer();
    client.publish(2);
    client.poll(None);
    assert_eq!(client.take(), [Messages(4, 5)]);
    client.on(LEFT);
    client.publish(1);
    client.poll(None);
    assert_eq!(
        client.take(),
        [Gap(5, (4, 5)), Messages(6, 6)],
        "no duplicates, and the gap covers only lost messages"
    );
    client.on(LEFT);
    client.poll(None);
    assert_eq!(client.answer(), [Gap(6, (4, 6))], "even if the gap itself is lost");
    client.poll(None);
    assert_eq!((client.unacked(), client.answer()), (0, vec![]));
}

#[test]
fn at_most_once_a_late_failure_leaves_a_gap() {
    for suspends in [false, true] {
        let mut client = PollingClient::new(DeliveryMode::AtMostOnce, 64);
        client.publish(2);
        client.poll(None);
        client.answer();
        if suspends {
            client.timed.wait(400);
        }
        client.on(ConnectionInput::AnswerLost);
        client.poll(None);
        assert_eq!(client.answer(), [Gap(2, (1, 2))]);
    }
}

/// Behind a proxy that resets the connection after each answer, every answer may be lost.
#[test]
fn at_most_once_a_gap_is_not_repeated_in_a_loop() {
    let mut client = PollingClient::new(DeliveryMode::AtMostOnce, 4);
    let has_turn = |client: &PollingClient| client.timed.session.outbox().next_turn().is_some();
    let answer_and_lose = |client: &mut PollingClient| {
        let received = client.answer();
        client.on(ConnectionInput::AnswerLost);
        client.poll(None);
        received
    };
    client.publish(1);
    client.poll(None);
    assert_eq!(answer_and_lose(&mut client), [Messages(1, 1)]);
    assert_eq!(answer_and_lose(&mut client), [Gap(1, (1, 1))], "the loss is reported at once");
    assert!(!has_turn(&client), "the gap is not repeated at once");
    client.publish(1);
    assert_eq!(answer_and_lose(&mut client), [Gap(1, (1, 1)), Messages(2, 2)]);
    assert_eq!(answer_and_lose(&mut client), [Gap(2, (1, 2))], "the range has changed");
    assert!(!has_turn(&client));
    let needs_acknowledgement = client.timed.session.outbox().needs_acknowledgement();
    assert!(!needs_acknowledgement, "the held request would count as answered");
    assert!(client.timed.wait(701).iter().any(|it| matches!(it, Output::AnswerPoll(_))));
    assert_eq!(answer_and_lose(&mut client), [Gap(2, (1, 2))], "the end of the hold repeats it");
    assert!(!has_turn(&client));
}

/// A client may keep an earlier poll's connection open, and that connection may fail after the answer to a later
/// poll.
#[test]
fn at_most_once_a_late_failure_of_an_earlier_poll_changes_nothing() {
    let mut client = PollingClient::new(DeliveryMode::AtMostOnce, 64);
    client.publish(1);
    client.poll(None);
    assert_eq!(client.answer(), [Messages(1, 1)]);
    client.publish(1);
    client.poll(None);
    assert_eq!(client.answer(), [Messages(2, 2)]);
    let earlier = ConnectionId(client.polls - 1);
    client.timed.on(1, earlier, ConnectionInput::AnswerLost);
    client.poll(None);
    assert_eq!(client.answer(), []);
}

#[test]
fn at_most_once_a_poll_that_overtakes_an_answer_leaves_a_gap() {
    let mut client = PollingClient::new(DeliveryMode::AtMostOnce, 64);
    client.publish(2);
    client.poll(None);
    client.take();
    client.poll(None);
    assert_eq!(client.answer(), [Gap(2, (1, 2))]);
}

#[test]
fn at_most_once_a_pong_acknowledges_messages_before_its_ping() {
    let mut client = PollingClient::new(DeliveryMode::AtMostOnce, 64);
    client.stream(None);
    client.publish(2);
    assert_eq!(client.take(), [Messages(1, 2)]);
    client.timed.wait(1_001);
    client.on(ConnectionInput::PingSent { seq: 2 });
    client.publish(1);
    assert_eq!(client.take(), [Messages(3, 3)]);
    client.on(ConnectionInput::PongFrame { seq: 2 });
    assert_eq!(client.unacked(), 1);
    client.poll(None);
    assert_eq!(client.answer(), [Gap(3, (3, 3))]);
}

#[test]
fn at_most_once_a_request_acknowledges_the_previous_answer() {
    let hold = ConnectionInput::Hold { hold: Duration::from_millis(700), seq: None };
    let mut client = PollingClient::new(DeliveryMode::AtMostOnce, 64);
    client.stream(None);
    client.on(hold);
    client.publish(2);
    assert_eq!(client.take(), [Messages(1, 2)]);
    client.on(ConnectionInput::Released);
    client.publish(1);
    assert_eq!(client.take(), [Messages(3, 3)], "may still be in transit at the client's next request");
    client.on(hold);
    assert_eq!(client.unacked(), 1);
    client.on(LEFT);
    client.stream(None);
    assert_eq!(client.take(), [Gap(3, (3, 3))]);
}

#[test]
fn a_stream_request_with_an_older_seq_gets_later_messages_again() {
    let hold = |seq| ConnectionInput::Hold { hold: Duration::from_millis(700), seq: Some(seq) };
    let mut client = PollingClient::new(DeliveryMode::AtLeastOnce, 64);
    client.stream(None);
    client.on(hold(0));
    client.publish(3);
    assert_eq!(client.take(), [Messages(1, 3)]);
    client.on(ConnectionInput::Released);
    client.on(hold(3));
    assert_eq!(client.take(), []);
    client.on(hold(1));
    assert_eq!(client.take(), [Messages(2, 3)]);
    client.on(ConnectionInput::Released);
    client.on(hold(3));
    client.on(hold(3));
    assert_eq!(client.unacked(), 0);
}

#[test]
fn a_client_that_starts_reporting_its_seq_gets_messages_instead_of_gaps() {
    let mut client = PollingClient::new(DeliveryMode::AtMostOnce, 64);
    client.publish(2);
    client.poll(None);
    client.take();
    client.poll(None);
    client.on(LEFT);
    client.poll(Some(0));
    assert_eq!(client.answer(), [Messages(1, 2)]);
}
