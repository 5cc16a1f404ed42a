//! Sends one `/meta/connect` after another, and processes the answers.

use encke_core::Timestamp;
use encke_server::testing::simulation::ConnectRequest;
use rand::RngExt;
use serde_json::{Value, json};

use super::answer::{self, BayeuxMessage, BayeuxReply};
use crate::client::posts::PostedCommands;
use crate::client::reading::first_in_log;
use crate::client::{Carrier, SessionRequest, http_answer};
use crate::fault::Fault;
use crate::scenario::{MILLI, SECOND};
use crate::schedule::{ClientNumber, ConnectionNumber};
use crate::wire::SharedWire;
use crate::world::Simulation;

/// A `/meta/connect` that has not been answered.
#[derive(Debug)]
pub(super) struct PendingConnect {
    /// Connection that carries the request. `None` if the connect was sent on a WebSocket.
    pub(super) wire: Option<SharedWire>,
    /// When the connect was sent, by the server's clock.
    since: Timestamp,
    pub(super) id: u64,
    /// Id of another message in the same request.
    pub(super) beside: Option<u64>,
    /// Acknowledgement in the connect.
    pub(super) ack: Option<u64>,
    /// Whether the acknowledgement is for messages that were never sent.
    is_future: bool,
    /// Whether the connect asks for an immediate answer.
    is_due: bool,
}

impl Simulation {
    /// Opens a session, or continues the current one.
    pub(crate) fn continue_with_bayeux(&mut self, number: ClientNumber) {
        let is_busy = self.is_busy();
        let client = &mut self.clients[number];
        let Some(bayeux) = &mut client.bayeux else { return };
        if is_busy && self.rng.random_bool(0.02) {
            bayeux.forget_session();
        }
        let has_session = bayeux.model.is_some();
        // Without faults, a polling client keeps polling. Some clients open their session before the WebSocket.
        client.polls = !(is_busy && self.rng.random_bool(if has_session { 0.5 } else { 0.25 }));
        if !client.polls {
            return self.open_bayeux_socket(number);
        }
        if has_session {
            return self.request_connect(number);
        }
        let (expected, body) = self.next_handshake();
        self.post(number, body, PostedCommands::Bayeux(vec![expected]), 0);
        // Retry in case the answer is lost.
        self.plan_to_act(number, 2 * SECOND);
    }

    fn request_connect(&mut self, number: ClientNumber) {
        let Some((mut connect, messages)) = self.next_connect(number, "long-polling") else { return };
        let connection = self.open_link(number, Carrier::Connect);
        let wire = self.wire(connection);
        wire.lock().written = Some(Vec::new());
        connect.wire = Some(wire);
        let Some(bayeux) = &mut self.clients[number].bayeux else { return };
        let (ack, browser) = (connect.ack, bayeux.browser);
        bayeux.connect = Some(connect);
        self.trace.log(self.now, format_args!("client {number} connects ({connection}) with {ack:?}"));
        let (body, is_last) = (json!(messages).to_string(), self.rng.random_bool(0.3));
        self.send_request(connection, SessionRequest::Connect(ConnectRequest { body, is_last, browser }));
    }

