//! How a subscriber counts what it receives.

use std::ops::ControlFlow;

use super::Subscribers;
use crate::client::Received;
use crate::client::{Connection, Event, Greeting};
use crate::scenario::channel::round::Round;
use crate::scenario::channel::schedule::Recognized;
use crate::scenario::channel::subscriber::Subscriber;
use crate::transport::websocket::End;

impl Subscribers {
    /// Returns when the server has ended the connection. May be dropped and called again.
    pub(crate) async fn listen(
        &self,
        round: &Round,
        connection: &mut Connection,
        subscriber: &mut Subscriber,
    ) -> End {
        loop {
            let listened = connection.each(|event| {
                match event {
                    Event::Ping(_) | Event::Held(_) => self.answering.pings.increment(),
                    Event::Text(text) => self.receive(round, text, subscriber),
                    Event::Id(_) => subscriber.ticket.note(event),
                    Event::Pong(_) => {}
                }
                let is_ack_due = self.options.ack_every > 0 && subscriber.unacked >= self.options.ack_every;
                if is_ack_due { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            });
            if let Err(end) = listened.await {
                return end;
            }
            subscriber.unacked = 0;
            connection.send(&format!(r#"{{"ack":{{"seq":{}}}}}"#, subscriber.ticket.seq)).await;
        }
    }

    pub(crate) fn receive(&self, round: &Round, text: &str, subscriber: &mut Subscriber) {
        let (seq, follows) = match self.reader.read(text) {
            Received::Message { seq, data, .. } => {
                if subscriber.counts {
                    self.take(round, data, subscriber);
                }
                (seq, subscriber.numbering.message(seq))
            }
            Received::Gap { seq, messages } => {
                if subscriber.counts {
                    self.tally.gap(messages);
                }
                (seq, subscriber.numbering.gap(seq))
            }
            Received::Unnumbered { data } => {
                if subscriber.counts {
                    self.take(round, data, subscriber);
                }
                return;
            }
            Received::Missed { messages } => {
                if subscriber.counts {
                    self.tally.gap(messages);
                }
                return;
            }
            // A message or a gap: apply the rule that holds for both.
            Received::Elsewhere { seq } => (seq, subscriber.numbering.gap(seq)),
            Received::Goaway { retry } => {
                subscriber.retry = Some(retry);
                return;
            }
            Received::Reply(_) | Received::Other => return,
        };
        if !follows {
            self.tally.misnumbered();
        }
        subscriber.ticket.seq = seq;
        subscriber.unacked += 1;
    }

    fn take(&self, round: &Round, data: &str, subscriber: &mut Subscriber) {
        let Some(schedule) = round.schedule.get() else { return self.tally.foreign() };
        match schedule.recognize(data) {
            Recognized::Ours(number) => {
                self.tally.message(round, schedule, number, subscriber.ledger.take(number));
            }
            Recognized::Corrupted => self.tally.corrupted(),
            Recognized::Foreign => self.tally.foreign(),
        }
    }

    /// The hello of a resumed session must have the seq with which the client resumed.
    pub(crate) fn check_greeting(&self, subscriber: &Subscriber, greeting: &Greeting) {
        if greeting.ticket.seq != subscriber.ticket.seq {
            self.tally.misnumbered();
        }
    }
}
