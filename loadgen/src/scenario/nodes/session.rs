//! State of a session over all its connections, and what it receives.

use std::ops::ControlFlow;
use std::rc::Rc;
use std::time::Duration;

use encke_client::{ClientEvent, Ticket};
use encke_core::dialect::json::{ChannelMessage, Gap, ServerMessage};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::channel::NodesChannel;
use super::fault_log::{FaultLog, SessionEvent, SessionTrail};
use super::ledger::{MessageArrival, SubscriptionLedger};
use super::tally::NodesTally;
use crate::scenario::channel::{Numbering, Recognized};

#[derive(Debug)]
pub(super) struct NodeSession {
    pub(super) ticket: Ticket,
    /// Index of the node to which the session is or was connected.
    pub(super) node: usize,
    pub(super) numbering: Numbering,
    pub(super) subscriptions: Vec<NodeSubscription>,
    pub(super) trail: SessionTrail,
    /// How long to wait before reconnecting, as last advised by the server.
    pub(super) retry: Option<Duration>,
    pub(super) last_data: Instant,
    pub(super) unacked: u32,
    /// Whether the server has asked for positions.
    pub(super) reports_positions: bool,
}

#[derive(Debug)]
pub(super) struct NodeSubscription {
    pub(super) channel: Rc<NodesChannel>,
    /// Index of the channel.
    pub(super) index: usize,
    pub(super) state: SubscriptionState,
    /// Epoch and offset of the last message or gap. `None` before the first reply.
    position: Option<(Box<str>, u64)>,
    pub(super) ledger: SubscriptionLedger,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SubscriptionState {
    /// The session has no such subscription, or is waiting for the reply.
    Pending,
    Active,
    /// The command failed with this error code.
    Failed(String),
}

impl NodeSubscription {
    pub(super) fn new(channel: Rc<NodesChannel>, index: usize) -> Self {
        let (state, ledger) = (SubscriptionState::Pending, SubscriptionLedger::default());
        Self { channel, index, state, position: None, ledger }
    }

    /// Returns the command that subscribes from the last position.
    pub(super) fn command(&self, id: usize) -> String {
        let mut body = json!({ "channel": self.channel.name });
        if let Some((epoch, offset)) = &self.position {
            body["since"] = json!({ "epoch": epoch, "offset": offset });
        }
        json!({ "id": id, "subscribe": body }).to_string()
    }
}

/// Where the faults of all sessions are recorded.
#[derive(Debug)]
pub(super) struct Verdicts {
    pub(super) tally: Rc<NodesTally>,
    pub(super) log: FaultLog,
}

impl NodeSession {
    pub(super) fn new(ticket: Ticket, node: usize, subscriptions: Vec<NodeSubscription>) -> Self {
        let numbering = Numbering::after(ticket.seq);
        let (trail, last_data) = (SessionTrail::default(), Instant::now());
        Self {
            ticket,
            node,
            numbering,
            subscriptions,
            trail,
            retry: None,
            last_data,
            unacked: 0,
            reports_positions: false,
        }
    }

    /// Returns the commands that subscribe to the channels to which the session is not subscribed.
    pub(super) fn subscribe_commands(&mut self) -> Vec<String> {
        let missing = self.subscriptions.iter_mut().enumerate();
        let missing = missing.filter(|(_, it)| it.state != SubscriptionState::Active);
        let command = |(id, it): (usize, &mut NodeSubscription)| {
            it.state = SubscriptionState::Pending;
            it.command(id)
        };
        missing.map(command).collect()
    }

    pub(super) fn is_subscribed(&self) -> bool {
        self.subscriptions.iter().all(|it| it.state == SubscriptionState::Active)
    }

    /// Returns the error codes of the subscriptions that failed.
    pub(super) fn subscribe_errors(&self) -> impl Iterator<Item = &str> {
        self.subscriptions.iter().filter_map(|it| match &it.state {
            SubscriptionState::Failed(code) => Some(code.as_str()),
            _ => None,
        })
    }

    /// Returns the ticket to resume with, including the positions if the server asks for them.
    pub(super) fn resume_ticket(&self) -> Ticket {
        let known =
            self.subscriptions.iter().filter_map(|it| Some((&it.channel.name, it.position.as_ref()?)));
        let positions: serde_json::Map<String, Value> =
            known.map(|(name, (epoch, offset))| (name.to_string(), json!([epoch, offset]))).collect();
        let frame = json!({ "positions": positions }).to_string();
        Ticket { positions: self.reports_positions.then_some(frame.into()), ..self.ticket.clone() }
    }

    /// Returns the command that acknowledges everything received.
    pub(super) fn ack(&mut self) -> String {
        self.unacked = 0;
        json!({ "ack": { "seq": self.ticket.seq } }).to_string()
    }

    /// Returns whether the replies to all `subscribe` commands have arrived.
    pub(super) fn is_settled(&self) -> bool {
        self.subscriptions.iter().all(|it| it.state != SubscriptionState::Pending)
    }

