//! Subscribers of a channel, and the messages they receive.

use std::ops::ControlFlow;
use std::rc::Rc;
use std::time::Duration;

use encke_client::{
    ChannelReader, ClientConnection, ClientEvent, ClientFailure, ConnectionEnd, Received, Ticket, kind_of_end,
};
use tokio::time::{sleep, timeout};

use super::CHECK_INTERVAL;
use super::ledger::Ledger;
use super::numbering::Numbering;
use super::round::PublishRound;
use super::schedule::Recognized;
use super::tally::Tally;
use crate::args::ChannelLoad;
use crate::record::{Counter, Metrics};
use crate::scenario::answering::Answering;
use crate::scenario::connects::Connects;
use crate::scenario::{ConnectSchedule, OpenedConnection, Setup, open_all};

/// The subscribers of a channel. Clones share all counters.
#[derive(Clone, Debug)]
pub(crate) struct SubscriberGroup {
    pub(crate) options: ChannelLoad,
    pub(super) channel: String,
    pub(super) reader: Rc<ChannelReader>,
    connects: Rc<Connects>,
    pub(crate) subscribed: Counter,
    /// Number of messages that the server confirmed to the publisher.
    pub(crate) published: Counter,
    tally: Rc<Tally>,
    pub(crate) answering: Rc<Answering>,
}

/// A subscriber, over all its connections.
#[derive(Debug)]
pub(crate) struct Subscriber {
    pub(crate) ticket: Ticket,
    numbering: Numbering,
    ledger: Ledger,
    unacked: u32,
    /// How long to wait before reconnecting, as last advised by the server.
    pub(crate) retry: Option<Duration>,
}

impl Subscriber {
    pub(crate) fn new(ticket: Ticket) -> Self {
        let numbering = Numbering::after(ticket.seq);
        Self { ticket, numbering, ledger: Ledger::default(), unacked: 0, retry: None }
    }
}

impl SubscriberGroup {
    pub(crate) fn new(options: ChannelLoad, metrics: &Metrics) -> Self {
        let channel = options.channel();
        Self {
            reader: Rc::new(ChannelReader::new(options.server.target, &channel)),
            options,
            channel,
            connects: Rc::new(Connects::new(metrics)),
            subscribed: metrics.counter("subscribed"),
            published: metrics.counter("published"),
            tally: Rc::new(Tally::new(metrics)),
            answering: Answering::new(metrics),
        }
    }

    /// Creates the subscribers of another channel. They share all counters with this group.
    pub(crate) fn in_another_channel(&self, channel: String) -> Self {
        let reader = Rc::new(ChannelReader::new(self.options.server.target, &channel));
        Self { channel, reader, ..self.clone() }
    }

    /// Returns a number that changes with everything that arrives and every confirmed message.
    pub(crate) fn progress(&self) -> u64 {
        self.tally.arrivals() + self.published.get()
    }

    /// Begins a round, whose schedule is set and whose subscribers are known.
    pub(crate) fn begin(&self, round: &PublishRound) {
        self.tally.expected.add(round.expected());
    }

    /// Adds the times of a round that is over.
    pub(crate) fn end(&self, round: &PublishRound) {
        self.tally.end(round);
    }

    /// Connects all clients, and waits until every subscription that `on_open` starts has been answered.
    pub(crate) async fn connect_all(
        &self,
        setup: &Rc<Setup>,
        round: &Rc<PublishRound>,
        mut on_open: impl FnMut(OpenedConnection),
    ) {
        let pace = ConnectSchedule::from_now(&setup.load);
        setup.enter_phase("subscribe");
        open_all(setup, pace.attempts(&setup.load), |opened| {
            round.connected.increment();
            self.connects.record(&opened);
            on_open(opened);
        })
        .await;
        while round.settled.get() < round.connected.get() {
            sleep(CHECK_INTERVAL).await;
        }
    }

