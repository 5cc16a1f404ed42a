//! The clients: perfect models of what a client of the wire has to be, with bad habits that the scenario chooses.

mod acting;
mod answer;
mod bayeux;
mod connecting;
mod early;
mod event_stream;
mod frames;
mod page;
mod polling;
mod posting;
mod reading;

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr};

use encke_core::dialect::Beginning;
use rand::RngExt;
use rand::rngs::SmallRng;

use crate::scenario::Scenario;
use crate::schedule::{ClientNumber, ConnectionNumber, PostNumber};
use crate::truth::LOGS;
pub(crate) use bayeux::{Bayeux, Reply as BayeuxReply};
pub(crate) use page::{Following, Page};
pub(crate) use polling::Request;
pub(crate) use posting::Post;

/// A message that a client has of a channel, with its epoch.
type Had = (String, u64);

/// One client.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) rng: SmallRng,
    pub(crate) address: IpAddr,
    /// What it knows of its session, if it has one that it may come back to.
    pub(crate) page: Option<Page>,
    /// It speaks Bayeux, and has nothing of the other dialect.
    pub(crate) bayeux: Option<Box<Bayeux>>,
    /// What it may go back to.
    snapshots: Vec<Page>,
    /// What it had in sessions that are over, by channel.
    past: Vec<Option<Had>>,
    pub(crate) link: Option<Link>,
    /// Its last connection was a poll.
    pub(crate) polls: bool,
    /// The request with commands that has no answer yet.
    posting: Option<PostNumber>,
    /// Counts its plans: an earlier one is not carried out.
    pub(crate) plan: u32,
    /// It has gone for good.
    pub(crate) gone: bool,
}

/// How a client is connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Carrier {
    WebSocket,
    Events,
    Poll,
    /// A `/meta/connect`.
    Connect,
    /// A WebSocket on which Bayeux is spoken.
    BayeuxSocket,
}

/// A client's connection, as the client knows it.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) connection: ConnectionNumber,
    pub(crate) carrier: Carrier,
    /// Read from the kernel, not yet whole.
    incoming: Vec<u8>,
    /// Not yet taken by the kernel.
    pub(crate) outgoing: VecDeque<u8>,
    /// The head of the answer was read, or there is none.
    head_read: bool,
    /// The channel of the URL, of a stream of events or of a poll that opens a session.
    channel: Option<u8>,
    /// The id of the event that was read last, and not looked at yet.
    event_id: Option<String>,
    /// Where it said that it was in that channel.
    offered: Option<String>,
    /// It was told its session.
    pub(crate) greeted: bool,
    /// The last seq here, if it is known where it begins.
    read: Option<u64>,
    asked: Option<Asked>,
    questions: VecDeque<(u64, Question)>,
    next_id: u64,
    /// It reads nothing before this instant.
    pub(crate) paused_until: u64,
    /// It reads so many bytes at a time, and then waits.
    pub(crate) sips: Option<(usize, u64)>,
    /// It does not answer pings.
    pub(crate) is_mute: bool,
    /// It answers pings late.
    pub(crate) is_late: bool,
}

/// What it offered when it connected.
#[derive(Clone, Debug)]
struct Asked {
    session: String,
    seq: Option<u64>,
    /// It claimed what it cannot have.
    is_future: bool,
}

/// A command that has no answer yet.
#[derive(Debug)]
enum Question {
    Subscribe { channel: u8, begin: Beginning<'static> },
    Other,
}

impl Client {
    pub(crate) fn new(number: ClientNumber, scenario: &Scenario) -> Self {
        let mut rng = scenario.rng(1000 + u64::from(number));
        let address = IpAddr::V4(Ipv4Addr::new(127, 0, 0, rng.random_range(1..5)));
        let speaks_bayeux = rng.random_bool(scenario.bayeux);
        let bayeux = speaks_bayeux.then(|| Box::new(Bayeux::new(&mut rng)));
        Self {
            rng,
            address,
            page: None,
            bayeux,
            snapshots: Vec::new(),
            past: vec![None; usize::from(LOGS)],
            link: None,
            polls: speaks_bayeux,
            posting: None,
            plan: 0,
            gone: false,
        }
    }

    /// Where its stream of events is, as an EventSource would say when it comes back.
    fn note_event_id(&mut self) {
        if let (Some(link), Some(page)) = (&mut self.link, &mut self.page)
            && let (Some(channel), Some(id)) = (link.channel, link.event_id.take())
        {
            page.stream = Some((channel, id));
        }
    }

    /// It does not come back to its session. What it had of the channels, it remembers.
    fn forget_session(&mut self) {
        self.snapshots.clear();
        let Some(page) = self.page.take() else { return };
        for (past, following) in self.past.iter_mut().zip(page.channels) {
            if let Following::Yes(place) = following {
                *past = Some((place.epoch, place.up_to));
            }
        }
    }

    /// Whether this is its connection.
    pub(crate) fn is_linked_by(&self, connection: ConnectionNumber) -> bool {
        self.link.as_ref().is_some_and(|link| link.connection == connection)
    }

    /// The session that it may come back to.
    pub(crate) fn session(&self) -> Option<&str> {
        match &self.bayeux {
            Some(bayeux) => bayeux.page.as_ref().map(|page| &*page.session),
            None => self.page.as_ref().map(|page| &*page.session),
        }
    }

    /// Its connection is lost to it.
    pub(crate) fn unlink(&mut self) {
        let carrier = self.link.take().map(|link| link.carrier);
        if let Some(bayeux) = &mut self.bayeux {
            if carrier == Some(Carrier::BayeuxSocket) {
                bayeux.lose_socket();
            } else {
                bayeux.lose_answer();
            }
        }
        // What a client of polls asks for does not come over the connection that it loses.
        let is_poll = carrier == Some(Carrier::Poll);
        if let Some(page) = self.page.as_mut().filter(|_| !is_poll) {
            page.disconnected();
        }
    }
}

impl Link {
    /// Of a client of Bayeux.
    fn of_bayeux(carrier: Carrier, connection: ConnectionNumber, sips: Option<(usize, u64)>) -> Self {
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
            asked: None,
            questions: VecDeque::new(),
            next_id: 1,
            paused_until: 0,
            sips,
            is_mute: false,
            is_late: false,
        }
    }

    pub(crate) fn is_websocket(&self) -> bool {
        matches!(self.carrier, Carrier::WebSocket | Carrier::BayeuxSocket)
    }

    pub(crate) fn is_poll(&self) -> bool {
        matches!(self.carrier, Carrier::Poll | Carrier::Connect)
    }

    /// It has read everything that it has got, and reads as it comes.
    pub(crate) fn is_attentive(&self, now: u64) -> bool {
        self.greeted && self.incoming.is_empty() && self.paused_until <= now && self.sips.is_none()
    }
}
