//! Clients: perfect models of a correct client, with faults that the scenario chooses.

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

/// Epoch and offset of the last message that a client has of a channel.
type LastMessage = (String, u64);

/// A client.
#[derive(Debug)]
pub(crate) struct SimClient {
    pub(crate) rng: SmallRng,
    pub(crate) address: IpAddr,
    /// State of its session, if it has one that it may resume.
    pub(crate) model: Option<SessionModel>,
    /// State of a Bayeux client. Such a client does not use the fields of the JSON dialect.
    pub(crate) bayeux: Option<Box<Bayeux>>,
    /// Earlier states that it may go back to.
    snapshots: Vec<SessionModel>,
    /// Last message of each channel in its former sessions.
    past: Vec<Option<LastMessage>>,
    pub(crate) link: Option<ClientLink>,
    /// Its latest connection was a poll.
    pub(crate) polls: bool,
    /// Its request with commands that has no answer yet.
    posting: Option<PostNumber>,
    /// Number of its latest plan; earlier plans are void.
    pub(crate) plan: u32,
    /// It has left for good.
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

/// A connection, as its client sees it.
#[derive(Debug)]
pub(crate) struct ClientLink {
    pub(crate) connection: ConnectionNumber,
    pub(crate) carrier: Carrier,
    /// Bytes read from the kernel and not parsed yet.
    incoming: Vec<u8>,
    /// Bytes that the kernel has not accepted yet.
    pub(crate) outgoing: VecDeque<u8>,
    /// The head of the response was parsed, or the transport has no head.
    head_read: bool,
    /// Channel in the URL of an event stream, or of a poll that opens a session.
    channel: Option<u8>,
    /// Id of the last event, until it is processed.
    event_id: Option<String>,
    /// Position in that channel that it sent when connecting.
    offered: Option<String>,
    /// It has received its session.
    pub(crate) greeted: bool,
    /// Last seq on this connection, if the start is known.
    read: Option<u64>,
    offer: Option<ResumeOffer>,
    pending_commands: VecDeque<(u64, PendingCommand)>,
    next_id: u64,
    /// It reads nothing before this time.
    pub(crate) paused_until: u64,
    /// It reads this many bytes at a time, and then waits for this many nanoseconds.
    pub(crate) read_chunks: Option<(usize, u64)>,
    /// It does not answer pings.
    pub(crate) ignores_pings: bool,
    /// It answers pings late.
    pub(crate) is_late: bool,
}

/// Session and seq that it sent when connecting.
#[derive(Clone, Debug)]
struct ResumeOffer {
    session: String,
    seq: Option<u64>,
    /// The seq was never sent.
    is_future: bool,
}

/// A command without an answer yet.
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

    /// Records the position of its event stream, which an EventSource would send when it reconnects.
    fn note_event_id(&mut self) {
        if let (Some(link), Some(model)) = (&mut self.link, &mut self.model)
            && let (Some(channel), Some(id)) = (link.channel, link.event_id.take())
        {
            model.stream = Some((channel, id));
        }
    }

    /// Gives up its session, but remembers its positions in the channels.
    fn forget_session(&mut self) {
        self.snapshots.clear();
        let Some(model) = self.model.take() else { return };
        for (past, subscription) in self.past.iter_mut().zip(model.channels) {
            if let ChannelSubscription::Active(place) = subscription {
                *past = Some((place.epoch, place.up_to));
            }
        }
    }

    /// Returns whether this is its current connection.
    pub(crate) fn is_linked_by(&self, connection: ConnectionNumber) -> bool {
        self.link.as_ref().is_some_and(|link| link.connection == connection)
    }

    /// Session that it may resume.
    pub(crate) fn session(&self) -> Option<&str> {
        match &self.bayeux {
            Some(bayeux) => bayeux.model.as_ref().map(|model| &*model.session),
            None => self.model.as_ref().map(|model| &*model.session),
        }
    }

    /// Drops its connection.
    pub(crate) fn unlink(&mut self) {
        let carrier = self.link.take().map(|link| link.carrier);
        if let Some(bayeux) = &mut self.bayeux {
            if carrier == Some(Carrier::BayeuxSocket) {
                bayeux.lose_socket();
            } else {
                bayeux.lose_answer();
            }
        }
        // A polling client receives replies beside the connection, so pending commands are not affected.
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

    /// Returns whether it has processed everything received, and reads without delay.
    pub(crate) fn is_attentive(&self, now: u64) -> bool {
        self.greeted && self.incoming.is_empty() && self.paused_until <= now && self.read_chunks.is_none()
    }
}