    /// Subscribes a connection that has just been opened. A failure is recorded.
    pub(crate) async fn join(
        &self,
        setup: &Setup,
        round: &PublishRound,
        connection: &mut ClientConnection,
    ) -> bool {
        let subscribed = self.subscribe(connection, setup).await;
        if subscribed {
            self.subscribed.increment();
            round.subscribed.increment();
        }
        round.settled.increment();
        subscribed
    }

    /// Subscribes, and returns whether it succeeded. A failure is recorded.
    async fn subscribe(&self, connection: &mut ClientConnection, setup: &Setup) -> bool {
        connection.subscribe(&self.channel).await;
        let reply = connection.each(|event| {
            let ClientEvent::Text(text) = event else { return ControlFlow::Continue(()) };
            let Received::Reply(error) = self.reader.read(text) else { return ControlFlow::Continue(()) };
            ControlFlow::Break(error.map_or(Ok(()), |code| Err(code.into_owned())))
        });
        let reply = async { reply.await.unwrap_or_else(|end| Err(kind_of_end(end))) };
        let result = timeout(setup.load.server.connect_timeout, reply).await;
        let result = result.unwrap_or_else(|_| Err("timeout".to_owned()));
        result.map_err(|code| setup.failures.record(&ClientFailure::Subscribe(code))).is_ok()
    }

    /// Prepares the connection of a subscriber that has reconnected: checks the hello of a resumed session, or
    /// subscribes in the new session. `None` if subscribing fails.
    pub(crate) async fn rejoin(
        &self,
        subscriber: &mut Subscriber,
        opened: OpenedConnection,
        setup: &Setup,
    ) -> Option<ClientConnection> {
        let OpenedConnection { mut connection, greeting, .. } = opened;
        if greeting.recovered {
            // The seq must be the one from which the client resumed.
            if greeting.ticket.seq != subscriber.ticket.seq {
                self.tally.misnumbered.increment();
            }
            return Some(connection);
        }
        subscriber.numbering = Numbering::after(greeting.ticket.seq);
        subscriber.ticket = greeting.ticket;
        self.subscribe(&mut connection, setup).await.then_some(connection)
    }

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
                    ClientEvent::Text(text) => self.receive(round, text, subscriber),
                    ClientEvent::Id(_) => subscriber.ticket.note(event),
                    ClientEvent::Ping(_) | ClientEvent::EmptyPoll(_) | ClientEvent::Pong(_) => {}
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

    fn receive(&self, round: &PublishRound, text: &str, subscriber: &mut Subscriber) {
        let received = self.reader.read(text);
        match received {
            Received::Message { data, .. } => self.take(round, data, subscriber),
            Received::Gap { messages, .. } => self.tally.gap(messages),
            Received::Goaway { retry } => subscriber.retry = Some(retry),
            Received::OtherChannel { .. } | Received::Reply(_) | Received::Other => {}
        }
        let (seq, follows) = match received {
            Received::Message { seq: Some(seq), .. } => (seq, subscriber.numbering.message(seq)),
            // The object of another channel may be a message or a gap, so apply the rule that holds for both.
            Received::Gap { seq: Some(seq), .. } | Received::OtherChannel { seq } => {
                (seq, subscriber.numbering.gap(seq))
            }
            _ => return,
        };
        if !follows {
            self.tally.misnumbered.increment();
        }
        subscriber.ticket.seq = seq;
        subscriber.unacked += 1;
    }

    fn take(&self, round: &PublishRound, data: &str, subscriber: &mut Subscriber) {
        let Some(schedule) = round.schedule.get() else { return self.tally.foreign.increment() };
        match schedule.recognize(data) {
            Recognized::Ours(number) => {
                self.tally.message(round, schedule, number, subscriber.ledger.take(number));
            }
            Recognized::Corrupted => self.tally.corrupted.increment(),
            Recognized::Foreign => self.tally.foreign.increment(),
        }
    }
}