    /// Creates a `/meta/connect`, possibly with another message in the same request.
    pub(super) fn next_connect(
        &mut self,
        number: ClientNumber,
        connection_type: &str,
    ) -> Option<(PendingConnect, Vec<Value>)> {
        let (id, since) = (self.next_command(), self.server.now());
        let beside = self.rng.random_bool(0.05).then(|| self.next_command());
        let is_future =
            self.clients[number].bayeux.as_ref()?.acknowledges() && self.injects(Fault::FutureSeq, 0.03);
        let has_snapshots = !self.clients[number].bayeux.as_ref()?.snapshots.is_empty();
        let goes_back = has_snapshots && self.injects(Fault::OldSeq, 0.3);
        let bayeux = self.clients[number].bayeux.as_mut()?;
        if goes_back {
            let at = self.rng.random_range(0..bayeux.snapshots.len());
            bayeux.snapshots.truncate(at + 1);
            bayeux.model = bayeux.snapshots.last().cloned();
        }
        let model = bayeux.model.as_ref()?;
        let ack = model.acknowledges.then_some(if is_future { model.ack + 100_000 } else { model.ack });
        let is_due = beside.is_some() || self.rng.random_bool(0.05);
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
            messages.insert(self.rng.random_range(0..2), other);
        }
        Some((PendingConnect { wire: None, since, id, beside, ack, is_future, is_due }, messages))
    }

    /// Processes the answer to the pending connect, if it is complete.
    pub(crate) fn process_connect_answer(&mut self, number: ClientNumber, connection: ConnectionNumber) {
        let client = &mut self.clients[number];
        let (Some(link), Some(bayeux)) = (&client.link, &mut client.bayeux) else { return };
        let answer = match http_answer::read(&link.incoming) {
            Ok(None) => return,
            Ok(Some(answer)) if answer.status == 200 => answer::read(answer.body),
            other => Err(format!("{other:?}")),
        };
        let (messages, mut replies, connect) = match (answer, bayeux.connect.take()) {
            (Ok((messages, replies)), Some(connect)) => (messages, replies, connect),
            (answer, _) => return self.violate("wire", format!("client {number} reads {answer:?}")),
        };
        self.trace.log(self.now, format_args!("client {number} reads {messages:?}, {replies:?}"));
        let reply = replies.pop();
        let is_complete = match (&*replies, &reply, connect.beside) {
            ([], Some(reply), None) => reply.is_to("/meta/connect", connect.id),
            ([beside], Some(reply), Some(id)) => {
                beside.is_to("/meta/none", id) && reply.is_to("/meta/connect", connect.id)
            }
            _ => false,
        };
        let Some(reply) = reply.filter(|_| is_complete) else {
            return self
                .violate("replies", format!("client {number} sent {connect:?}, but reads {replies:?}"));
        };
        self.check_browser(connection, &reply, connect.is_due);
        let pause = self.receive_connect_answer(number, connection, &messages, &reply, &connect);
        self.end_answered_poll(number, pause);
    }

    /// Processes the answer to a connect. Returns the pause before the next request, in nanoseconds.
    pub(super) fn receive_connect_answer(
        &mut self,
        number: ClientNumber,
        connection: ConnectionNumber,
        messages: &[BayeuxMessage],
        reply: &BayeuxReply,
        connect: &PendingConnect,
    ) -> u64 {
        if !reply.successful() {
            return self.receive_failed_answer(number, reply, connect);
        }
        let (gaps, came) = (reply.gaps(), messages.len() as u64);
        self.totals.deliveries += came;
        if connect.is_future {
            self.violate("replies", format!("client {number} acknowledged too much, but reads {reply}"));
            return 0;
        }
        if reply.advises("none") {
            // The client has sent a disconnect itself.
            let session = self.clients[number].session().unwrap_or_default().to_owned();
            self.check_session_may_be_lost(&session, false);
            self.clients[number].forget_session();
            return MILLI;
        }
        let is_empty = came == 0 && gaps.is_empty() && reply.interval().is_none();
        if is_empty && !connect.is_due {
            match connect.wire {
                Some(_) => self.check_hold_was_over(connection),
                None => self.check_connect_was_held(number, connect.since),
            }
        }
        let (server, truth) = (&self.server, &self.truth);
        let Some(model) = self.clients[number].bayeux.as_mut().and_then(|bayeux| bayeux.model.as_mut())
        else {
            return 0;
        };
        let may_have_lost = model.may_have_lost();
        model.assess_lost_answers(truth);
        let wrong = model
            .gaps(&gaps, truth, |log, epoch| first_in_log(server, log, epoch))
            .and_then(|()| messages.iter().try_for_each(|message| model.message(message, truth, false)))
            .and_then(|()| model.check_losses_reported(truth));
        if connect.wire.as_ref().is_some_and(|wire| wire.lock().was_given_up) {
            model.came_too_late();
        }
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
        if interval > 0 { interval * MILLI } else { self.pause_between_polls() }
    }

    fn receive_failed_answer(
        &mut self,
        number: ClientNumber,
        reply: &BayeuxReply,
        connect: &PendingConnect,
    ) -> u64 {
        let client = &mut self.clients[number];
        let session = client.session().unwrap_or_default().to_owned();
        match reply.code().unwrap_or_default() {
            "402" | "403" => self.check_session_may_be_lost(&session, connect.is_future),
            "400" if connect.is_future && reply.advises("handshake") => {}
            "503" if reply.interval().is_some() => {
                if let Some(model) = client.bayeux.as_mut().and_then(|bayeux| bayeux.model.as_mut()) {
                    return model.pause(reply.interval()) * MILLI;
                }
            }
            _ => self.violate("replies", format!("client {number} reads {reply}")),
        }
        self.clients[number].forget_session();
        reply.interval().unwrap_or_default() * MILLI + MILLI
    }

    /// Checks that an empty answer on a WebSocket did not come before the end of the hold time.
    fn check_connect_was_held(&mut self, number: ClientNumber, since: Timestamp) {
        let (now, hold) = (self.server.now(), self.scenario.config.session.poll_hold);
        if now < since + hold {
            let what =
                format!("client {number} reads at {now:?} an empty answer to its connect sent at {since:?}");
            self.violate("early expiry", what);
        }
    }
}
