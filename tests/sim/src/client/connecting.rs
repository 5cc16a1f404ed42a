//! Connection setup, resumption and loss, from the client's side.

use rand::RngExt;

use super::{Carrier, ClientLink, ResumeOffer};
use crate::fault::Fault;
use crate::scenario::SECOND;
use crate::schedule::{Action, ClientNumber};
use crate::truth::channel_name;
use crate::world::Simulation;

impl Simulation {
    /// Connects a client, and abandons its older connection.
    pub(crate) fn connect(&mut self, number: ClientNumber) {
        if self.clients[number as usize].bayeux.is_some() {
            return self.continue_with_bayeux(number);
        }
        let faults = self.faults_now();
        let is_busy = self.is_busy();
        let client = &mut self.clients[number as usize];
        // Without faults, a polling client keeps polling with its session.
        let is_steady = client.polls && !is_busy;
        client.unlink();
        let carrier = match client.rng.random_range(0..20) {
            _ if is_steady => Carrier::Poll,
            0..18 if client.polls => Carrier::Poll,
            0..12 => Carrier::WebSocket,
            12..16 => Carrier::Events,
            _ => Carrier::Poll,
        };
        client.polls = carrier == Carrier::Poll;
        let mut offer = None;
        if client.model.is_some() && (client.rng.random_bool(0.95) || is_steady) {
            offer = Some(Self::offer(client, faults, &mut self.fault_counts, carrier));
        } else {
            client.forget_session();
        }
        let resume = client.model.as_ref().map(|model| model.resume.clone());
        let ignores_pings = faults.allows(Fault::LostPong) && client.rng.random_bool(0.1);
        let is_late = faults.allows(Fault::LatePong) && client.rng.random_bool(0.3);
        let read_chunks = (faults.allows(Fault::SlowReader) && client.rng.random_bool(0.1))
            .then(|| (client.rng.random_range(1..200), client.rng.random_range(1..5_000_000_000)));
        if ignores_pings {
            self.fault_counts.count(Fault::LostPong);
        }
        let message_heartbeat = client.rng.random_bool(0.3);
        let address = client.address;
        let connection = self.new_connection(number);
        let seq = offer.as_ref().and_then(|offer| offer.seq);
        let client = &mut self.clients[number as usize];
        client.link = Some(ClientLink {
            connection,
            carrier,
            incoming: Vec::new(),
            outgoing: std::collections::VecDeque::new(),
            head_read: carrier != Carrier::Events,
            channel: None,
            event_id: None,
            offered: None,
            greeted: false,
            read: if carrier == Carrier::Poll { seq } else { Some(0) },
            offer,
            pending_commands: std::collections::VecDeque::new(),
            next_id: 1,
            paused_until: 0,
            read_chunks,
            ignores_pings,
            is_late,
        });
        self.trace.log(self.now, format_args!("client {number} connects ({connection}) with {seq:?}"));
        if carrier == Carrier::Poll {
            self.request_poll(number, resume, seq);
        } else if carrier == Carrier::WebSocket {
            let mut query = String::new();
            if message_heartbeat {
                query.push_str("heartbeat=message&");
            }
            if let Some(resume) = resume {
                query.push_str(&format!("resume={resume}&"));
            }
            if let Some(seq) = seq {
                query.push_str(&format!("seq={seq}"));
            }
            self.serve_websocket(connection, address, &query);
        } else {
            self.request_events(number, address, resume, seq);
        }
    }

    /// Chooses the session and the seq that the client sends to resume.
    fn offer(
        client: &mut super::SimClient,
        faults: crate::fault::Faults,
        counts: &mut crate::fault::FaultCounts,
        carrier: Carrier,
    ) -> ResumeOffer {
        let mut is_future = false;
        if faults.allows(Fault::OldSeq) && !client.snapshots.is_empty() && client.rng.random_bool(0.3) {
            let at = client.rng.random_range(0..client.snapshots.len());
            client.snapshots.truncate(at + 1);
            client.model = client.snapshots.last().cloned();
            if let Some(model) = &mut client.model {
                model.gaps_allowed = true;
                model.has_gone_back = true;
                model.must_tell_seq = true;
            }
            counts.count(Fault::OldSeq);
        }
        let model = client.model.as_mut().expect("it resumes a session");
        // An event stream cannot acknowledge messages, so its ring wraps.
        model.gaps_allowed |= carrier == Carrier::Events;
        let mut seq = Some(model.highest);
        if faults.allows(Fault::NoSeq) && !model.must_tell_seq && client.rng.random_bool(0.2) {
            seq = None;
            counts.count(Fault::NoSeq);
        } else if faults.allows(Fault::FutureSeq) && client.rng.random_bool(0.05) {
            seq = Some(model.highest + 100_000);
            is_future = true;
            counts.count(Fault::FutureSeq);
        }
        ResumeOffer { session: model.session.clone(), seq, is_future }
    }

