//! Sends one `/meta/connect` after another, and processes the answers.

use std::net::IpAddr;

use encke_server::testing::simulation::ConnectRequest;
use rand::RngExt;
use serde_json::json;

use super::answer::{BayeuxAnswer, BayeuxReply};
use super::{BayeuxSubscription, PendingConnect};
use crate::client::{Carrier, ClientLink, PollRequest, poll_answer};
use crate::fault::Fault;
use crate::scenario::{MILLI, SECOND};
use crate::schedule::{Action, ClientNumber, ConnectionNumber};
use crate::truth::channel_name;
use crate::world::Simulation;

const MAX_SNAPSHOTS: usize = 4;

impl Simulation {
    /// Opens a session, or continues the current one.
    pub(in crate::client) fn continue_with_bayeux(&mut self, number: ClientNumber) {
        let is_busy = self.is_busy();
        let client = &mut self.clients[number as usize];
        // Without faults, a polling client keeps polling.
        let is_on_socket = is_busy && client.rng.random_bool(0.5);
        client.unlink();
        client.polls = !is_on_socket;
        let Some(bayeux) = &mut client.bayeux else { return };
        if is_busy && client.rng.random_bool(0.02) {
            bayeux.forget_session();
        }
        // Some clients open their session before the WebSocket.
        let has_session = bayeux.model.is_some();
        if is_on_socket && (has_session || client.rng.random_bool(0.5)) {
            return self.open_bayeux_socket(number);
        }
        client.polls = true;
        if has_session {
            return self.request_connect(number);
        }
        self.request_handshake(number);
        // Retry in case the answer is lost.
        self.plan_to_act(number, 2 * SECOND);
    }

    fn request_connect(&mut self, number: ClientNumber) {
        let faults = self.faults_now();
        let connection = self.new_connection(number);
        let wire = self.connection(connection).expect("a new connection").wire.clone();
        wire.lock().remember_written();
        let Some((mut connect, messages)) = self.next_connect(number, "long-polling") else { return };
        connect.wire = Some(wire);
        let client = &mut self.clients[number as usize];
        let is_last = client.rng.random_bool(0.3);
        let read_chunks = (faults.allows(Fault::SlowReader) && client.rng.random_bool(0.05))
            .then(|| (client.rng.random_range(1..200), client.rng.random_range(1..5_000_000_000)));
        client.link = Some(ClientLink::of_bayeux(Carrier::Connect, connection, read_chunks));
        let Some(bayeux) = &mut client.bayeux else { return };
        let (ack, browser) = (connect.ack, bayeux.browser);
        bayeux.connect = Some(connect);
        self.trace.log(self.now, format_args!("client {number} connects ({connection}) with {ack:?}"));
        let state = self.connection_mut(connection).expect("a new connection");
        let request = ConnectRequest { body: json!(messages).to_string(), is_last, browser };
        state.request = Some(Box::new(PollRequest::connect(request)));
        let latency = state.latency;
        self.now_or_after(latency, Action::Arrive(connection));
    }

    /// Creates a `/meta/connect`, possibly with another message in the same request.
    pub(super) fn next_connect(
        &mut self,
        number: ClientNumber,
        connection_type: &str,
    ) -> Option<(PendingConnect, Vec<serde_json::Value>)> {
        let (faults, since) = (self.faults_now(), self.server.now());
        let client = &mut self.clients[number as usize];
        let rng = &mut client.rng;
        let bayeux = client.bayeux.as_mut()?;
        if faults.allows(Fault::OldSeq) && !bayeux.snapshots.is_empty() && rng.random_bool(0.3) {
            let at = rng.random_range(0..bayeux.snapshots.len());
            bayeux.snapshots.truncate(at + 1);
            bayeux.model = bayeux.snapshots.last().cloned();
            self.fault_counts.count(Fault::OldSeq);
        }
        let (id, beside) = (bayeux.next_id(), rng.random_bool(0.05).then(|| bayeux.next_id()));
        let model = bayeux.model.as_mut()?;
        let is_future = model.acknowledges && faults.allows(Fault::FutureSeq) && rng.random_bool(0.03);
        let ack = model.acknowledges.then(|| if is_future { model.ack + 100_000 } else { model.ack });
        let is_due = beside.is_some() || rng.random_bool(0.05);
        let mut message = json!({
            "channel": "/meta/connect",
            "id": id.to_string(),
            "clientId": model.token,
            "connectionType": connection_type,
        });
        if is_due {
            message["advice"] = json!({ "timeout": 0 });
        }
        if let Some(ack) = ack {
            message["ext"] = json!({ "ack": ack });
        }
        let mut messages = vec![message];
        if let Some(beside) = beside {
            let other = json!({ "channel": "/meta/none", "id": beside.to_string(), "clientId": model.token });
            messages.insert(rng.random_range(0..2), other);
        }
        Some((PendingConnect { wire: None, since, id, beside, ack, is_future, is_due }, messages))
    }

