//! Simulated clients. They behave correctly, apart from the faults chosen by the scenario, and check
//! everything they receive.

mod actions;
mod bayeux;
mod connecting;
mod event_id;
mod frames;
mod http_answer;
mod known_messages;
mod link;
mod polling;
mod posts;
mod reading;
mod received;
mod roaming;
mod session_model;

use std::net::{IpAddr, Ipv4Addr};

use rand::RngExt;

use crate::scenario::Scenario;
use crate::schedule::{ClientNumber, ConnectionNumber, PostNumber};
use crate::truth::LOGS;
pub(crate) use bayeux::{Bayeux, BayeuxReply};
pub(crate) use link::{Carrier, ClientLink};
pub(crate) use polling::SessionRequest;
pub(crate) use posts::Post;
pub(crate) use session_model::{ChannelSubscription, SessionModel};

/// Maximum number of states to which a client may go back.
const MAX_SNAPSHOTS: usize = 4;

#[derive(Debug)]
pub(crate) struct SimClient {
    pub(crate) address: IpAddr,
    /// State of the session that the client may resume, if any.
    pub(crate) model: Option<SessionModel>,
    /// State of a Bayeux client. Such a client does not use the fields for the JSON dialect.
    pub(crate) bayeux: Option<Box<Bayeux>>,
    /// Earlier states to which the client may go back.
    snapshots: Vec<SessionModel>,
    /// Epoch and offset of the last message received from each channel in former sessions.
    past: Vec<Option<(String, u64)>>,
    /// Channels in the URL of an event stream on another server, and the id of its last event.
    roaming_stream: Option<(Vec<usize>, String)>,
    pub(crate) link: Option<ClientLink>,
    /// Connection whose request arrived last.
    pub(crate) last_arrived: Option<ConnectionNumber>,
    /// Whether the latest connection was a poll.
    pub(crate) polls: bool,
    /// Request with commands that has not been answered.
    posting: Option<PostNumber>,
    /// Number of the latest plan; earlier plans are void.
    plan: u32,
}

impl SimClient {
    pub(crate) fn new(number: ClientNumber, scenario: &Scenario) -> Self {
        let mut rng = scenario.rng(1000 + number as u64);
        let speaks_bayeux = rng.random_bool(scenario.bayeux);
        Self {
            address: IpAddr::V4(Ipv4Addr::new(127, 0, 0, rng.random_range(1..5))),
            model: None,
            bayeux: speaks_bayeux.then(|| Box::new(Bayeux::new(&mut rng))),
            snapshots: Vec::new(),
            past: vec![None; LOGS],
            roaming_stream: None,
            link: None,
            last_arrived: None,
            polls: speaks_bayeux,
            posting: None,
            plan: 0,
        }
    }

    /// Records the position of the event stream, which an EventSource would send when it reconnects.
    fn note_event_id(&mut self) {
        if let (Some(link), Some(model)) = (&mut self.link, &mut self.model)
            && let Some(id) = link.event_id.take()
        {
            model.stream = Some((link.logs.clone(), id));
        }
    }

    /// Abandons the session, but remembers the client's positions in the channels.
    fn forget_session(&mut self) {
        if let Some(bayeux) = &mut self.bayeux {
            return bayeux.forget_session();
        }
        self.snapshots.clear();
        let Some(model) = self.model.take() else { return };
        for (past, subscription) in self.past.iter_mut().zip(model.channels) {
            if let ChannelSubscription::Active(place) = subscription {
                *past = Some((place.epoch, place.up_to));
            }
        }
    }

    pub(crate) fn is_linked_by(&self, connection: ConnectionNumber) -> bool {
        self.link.as_ref().is_some_and(|link| link.connection == connection)
    }

    /// Returns whether the client sends commands on its connection, rather than in separate requests.
    fn speaks_over_link(&self) -> bool {
        self.link.as_ref().is_some_and(ClientLink::is_websocket)
    }

    /// Returns the id of the session that the client may resume.
    pub(crate) fn session(&self) -> Option<&str> {
        match &self.bayeux {
            Some(bayeux) => bayeux.model.as_ref().map(|model| &*model.session),
            None => self.model.as_ref().map(|model| &*model.session),
        }
    }

    pub(crate) fn unlink(&mut self) {
        let carrier = self.link.take().map(|link| link.carrier);
        match (&mut self.bayeux, &mut self.model) {
            (Some(bayeux), _) if carrier == Some(Carrier::BayeuxSocket) => bayeux.lose_socket(),
            (Some(bayeux), _) => bayeux.lose_answer(),
            // A polling client receives replies in separate responses, so the loss of a poll does not affect
            // pending commands.
            (None, Some(model)) if carrier != Some(Carrier::Poll) => model.disconnected(),
            _ => {}
        }
    }

    /// Records that commands of a session were lost, so that they may or may not have been executed.
    fn commands_lost(&mut self, session: &str) {
        if let Some(bayeux) = &mut self.bayeux {
            bayeux.commands_lost(session);
        } else if let Some(model) = self.model.as_mut().filter(|model| model.session == session) {
            model.disconnected();
        }
    }
}