    /// Continues with a new session, which has no subscriptions.
    pub(super) fn replace(&mut self, ticket: Ticket) {
        self.numbering = Numbering::after(ticket.seq);
        self.ticket = ticket;
        self.subscriptions.iter_mut().for_each(|it| it.state = SubscriptionState::Pending);
    }

    pub(super) fn receive(&mut self, event: ClientEvent<'_>, verdicts: &Verdicts) -> ControlFlow<()> {
        self.last_data = Instant::now();
        let ClientEvent::Text(text) = event else { return ControlFlow::Continue(()) };
        match serde_json::from_str(text) {
            Ok(ServerMessage::Message(message)) => self.message(&message, verdicts),
            Ok(ServerMessage::Gap(gap)) => self.gap(&gap, verdicts),
            Ok(ServerMessage::Goaway(goaway)) => self.retry = Some(Duration::from_millis(goaway.retry_ms)),
            Ok(ServerMessage::Reply(_)) => {
                self.reply(&serde_json::from_str(text).unwrap_or_default());
                return ControlFlow::Break(());
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn reply(&mut self, reply: &Value) {
        let reply = &reply["reply"];
        let index = reply["id"].as_u64().and_then(|id| usize::try_from(id).ok());
        let Some(subscription) = index.and_then(|index| self.subscriptions.get_mut(index)) else { return };
        if let Some(code) = reply["error"]["code"].as_str() {
            subscription.state = SubscriptionState::Failed(code.to_owned());
            return;
        }
        subscription.state = SubscriptionState::Active;
        let (epoch, offset) = (reply["ok"]["epoch"].as_str(), reply["ok"]["offset"].as_u64());
        self.trail.push(SessionEvent::Subscribed {
            channel: subscription.index,
            offset: offset.unwrap_or_default(),
        });
        // With `since`, the messages from there on follow, so the position remains the same.
        if subscription.position.is_none() {
            subscription.position = epoch.map(Into::into).zip(offset);
        }
    }

    fn message(&mut self, message: &ChannelMessage<'_>, verdicts: &Verdicts) {
        let follows = self.numbering.message(message.seq);
        self.note_seq(message.seq);
        let Some(subscription) = self.subscriptions.iter_mut().find(|it| it.channel.name == message.channel)
        else {
            return verdicts.tally.foreign.increment();
        };
        let channel = subscription.channel.clone();
        let data = message.data.map_or("", |data| data.get());
        let number = match channel.schedule.get().map(|schedule| schedule.recognize(data)) {
            Some(Recognized::Ours(number)) => Some(number),
            _ => None,
        };
        let (seq, offset) = (message.seq, message.offset);
        self.trail.push(SessionEvent::Message { seq, channel: subscription.index, offset, number });
        if let Some((epoch, position)) = &mut subscription.position {
            if let Some(new) = message.epoch.as_deref().filter(|new| *new != &**epoch) {
                *epoch = new.into();
            }
            *position = message.offset;
        }
        let Some(number) = number else { return verdicts.tally.foreign.increment() };
        let details = json!({ "seq": seq, "offset": offset, "number": number });
        let report = |fault: &str| {
            verdicts.log.write(fault, &self.ticket.token, &channel.name, &details, &self.trail);
        };
        if !follows {
            verdicts.tally.misnumbered.increment();
            report("misnumbered");
        }
        if !channel.note_offset(number, offset) {
            verdicts.tally.doubled.increment();
            report("doubled");
        }
        match subscription.ledger.take(number) {
            MessageArrival::InOrder => verdicts.tally.received.increment(),
            MessageArrival::Early(missing) => {
                verdicts.tally.received.increment();
                if subscription.ledger.lost(missing, &channel).next().is_some() {
                    report("skipped");
                }
            }
            MessageArrival::Misordered => {
                verdicts.tally.received.increment();
                verdicts.tally.misordered.increment();
                report("misordered");
            }
            MessageArrival::Duplicated => {
                verdicts.tally.duplicated.increment();
                report("duplicated");
            }
            MessageArrival::Repeated => verdicts.tally.repeated.increment(),
        }
    }

    fn gap(&mut self, gap: &Gap<'_>, verdicts: &Verdicts) {
        let offsets = gap.from.zip(gap.to);
        verdicts.tally.gap(offsets);
        let follows = self.numbering.gap(gap.seq);
        self.note_seq(gap.seq);
        let subscription = self.subscriptions.iter_mut().find(|it| it.channel.name == gap.channel);
        if let Some(subscription) = subscription {
            subscription.position = Some((gap.epoch.as_ref().into(), gap.to.unwrap_or_default()));
            subscription.ledger.gap(offsets);
            self.trail.push(SessionEvent::Gap { seq: gap.seq, channel: subscription.index, offsets });
        }
        if !follows {
            verdicts.tally.misnumbered.increment();
            let details = json!({ "seq": gap.seq, "from": gap.from, "to": gap.to });
            verdicts.log.write("misnumbered", &self.ticket.token, &gap.channel, &details, &self.trail);
        }
    }

    fn note_seq(&mut self, seq: u64) {
        self.ticket.seq = seq;
        self.unacked += 1;
    }
}
