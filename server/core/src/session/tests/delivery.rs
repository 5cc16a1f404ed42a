//! What polls, and requests that a stream holds, get again, and what they are told is missing. One channel; its messages have the
//! offsets 1 to `last`.

use super::*;
use crate::session::outbox::{Bounds, Run, Slot};

struct Client {
    table: Table,
    slot: Slot,
    last: u64,
    polls: u64,
    delivery: Delivery,
}

const ANSWERED: ConnectionInput = ConnectionInput::Answered { pause: Duration::ZERO };
const LEFT: ConnectionInput = ConnectionInput::Ended(SuspendReason::ConnectionLost);

impl Client {
    fn new(delivery: Delivery, max_unacked: usize) -> Self {
        let mut session = Driven::open(at(0), &timeouts(), Outbox::new(max_unacked), poll(1, None, delivery));
        let slot = session.outbox_mut().subscribe((), 0, false);
        while session.poll_output().is_some() {}
        let mut client = Self { table: Table { session }, slot, last: 0, polls: 1, delivery };
        client.answer();
        client
    }

    fn publish(&mut self, count: u64) {
        self.last += count;
        self.table.session.outbox_mut().mark_ready(self.slot);
    }

    fn poll(&mut self, seq: Option<u64>) {
        self.polls += 1;
        let attach = poll(self.polls, seq, self.delivery);
        self.table.input(1, Input::Attach(attach));
        assert_eq!(self.table.session.phase(), Phase::Attached(attach.connection));
    }

    fn stream(&mut self, seq: Option<u64>) {
        self.polls += 1;
        let id = ConnectionId(self.polls);
        self.table.input(
            1,
            Input::Attach(Attach { seq, delivery: self.delivery, ..attach(id, Heartbeat::Frame, WHOLE) }),
        );
    }

    fn on(&mut self, input: ConnectionInput) {
        let outputs = self.table.on(1, ConnectionId(self.polls), input);
        assert!(!outputs.iter().any(|it| matches!(it, Output::Close(..))), "{outputs:?}");
    }

    /// All that is to be sent: for messages their seqs, for a gap the offsets that it names.
    fn take(&mut self) -> Vec<Told> {
        let log = Bounds { first: 1, last: self.last };
        let mut told = Vec::new();
        while let Some(turn) = self.table.session.outbox().next_turn() {
            match self.table.session.outbox_mut().take(turn, log, 100, |_| &[]) {
                Run::Messages { seq, count, .. } => told.push(Told::Messages(seq, seq + count as u64 - 1)),
                Run::Gap { seq, range } => told.push(Told::Gap(seq, range.expect("it is known"))),
                Run::CaughtUp => {}
                other => unreachable!("there is one channel, and its client has asked for it: {other:?}"),
            }
            self.table.session.outbox().check_invariants();
        }
        self.on(ConnectionInput::Sent);
        told
    }

    fn answer(&mut self) -> Vec<Told> {
        let told = self.take();
        self.on(ANSWERED);
        assert_eq!(self.table.session.phase(), Phase::BetweenPolls);
        told
    }

    fn unacked(&self) -> usize {
        self.table.session.outbox().unacked()
    }
}

#[derive(Debug, PartialEq)]
enum Told {
    Messages(u64, u64),
    Gap(u64, (u64, u64)),
}

use Told::{Gap, Messages};

fn poll(number: u64, seq: Option<u64>, delivery: Delivery) -> Attach {
    let kind = ConnectionKind::Poll { hold: Duration::from_millis(700) };
    Attach { kind, seq, delivery, ..attach(ConnectionId(number), Heartbeat::Frame, WHOLE) }
}

#[test]
fn the_next_polls_seq_acknowledges() {
    let mut client = Client::new(Delivery::AtLeastOnce, 64);
    client.publish(3);
    client.poll(Some(0));
    assert_eq!(client.answer(), [Messages(1, 3)]);
    client.publish(2);
    client.poll(Some(3));
    assert_eq!(client.answer(), [Messages(4, 5)]);
    client.poll(Some(5));
    assert_eq!(client.unacked(), 2, "what the poll before said is forgotten");
    client.poll(Some(5));
    assert_eq!((client.unacked(), client.answer()), (0, vec![]));
}

