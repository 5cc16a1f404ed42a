//! Simulated clients. They behave correctly, apart from the faults chosen by the scenario, and check
//! everything they receive.

mod actions;
mod bayeux;
mod connecting;
mod early_input;
mod event_stream;
mod frames;
mod poll_answer;
mod polling;
mod posts;
mod reading;
mod session_model;

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr};

use encke_core::dialect::StartPosition;
use rand::RngExt;
use rand::rngs::SmallRng;

use crate::scenario::Scenario;
use crate::schedule::{ClientNumber, ConnectionNumber, PostNumber};
use crate::truth::LOGS;
pub(crate) use bayeux::{Bayeux, BayeuxReply};
pub(crate) use polling::PollRequest;
pub(crate) use posts::Post;
pub(crate) use session_model::{ChannelSubscription, SessionModel};

/// Epoch and offset of the last message that a client has received from a channel.
type LastMessage = (String, u64);

#[derive(Debug)]
pub(crate) struct SimClient {
    pub(crate) rng: SmallRng,
    pub(crate) address: IpAddr,
    /// State of the session that the client may resume, if any.
    pub(crate) model: Option<SessionModel>,
    /// State of a Bayeux client. Such a client does not use the fields for the JSON dialect.
    pub(crate) bayeux: Option<Box<Bayeux>>,
    /// Earlier states to which the client may go back.
    snapshots: Vec<SessionModel>,
    /// Last message received from each channel in former sessions.
    past: Vec<Option<LastMessage>>,
    pub(crate) link: Option<ClientLink>,
    /// Whether the latest connection was a poll.
    pub(crate) polls: bool,
    /// Request with commands that has not been answered.
    posting: Option<PostNumber>,
    /// Number of the latest plan; earlier plans are void.
    pub(crate) plan: u32,
    /// Whether the client has left for good.
    pub(crate) has_left: bool,
}

/// Transport and dialect of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Carrier {
    WebSocket,
    Events,
    Poll,
    /// A request with a `/meta/connect`.
    Connect,
    /// A WebSocket with Bayeux.
    BayeuxSocket,
}

/// A connection, from the client's perspective.
#[derive(Debug)]
pub(crate) struct ClientLink {
    pub(crate) connection: ConnectionNumber,
    pub(crate) carrier: Carrier,
    /// Bytes received and not yet parsed.
    incoming: Vec<u8>,
    /// Bytes that the kernel has not accepted yet.
    pub(crate) outgoing: VecDeque<u8>,
    /// Whether the head of the response was parsed. `true` for transports without a head.
    head_read: bool,
    /// Channel in the URL of an event stream, or of a poll that opens a session.
    channel: Option<u8>,
    /// Id of the last event, until it is processed.
    event_id: Option<String>,
    /// Position in that channel that the client sent when connecting.
    offered: Option<String>,
    /// Whether the server has confirmed the session on this connection.
    pub(crate) greeted: bool,
    /// Last seq received on this connection. `None` before the first one, if the start is unknown.
    read: Option<u64>,
    offer: Option<ResumeOffer>,
    pending_commands: VecDeque<(u64, PendingCommand)>,
    next_id: u64,
    /// Time until which the client reads nothing.
    pub(crate) paused_until: u64,
    /// Number of bytes that the client reads at a time, and nanoseconds that it waits after each read.
    /// `None`: no limit.
    pub(crate) read_chunks: Option<(usize, u64)>,
    /// Whether the client leaves pings unanswered.
    pub(crate) ignores_pings: bool,
    /// Whether the client may answer pings late.
    pub(crate) is_late: bool,
}

/// Session and seq that a client sends to resume.
#[derive(Clone, Debug)]
struct ResumeOffer {
    session: String,
    seq: Option<u64>,
    /// Whether the server has never sent the seq.
    is_future: bool,
}