    /// Handles the arrival of a `/meta/connect` request at the server.
    pub(in crate::client) fn connect_arrives(
        &mut self,
        number: ConnectionNumber,
        address: IpAddr,
        connect: ConnectRequest,
    ) {
        let Some(connection) = self.connection(number) else { return };
        let socket = connection.wire.server_socket();
        let (all, browser) = (std::sync::Arc::clone(&self.held), connect.browser);
        let held = move |held| all.lock().push((number, browser, held));
        let task = self.server.serve_connect(socket, address, connect, held);
        self.serve(number, task);
    }

    /// Processes the answer to the pending connect, if it is complete.
    pub(in crate::client) fn process_connect_answer(
        &mut self,
        number: ClientNumber,
        connection: ConnectionNumber,
    ) {
        let client = &mut self.clients[number as usize];
        let Some(link) = client.link.as_ref() else { return };
        if link.incoming.is_empty() {
            return;
        }
        let answer = match poll_answer::read(&link.incoming) {
            Ok(None) => return,
            Ok(Some(answer)) if answer.status == 200 => BayeuxAnswer::read(answer.body),
            other => Err(format!("{other:?}")),
        };
        let connect = client.bayeux.as_mut().and_then(|bayeux| bayeux.connect.take());
        let (Ok(answer), Some(connect)) = (&answer, connect) else {
            return self.violate("wire", format!("client {number} reads {answer:?}"));
        };
        self.trace.log(self.now, format_args!("client {number} reads {:?}, {}", answer.events, answer.reply));
        let is_complete = answer.reply.is_to("/meta/connect", connect.id)
            && answer.before.len() == usize::from(connect.beside.is_some())
            && connect.beside.is_none_or(|id| answer.before[0].is_to("/meta/none", id));
        if !is_complete {
            return self
                .violate("replies", format!("client {number} sent {connect:?}, but reads {answer:?}"));
        }
        self.check_browser(connection, &answer.reply, connect.is_due);
        let pause = if answer.reply.successful() {
            self.receive_successful_answer(number, connection, answer, &connect)
        } else {
            self.receive_failed_answer(number, &answer.reply, &connect)
        };
        if self.is_busy() && self.clients[number as usize].rng.random_bool(0.2) {
            self.lose_link(number);
            self.send_random_command(number);
        }
        self.end_poll(number, connection, pause);
    }

