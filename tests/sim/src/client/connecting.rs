//! How clients connect, with what they remember, and how they lose connections.

use rand::RngExt;

use super::{Asked, Carrier, Link};
use crate::fault::Fault;
use crate::scenario::SECOND;
use crate::schedule::{Action, ClientNumber};
use crate::truth::channel_name;
use crate::world::World;

impl World {
    /// A client connects. What it has of an older connection, it leaves to itself.
    pub(crate) fn connect(&mut self, number: ClientNumber) {
        if self.clients[number as usize].bayeux.is_some() {
            return self.go_on_with_bayeux(number);
        }
        let faults = self.faults_now();
        let is_busy = self.is_busy();
        let client = &mut self.clients[number as usize];
        // Where nothing goes wrong, a client that polls goes on polling, with its session.
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
        let mut asked = None;
        if client.page.is_some() && (client.rng.random_bool(0.95) || is_steady) {
            asked = Some(Self::offer(client, faults, &mut self.fault_counts, carrier));
        } else {
            client.forget_session();
        }
        let resume = client.page.as_ref().map(|page| page.resume.clone());
        let is_mute = faults.allows(Fault::LostPong) && client.rng.random_bool(0.1);
        let is_late = faults.allows(Fault::LatePong) && client.rng.random_bool(0.3);
        let sips = (faults.allows(Fault::SlowReader) && client.rng.random_bool(0.1))
            .then(|| (client.rng.random_range(1..200), client.rng.random_range(1..5_000_000_000)));
        if is_mute {
            self.fault_counts.count(Fault::LostPong);
        }
        let message_heartbeat = client.rng.random_bool(0.3);
        let address = client.address;
        let connection = self.new_connection(number);
        let seq = asked.as_ref().and_then(|asked| asked.seq);
        let client = &mut self.clients[number as usize];
        client.link = Some(Link {
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
            asked,
            questions: std::collections::VecDeque::new(),
            next_id: 1,
            paused_until: 0,
            sips,
            is_mute,
            is_late,
        });
        self.trace.say(self.now, format_args!("client {number} connects ({connection}) with {seq:?}"));
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

    /// What it says that it has.
    fn offer(
        client: &mut super::Client,
        faults: crate::fault::Faults,
        counts: &mut crate::fault::FaultCounts,
        carrier: Carrier,
    ) -> Asked {
        let mut is_future = false;
        if faults.allows(Fault::OldSeq) && !client.snapshots.is_empty() && client.rng.random_bool(0.3) {
            let at = client.rng.random_range(0..client.snapshots.len());
            client.snapshots.truncate(at + 1);
            client.page = client.snapshots.last().cloned();
            if let Some(page) = &mut client.page {
                page.gaps_allowed = true;
                page.has_gone_back = true;
                page.must_tell_seq = true;
            }
            counts.count(Fault::OldSeq);
        }
        let page = client.page.as_mut().expect("it comes back to something");
        // A stream of events cannot be acknowledged: its ring wraps.
        page.gaps_allowed |= carrier == Carrier::Events;
        let mut seq = Some(page.highest);
        if faults.allows(Fault::NoSeq) && !page.must_tell_seq && client.rng.random_bool(0.2) {
            seq = None;
            counts.count(Fault::NoSeq);
        } else if faults.allows(Fault::FutureSeq) && client.rng.random_bool(0.05) {
            seq = Some(page.highest + 100_000);
            is_future = true;
            counts.count(Fault::FutureSeq);
        }
        Asked { session: page.session.clone(), seq, is_future }
    }

    fn request_events(
        &mut self,
        number: ClientNumber,
        address: std::net::IpAddr,
        resume: Option<String>,
        seq: Option<u64>,
    ) {
        let client = &mut self.clients[number as usize];
        let link = client.link.as_mut().expect("it has just connected");
        let connection = link.connection;
        let mut last_event_id = resume.as_ref().zip(seq).map(|(resume, seq)| format!("{resume}:{seq}"));
        let mut channel = self.scenario.any_log(&mut client.rng);
        // As an EventSource does: with the query of the first time, if it is still where its last stream ended.
        if let (Some((url, id)), Some(old)) =
            (client.page.as_ref().and_then(|page| page.stream.clone()), &last_event_id)
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
        let wire = self.connection(connection).expect("it is new").wire.clone();
        match self.server.serve_events(wire.server_socket(), address, &target, last_event_id.as_deref()) {
            Ok(task) => self.serve(connection, task),
            Err(refusal) => self.refused(number, refusal.status),
        }
    }

    /// A request was not answered with a stream.
    pub(super) fn refused(&mut self, number: ClientNumber, status: u16) {
        self.trace.say(self.now, format_args!("client {number} is refused: {status}"));
        let client = &mut self.clients[number as usize];
        let asked = client.link.as_mut().and_then(|link| link.asked.take());
        match (status, asked) {
            // Overloaded or draining: it comes back with what it has.
            (200, _) => {}
            (410, Some(asked)) => {
                self.check_session_may_be_lost(&asked.session, asked.is_future);
                self.clients[number as usize].forget_session();
            }
            (400 | 403, _) => client.forget_session(),
            (status, asked) => {
                self.violate("replies", format!("status {status} for {asked:?}"));
            }
        }
        self.lose_link(number);
        self.plan_to_connect(number);
    }

    /// The client closes its socket, as far as it still has one, and may connect again.
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

    /// It connects again some time, which may be too late for its session.
    pub(crate) fn plan_to_connect(&mut self, number: ClientNumber) {
        let window = crate::scenario::nanos(self.scenario.config.session.reconnect_window);
        let client = &mut self.clients[number as usize];
        let longest = if client.rng.random_bool(0.8) { window / 2 } else { window * 2 };
        let wait = client.rng.random_range(0..longest.max(2));
        // Nobody stays away from a calm server for long.
        self.plan_to_act(number, if self.is_busy() { wait } else { wait.min(SECOND) });
    }

    pub(crate) fn plan_to_act(&mut self, number: ClientNumber, wait: u64) {
        let client = &mut self.clients[number as usize];
        client.plan += 1;
        let plan = client.plan;
        self.schedule.plan(self.now + wait, Action::Act(number, plan));
    }
}