/// A command that has no reply yet.
#[derive(Debug)]
enum PendingCommand {
    Subscribe { channel: u8, begin: StartPosition<'static> },
    Other,
}

impl SimClient {
    pub(crate) fn new(number: ClientNumber, scenario: &Scenario) -> Self {
        let mut rng = scenario.rng(1000 + u64::from(number));
        let address = IpAddr::V4(Ipv4Addr::new(127, 0, 0, rng.random_range(1..5)));
        let speaks_bayeux = rng.random_bool(scenario.bayeux);
        let bayeux = speaks_bayeux.then(|| Box::new(Bayeux::new(&mut rng)));
        Self {
            rng,
            address,
            model: None,
            bayeux,
            snapshots: Vec::new(),
            past: vec![None; usize::from(LOGS)],
            link: None,
            polls: speaks_bayeux,
            posting: None,
            plan: 0,
            has_left: false,
        }
    }

    /// Records the position of the event stream, which an EventSource would send when it reconnects.
    fn note_event_id(&mut self) {
        if let (Some(link), Some(model)) = (&mut self.link, &mut self.model)
            && let (Some(channel), Some(id)) = (link.channel, link.event_id.take())
        {
            model.stream = Some((channel, id));
        }
    }

    /// Abandons the session, but remembers the client's positions in the channels.
    fn forget_session(&mut self) {
        self.snapshots.clear();
        let Some(model) = self.model.take() else { return };
        for (past, subscription) in self.past.iter_mut().zip(model.channels) {
            if let ChannelSubscription::Active(place) = subscription {
                *past = Some((place.epoch, place.up_to));
            }
        }
    }

    /// Returns whether this is the client's current connection.
    pub(crate) fn is_linked_by(&self, connection: ConnectionNumber) -> bool {
        self.link.as_ref().is_some_and(|link| link.connection == connection)
    }

    /// Returns the id of the session that the client may resume.
    pub(crate) fn session(&self) -> Option<&str> {
        match &self.bayeux {
            Some(bayeux) => bayeux.model.as_ref().map(|model| &*model.session),
            None => self.model.as_ref().map(|model| &*model.session),
        }
    }

    /// Drops the client's connection.
    pub(crate) fn unlink(&mut self) {
        let carrier = self.link.take().map(|link| link.carrier);
        if let Some(bayeux) = &mut self.bayeux {
            if carrier == Some(Carrier::BayeuxSocket) {
                bayeux.lose_socket();
            } else {
                bayeux.lose_answer();
            }
        }
        // A polling client receives replies in separate responses, so the loss of a poll does not affect
        // pending commands.
        let is_poll = carrier == Some(Carrier::Poll);
        if let Some(model) = self.model.as_mut().filter(|_| !is_poll) {
            model.disconnected();
        }
    }
}

impl ClientLink {
    /// Creates a connection of a Bayeux client.
    fn of_bayeux(carrier: Carrier, connection: ConnectionNumber, read_chunks: Option<(usize, u64)>) -> Self {
        Self {
            connection,
            carrier,
            incoming: Vec::new(),
            outgoing: VecDeque::new(),
            head_read: true,
            channel: None,
            event_id: None,
            offered: None,
            greeted: false,
            read: None,
            offer: None,
            pending_commands: VecDeque::new(),
            next_id: 1,
            paused_until: 0,
            read_chunks,
            ignores_pings: false,
            is_late: false,
        }
    }

    pub(crate) fn is_websocket(&self) -> bool {
        matches!(self.carrier, Carrier::WebSocket | Carrier::BayeuxSocket)
    }

    pub(crate) fn is_poll(&self) -> bool {
        matches!(self.carrier, Carrier::Poll | Carrier::Connect)
    }

    /// Returns whether the client has processed everything received, and reads without delay.
    pub(crate) fn is_attentive(&self, now: u64) -> bool {
        self.greeted && self.incoming.is_empty() && self.paused_until <= now && self.read_chunks.is_none()
    }
}