    /// Processes a successful answer. Returns the pause before the next connect, in nanoseconds.
    pub(super) fn receive_successful_answer(
        &mut self,
        number: ClientNumber,
        connection: ConnectionNumber,
        answer: &BayeuxAnswer,
        connect: &PendingConnect,
    ) -> u64 {
        let BayeuxAnswer { events, reply, .. } = answer;
        let gaps = reply.gaps();
        self.deliveries += events.len() as u64;
        if connect.is_future {
            self.violate("replies", format!("client {number} acknowledged too much, but reads {answer:?}"));
            return 0;
        }
        if reply.advises("none") {
            // The client has sent a disconnect itself.
            let session = self.clients[number as usize].session().unwrap_or_default().to_owned();
            self.check_session_may_be_lost(&session, false);
            self.clients[number as usize].forget_bayeux();
            return MILLI;
        }
        let is_empty = events.is_empty() && gaps.is_empty() && reply.interval().is_none();
        if is_empty && !connect.is_due {
            match connect.wire {
                Some(_) => self.check_hold_was_over(connection),
                None => self.check_connect_was_held(number, connect.since),
            }
        }
        let (server, truth) = (&self.server, &self.truth);
        let first = |log: u8, epoch: &str| {
            let view = server.channel(&channel_name(log));
            view.filter(|view| view.epoch == epoch).map(|view| view.first)
        };
        let Some(bayeux) = &mut self.clients[number as usize].bayeux else { return 0 };
        let Some(model) = &mut bayeux.model else { return 0 };
        let may_have_lost = model.may_have_lost();
        model.assess_lost_answers(truth);
        let mut wrong = model.gaps(&gaps, truth, first);
        for (channel, number) in events {
            wrong = wrong.and_then(|()| model.message(channel, *number, truth, false));
        }
        let wrong = wrong.and_then(|()| model.check_losses_reported(truth));
        if connect.wire.as_ref().is_some_and(|wire| wire.lock().was_given_up) {
            model.came_too_late();
        }
        let came = events.len() as u64;
        let is_ack_wrong = match (connect.ack, reply.ack()) {
            (None, None) => false,
            // Only an answer that advises a pause may lack an `ack`: it contains no messages and no gaps.
            (Some(_), None) => came > 0 || !gaps.is_empty(),
            (Some(before), Some(ack)) if gaps.is_empty() && !model.has_gone_back => ack != before + came,
            (Some(before), Some(ack)) => ack < before + came,
            _ => true,
        };
        model.ack = reply.ack().unwrap_or(model.ack);
        let is_pause_forgotten = model.interval > 0
            && reply.interval().is_none()
            && !may_have_lost
            && !model.has_missed_end_of_pause();
        let interval = model.pause(reply.interval());
        if may_have_lost && reply.interval().is_none() {
            model.excuse_pause();
        }
        if let Err(what) = wrong {
            self.violate("exactly once or a gap", format!("client {number}: {what}"));
        } else if is_ack_wrong {
            let what = format!("client {number} acknowledged {:?}, but reads {reply}", connect.ack);
            self.violate("seqs", what);
        } else if is_pause_forgotten || reply.advises("handshake") {
            self.violate("advice", format!("client {number} was advised to pause, but reads {reply}"));
        }
        if interval > 0 { interval * MILLI } else { self.pause_between_polls(number) }
    }

    /// Processes a failed answer. Returns the pause before the next request, in nanoseconds.
    pub(super) fn receive_failed_answer(
        &mut self,
        number: ClientNumber,
        reply: &BayeuxReply,
        connect: &PendingConnect,
    ) -> u64 {
        let code = reply.code().unwrap_or_default();
        let session = self.clients[number as usize].session().unwrap_or_default().to_owned();
        match code {
            "402" | "403" => self.check_session_may_be_lost(&session, connect.is_future),
            "400" if connect.is_future && reply.advises("handshake") => {}
            "503" if reply.interval().is_some() => {
                if let Some(model) =
                    self.clients[number as usize].bayeux.as_mut().and_then(|it| it.model.as_mut())
                {
                    return model.pause(reply.interval()) * MILLI;
                }
            }
            _ => self.violate("replies", format!("client {number} reads {reply}")),
        }
        self.clients[number as usize].forget_bayeux();
        reply.interval().unwrap_or_default() * MILLI + MILLI
    }

    /// Saves the client's state, so that the client can go back to it later.
    pub(super) fn save_bayeux_snapshot(&mut self, number: ClientNumber) {
        let Some(bayeux) = &mut self.clients[number as usize].bayeux else { return };
        let is_certain = |model: &&super::BayeuxSessionModel| {
            model.acknowledges && !model.logs.iter().any(|it| matches!(it, BayeuxSubscription::Requested(..)))
        };
        if let Some(model) = bayeux.model.as_ref().filter(is_certain)
            && bayeux.snapshots.len() < MAX_SNAPSHOTS
        {
            let mut model = model.clone();
            model.has_gone_back = true;
            // A reloaded page does not remember the pause.
            model.pause(Some(0));
            bayeux.snapshots.push(model);
        }
    }
}

impl crate::client::SimClient {
    fn forget_bayeux(&mut self) {
        if let Some(bayeux) = &mut self.bayeux {
            bayeux.forget_session();
        }
    }
}
