//! Counts what a subscriber receives.

use std::ops::ControlFlow;

use super::SubscriberGroup;
use crate::client::Received;
use crate::client::{ClientConnection, ClientEvent, Greeting};
use crate::scenario::channel::round::PublishRound;
use crate::scenario::channel::schedule::Recognized;
use crate::scenario::channel::subscriber::Subscriber;
use crate::transport::websocket::ConnectionEnd;

impl SubscriberGroup {
    /// Reads until the server ends the connection. The future can be dropped and the method called again.
    pub(crate) async fn listen(
        &self,
        round: &PublishRound,
        connection: &mut ClientConnection,
        subscriber: &mut Subscriber,
    ) -> ConnectionEnd {
        loop {
            let listened = connection.each(|event| {
                match event {
                    ClientEvent::Ping(_) | ClientEvent::EmptyPoll(_) => self.answering.pings.increment(),
                    ClientEvent::Text(text) => self.receive(round, text, subscriber),
                    ClientEvent::Id(_) => subscriber.ticket.note(event),
                    ClientEvent::Pong(_) => {}
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

    pub(crate) fn receive(&self, round: &PublishRound, text: &str, subscriber: &mut Subscriber) {
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
            Received::UnnumberedMessage { data } => {
                if subscriber.counts {
                    self.take(round, data, subscriber);
                }
                return;
            }
            Received::UnnumberedGap { messages } => {
                if subscriber.counts {
                    self.tally.gap(messages);
                }
                return;
            }
            // The object may be a message or a gap, so apply the rule that holds for both.
            Received::OtherChannel { seq } => (seq, subscriber.numbering.gap(seq)),
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

    fn take(&self, round: &PublishRound, data: &str, subscriber: &mut Subscriber) {
        let Some(schedule) = round.schedule.get() else { return self.tally.foreign() };
        match schedule.recognize(data) {
            Recognized::Ours(number) => {
                self.tally.message(round, schedule, number, subscriber.ledger.take(number));
            }
            Recognized::Corrupted => self.tally.corrupted(),
            Recognized::Foreign => self.tally.foreign(),
        }
    }

    /// Checks the hello of a resumed session: its seq must be the one from which the client resumed.
    pub(crate) fn check_greeting(&self, subscriber: &Subscriber, greeting: &Greeting) {
        if greeting.ticket.seq != subscriber.ticket.seq {
            self.tally.misnumbered();
        }
    }
}
