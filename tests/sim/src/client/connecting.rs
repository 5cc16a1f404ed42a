//! Connection setup, resumption and loss, from the client's side.

use rand::RngExt;

use super::Carrier;
use super::link::ResumeOffer;
use super::polling::SessionRequest;
use crate::fault::Fault;
use crate::scenario::{SECOND, nanos};
use crate::schedule::{Action, ClientNumber, ConnectionNumber};
use crate::truth::name_of;
use crate::world::Simulation;

/// Returns whether an event id with positions belongs to this resume token and seq.
fn is_at(id: &str, session: &str) -> bool {
    id.strip_prefix(session).is_some_and(|rest| rest.starts_with(';'))
}

impl Simulation {
    /// Connects a client, and abandons its older connection.
    pub(crate) fn connect(&mut self, number: ClientNumber) {
        let is_busy = self.is_busy();
        self.clients[number].unlink();
        self.roam(number);
        let client = &mut self.clients[number];
        if client.bayeux.is_some() {
            return self.continue_with_bayeux(number);
        }
        // Without faults, a polling client keeps polling with its session.
        let is_steady = client.polls && !is_busy;
        let websockets = if self.scenario.redis { 8 } else { 12 };
        let carrier = match self.rng.random_range(0..20) {
            _ if is_steady => Carrier::Poll,
            0..10 if client.roaming_stream.is_some() => Carrier::Events,
            0..18 if client.polls => Carrier::Poll,
            number if number < websockets => Carrier::WebSocket,
            0..16 => Carrier::Events,
            _ => Carrier::Poll,
        };
        client.polls = carrier == Carrier::Poll;
        let offer = if client.model.is_some() && (self.rng.random_bool(0.95) || is_steady) {
            Some(self.offer(number, carrier))
        } else {
            client.forget_session();
            None
        };
        let connection = self.open_link(number, carrier);
        let client = &mut self.clients[number];
        let resume = client.model.as_ref().map(|model| model.resume.clone());
        let seq = offer.as_ref().and_then(|offer| offer.seq);
        let link = client.link.as_mut().expect("just connected");
        link.read = if carrier == Carrier::Poll { seq } else { Some(0) };
        link.offer = offer;
        self.trace.log(self.now, format_args!("client {number} connects ({connection}) with {seq:?}"));
        match carrier {
            Carrier::Poll => self.request_poll(number, resume.as_deref(), seq),
            Carrier::WebSocket => self.request_websocket(connection, resume, seq),
            _ => self.request_events(number, resume, seq),
        }
    }

    /// Chooses the session and the seq that the client sends to resume.
    fn offer(&mut self, number: ClientNumber, carrier: Carrier) -> ResumeOffer {
        if !self.clients[number].snapshots.is_empty() && self.injects(Fault::OldSeq, 0.3) {
            let client = &mut self.clients[number];
            let at = self.rng.random_range(0..client.snapshots.len());
            client.snapshots.truncate(at + 1);
            client.model = client.snapshots.last().cloned();
            if let Some(model) = &mut client.model {
                (model.gaps_allowed, model.has_gone_back, model.must_tell_seq) = (true, true, true);
            }
        }
        let model = self.clients[number].model.as_mut().expect("it resumes a session");
        // An event stream cannot acknowledge messages, so its ring wraps.
        model.gaps_allowed |= carrier == Carrier::Events || model.stream.is_some();
        let (session, highest, must_tell_seq) = (model.session.clone(), model.highest, model.must_tell_seq);
        let has_no_seq = !must_tell_seq && self.injects(Fault::NoSeq, 0.2);
        let is_future = !has_no_seq && self.injects(Fault::FutureSeq, 0.05);
        let seq = if is_future { highest + 100_000 } else { highest };
        ResumeOffer { session, seq: Some(seq).filter(|_| !has_no_seq), is_future }
    }

    fn request_websocket(&mut self, number: ConnectionNumber, resume: Option<String>, seq: Option<u64>) {
        let mut query = String::new();
        if self.rng.random_bool(0.3) {
            query.push_str("heartbeat=message&");
        }
        if let Some(resume) = resume {
            query.push_str(&format!("resume={resume}&"));
        }
        if let Some(seq) = seq {
            query.push_str(&format!("seq={seq}"));
        }
        self.arrive_now(number, SessionRequest::WebSocket { query });
    }