#[test]
fn an_answer_that_is_lost_comes_again() {
    let mut client = Client::new(Delivery::AtLeastOnce, 64);
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
fn of_two_polls_that_overlap_the_older_gets_all_after_it_again() {
    let mut client = Client::new(Delivery::AtLeastOnce, 64);
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
fn a_poll_that_is_older_than_the_one_before_the_last_is_told_a_gap() {
    let mut client = Client::new(Delivery::AtLeastOnce, 64);
    client.publish(3);
    client.poll(Some(0));
    client.answer();
    client.poll(Some(3));
    client.poll(Some(3));
    client.poll(Some(1));
    assert_eq!(client.answer(), [Gap(3, (1, 3))]);
    client.poll(None);
    assert_eq!(client.answer(), [Gap(3, (1, 3))], "it has not said that it has it");
    client.poll(Some(3));
    client.poll(None);
    assert_eq!(client.answer(), []);
}

#[test]
fn what_a_poll_acknowledges_makes_room_where_there_is_little() {
    let mut client = Client::new(Delivery::AtLeastOnce, 4);
    client.publish(9);
    client.poll(Some(0));
    assert_eq!(client.answer(), [Messages(1, 4)]);
    client.poll(Some(4));
    assert_eq!(client.answer(), [Messages(5, 8)], "not held while there is something to say");
}

#[test]
fn a_poll_that_claims_the_future_changes_nothing() {
    let mut client = Client::new(Delivery::AtLeastOnce, 64);
    client.publish(1);
    client.poll(Some(0));
    client.answer();
    assert_eq!(client.table.input(1, Input::Attach(poll(9, Some(2), Delivery::AtLeastOnce))), NOTHING);
    assert_eq!(client.table.session.phase(), Phase::BetweenPolls);
}

#[test]
fn a_poll_that_is_given_up_while_held_loses_nothing() {
    for delivery in [Delivery::AtLeastOnce, Delivery::AtMostOnce] {
        let mut client = Client::new(delivery, 64);
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
    let mut client = Client::new(Delivery::AtMostOnce, 64);
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
fn at_most_once_a_connection_that_fails_leaves_a_gap() {
    let mut client = Client::new(Delivery::AtMostOnce, 64);
    client.publish(3);
    client.poll(None);
    client.answer();
    client.publish(2);
    client.poll(None);
    assert_eq!(client.take(), [Messages(4, 5)]);
    client.on(LEFT);
    client.publish(1);
    client.poll(None);
    assert_eq!(client.take(), [Gap(5, (4, 5)), Messages(6, 6)], "nothing twice, and no more than was lost");
    client.on(LEFT);
    client.poll(None);
    assert_eq!(client.answer(), [Gap(6, (4, 6))], "also when the gap itself is lost");
    client.poll(None);
    assert_eq!((client.unacked(), client.answer()), (0, vec![]));
}

#[test]
fn at_most_once_an_answer_that_fails_late_leaves_a_gap() {
    for suspends in [false, true] {
        let mut client = Client::new(Delivery::AtMostOnce, 64);
        client.publish(2);
        client.poll(None);
        client.answer();
        if suspends {
            client.table.wait(400);
        }
        client.on(ConnectionInput::AnswerLost);
        client.poll(None);
        assert_eq!(client.answer(), [Gap(2, (1, 2))]);
    }
}

#[test]
fn at_most_once_a_poll_that_overtakes_an_answer_leaves_a_gap() {
    let mut client = Client::new(Delivery::AtMostOnce, 64);
    client.publish(2);
    client.poll(None);
    client.take();
    client.poll(None);
    assert_eq!(client.answer(), [Gap(2, (1, 2))]);
}

#[test]
fn at_most_once_a_stream_has_what_its_pong_answers_for() {
    let mut client = Client::new(Delivery::AtMostOnce, 64);
    client.stream(None);
    client.publish(2);
    assert_eq!(client.take(), [Messages(1, 2)]);
    client.table.wait(1_001);
    client.on(ConnectionInput::PingSent { seq: 2 });
    client.publish(1);
    assert_eq!(client.take(), [Messages(3, 3)]);
    client.on(ConnectionInput::PongFrame { seq: 2 });
    assert_eq!(client.unacked(), 1);
    client.poll(None);
    assert_eq!(client.answer(), [Gap(3, (3, 3))]);
}

#[test]
fn at_most_once_a_stream_has_what_came_before_the_answer_that_it_goes_on_from() {
    let hold = ConnectionInput::Hold { hold: Duration::from_millis(700), seq: None };
    let mut client = Client::new(Delivery::AtMostOnce, 64);
    client.stream(None);
    client.on(hold);
    client.publish(2);
    assert_eq!(client.take(), [Messages(1, 2)]);
    client.on(ConnectionInput::Released);
    client.publish(1);
    assert_eq!(client.take(), [Messages(3, 3)], "which may be under way when the client asks again");
    client.on(hold);
    assert_eq!(client.unacked(), 1);
    client.on(LEFT);
    client.stream(None);
    assert_eq!(client.take(), [Gap(3, (3, 3))]);
}

#[test]
fn a_stream_whose_client_says_an_older_seq_gets_all_after_it_again() {
    let hold = |seq| ConnectionInput::Hold { hold: Duration::from_millis(700), seq: Some(seq) };
    let mut client = Client::new(Delivery::AtLeastOnce, 64);
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
fn a_client_that_begins_to_say_its_seq_gets_messages_again_instead_of_gaps() {
    let mut client = Client::new(Delivery::AtMostOnce, 64);
    client.publish(2);
    client.poll(None);
    client.take();
    client.poll(None);
    client.on(LEFT);
    client.poll(Some(0));
    assert_eq!(client.answer(), [Messages(1, 2)]);
}