    fn request_events(
        &mut self,
        number: ClientNumber,
        address: std::net::IpAddr,
        resume: Option<String>,
        seq: Option<u64>,
    ) {
        let client = &mut self.clients[number as usize];
        let link = client.link.as_mut().expect("just connected");
        let connection = link.connection;
        let mut last_event_id = resume.as_ref().zip(seq).map(|(resume, seq)| format!("{resume}:{seq}"));
        let mut channel = self.scenario.any_log(&mut client.rng);
        // Imitate an EventSource: use the URL of the first connection and the last event id, if the client is
        // still at the position at which its last stream ended.
        if let (Some((url, id)), Some(old)) =
            (client.model.as_ref().and_then(|model| model.stream.clone()), &last_event_id)
            && let Some(position) = id.strip_prefix(&format!("{old};"))
        {
            link.offered = Some(position.to_owned());
            channel = url;
            last_event_id = Some(id);
        }
        let target = match (&resume, seq) {
            (Some(resume), None) => format!("/events?resume={resume}"),
            _ => format!("/events?channels={}", channel_name(channel)),
        };
        link.channel = Some(channel);
        let wire = self.connection(connection).expect("a new connection").wire.clone();
        match self.server.serve_events(wire.server_socket(), address, &target, last_event_id.as_deref()) {
            Ok(task) => self.serve(connection, task),
            Err(refusal) => self.refused(number, refusal.status),
        }
    }

    /// Handles the refusal of a stream or poll.
    pub(super) fn refused(&mut self, number: ClientNumber, status: u16) {
        self.trace.log(self.now, format_args!("client {number} is refused: {status}"));
        let client = &mut self.clients[number as usize];
        let offer = client.link.as_mut().and_then(|link| link.offer.take());
        match (status, offer) {
            // The server is overloaded or draining. The client will reconnect with its state.
            (200, _) => {}
            (410, Some(offer)) => {
                self.check_session_may_be_lost(&offer.session, offer.is_future);
                self.clients[number as usize].forget_session();
            }
            (400 | 403, _) => client.forget_session(),
            (status, offer) => {
                self.violate("replies", format!("status {status} for {offer:?}"));
            }
        }
        self.lose_link(number);
        self.plan_to_connect(number);
    }

    /// Closes the client's socket, if it has one.
    pub(crate) fn lose_link(&mut self, number: ClientNumber) {
        let client = &mut self.clients[number as usize];
        let Some(link) = &client.link else { return };
        let connection = link.connection;
        client.unlink();
        if let Some(connection) = self.connection(connection) {
            connection.wire.lock().client_closes();
        }
        self.consider(connection);
    }

    /// Plans the next connection attempt, which may be too late to resume the session.
    pub(crate) fn plan_to_connect(&mut self, number: ClientNumber) {
        let window = crate::scenario::nanos(self.scenario.config.session.reconnect_window);
        let client = &mut self.clients[number as usize];
        let longest = if client.rng.random_bool(0.8) { window / 2 } else { window * 2 };
        let wait = client.rng.random_range(0..longest.max(2));
        // Without faults, clients reconnect soon.
        self.plan_to_act(number, if self.is_busy() { wait } else { wait.min(SECOND) });
    }

    pub(crate) fn plan_to_act(&mut self, number: ClientNumber, wait: u64) {
        let client = &mut self.clients[number as usize];
        client.plan += 1;
        let plan = client.plan;
        self.schedule.plan(self.now + wait, Action::Act(number, plan));
    }
}