    fn request_events(&mut self, number: ClientNumber, resume: Option<String>, seq: Option<u64>) {
        let mut last_event_id = resume.as_ref().zip(seq).map(|(resume, seq)| format!("{resume}:{seq}"));
        let stream = self.clients[number].model.as_ref().and_then(|model| model.stream.clone());
        // Imitate an EventSource: send the last event id, if the client is still at the position at which its
        // last stream ended.
        let last = stream.filter(|(_, id)| last_event_id.as_ref().is_some_and(|old| is_at(id, old)));
        let foreign = self.clients[number].roaming_stream.take();
        let (logs, offered) = last.or(foreign.filter(|_| resume.is_none())).unzip();
        let logs = self.logs_of_url(logs);
        let client = &mut self.clients[number];
        let link = client.link.as_mut().expect("just connected");
        let connection = link.connection;
        link.offered.clone_from(&offered);
        last_event_id = offered.or(last_event_id);
        let names: Vec<&str> = logs.iter().map(|log| name_of(*log)).collect();
        let target = match (&resume, seq) {
            (Some(resume), None) => format!("/events?resume={resume}"),
            _ => format!("/events?channels={}", names.join(",")),
        };
        link.logs = logs;
        self.arrive_now(connection, SessionRequest::Events { target, last_event_id });
    }

    /// Returns the channels and patterns of a URL. `before` contains those of the last URL, to which the client
    /// returns, but a new page may name them in another order, leave out some, and add others.
    pub(super) fn logs_of_url(&mut self, before: Option<Vec<usize>>) -> Vec<usize> {
        let mut logs = before.unwrap_or_default();
        if !logs.is_empty() && self.rng.random_bool(0.5) {
            return logs;
        }
        for _ in logs.len()..self.rng.random_range(1..4) {
            let log = self.scenario.any_log(&mut self.rng);
            if !logs.contains(&log) {
                logs.insert(self.rng.random_range(0..=logs.len()), log);
            }
        }
        if logs.len() > 1 && self.rng.random_bool(0.3) {
            logs.remove(0);
        }
        logs
    }

    pub(super) fn refused(&mut self, number: ClientNumber, status: u16) {
        self.trace.log(self.now, format_args!("client {number} is refused: {status}"));
        let client = &mut self.clients[number];
        let offer = client.link.as_mut().and_then(|link| link.offer.take());
        match (status, offer) {
            // The server is overloaded or draining. The client will reconnect with its state.
            (200, _) => {}
            (410, Some(offer)) => {
                self.check_session_may_be_lost(&offer.session, offer.is_future);
                self.clients[number].forget_session();
            }
            (400 | 403, _) => client.forget_session(),
            (409, _) => return self.superseded(number),
            (status, offer) => {
                self.violate("replies", format!("status {status} for {offer:?}"));
            }
        }
        self.leave_link(number);
    }

    /// Closes the client's socket, if it has one.
    pub(crate) fn lose_link(&mut self, number: ClientNumber) {
        let client = &mut self.clients[number];
        let Some(connection) = client.link.as_ref().map(|link| link.connection) else { return };
        client.unlink();
        if let Some(connection) = self.connection(connection) {
            connection.wire.lock().client_closes();
        }
        self.consider(connection);
    }

    /// Closes the client's socket, and plans to connect again.
    pub(crate) fn leave_link(&mut self, number: ClientNumber) {
        self.lose_link(number);
        self.plan_to_connect(number);
    }

    /// Plans the next connection attempt, which may be too late to resume the session.
    pub(crate) fn plan_to_connect(&mut self, number: ClientNumber) {
        let window = nanos(self.scenario.config.session.reconnect_window);
        let longest = if self.rng.random_bool(0.8) { window / 2 } else { window * 2 };
        let wait = self.rng.random_range(0..longest.max(2));
        // Without faults, clients reconnect soon.
        self.plan_to_act(number, if self.is_busy() { wait } else { wait.min(SECOND) });
    }

    pub(crate) fn plan_to_act(&mut self, number: ClientNumber, wait: u64) {
        let client = &mut self.clients[number];
        client.plan += 1;
        let plan = client.plan;
        self.schedule.plan(self.now + wait, Action::Act(number, plan));
    }
}
