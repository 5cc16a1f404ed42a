//! Long-polling clients: they send one request after another, each of which the server holds until it has
//! something to send.

use encke_server::testing::simulation::{ConnectRequest, HeldPoll, RequestArrival};
use rand::RngExt;
use serde_json::value::RawValue;

use super::http_answer;
use super::link::ResumeOffer;
use crate::fault::Fault;
use crate::scenario::{MILLI, SECOND, nanos};
use crate::schedule::{Action, ClientNumber, ConnectionNumber};
use crate::truth::name_of;
use crate::world::Simulation;

/// Pause of a client after its poll was superseded.
const SUPERSEDED_PAUSE: u64 = SECOND;

/// Request that opens or resumes a session, and that the server has not handled yet.
#[derive(Clone, Debug)]
pub(crate) enum SessionRequest {
    Connect(ConnectRequest),
    Poll(JsonPoll),
    WebSocket { query: String },
    Events { target: String, last_event_id: Option<String> },
}

#[derive(Clone, Debug)]
pub(crate) struct JsonPoll {
    target: String,
    /// Channel of a poll that opens a session.
    channel: Option<usize>,
    offer: Option<ResumeOffer>,
    /// Whether the request contains `Connection: close`.
    is_last: bool,
}

impl Simulation {
    /// Sends the client's next poll. While it is in transit, later requests may overtake it.
    pub(super) fn request_poll(&mut self, number: ClientNumber, resume: Option<&str>, seq: Option<u64>) {
        let any_channel = self.rng.random_range(0..self.scenario.channels);
        let channel = resume.is_none().then_some(any_channel);
        let target = match (resume, seq) {
            (Some(resume), Some(seq)) => format!("/poll?resume={resume}&seq={seq}"),
            (Some(resume), None) => format!("/poll?resume={resume}"),
            (None, _) => format!("/poll?channels={}", name_of(any_channel)),
        };
        let is_last = self.rng.random_bool(0.3);
        let link = self.clients[number].link.as_mut().expect("just connected");
        let (connection, offer) = (link.connection, link.offer.clone());
        self.send_request(connection, SessionRequest::Poll(JsonPoll { target, channel, offer, is_last }));
    }

    pub(super) fn send_request(&mut self, number: ConnectionNumber, request: SessionRequest) {
        let connection = self.connection_mut(number).expect("a new connection");
        connection.request = Some(Box::new(request));
        let latency = connection.latency;
        self.now_or_after(latency, Action::Arrive(number));
    }

    /// Lets a request arrive without transit time. The server may still handle it late.
    pub(super) fn arrive_now(&mut self, number: ConnectionNumber, request: SessionRequest) {
        self.connection_mut(number).expect("a new connection").request = Some(Box::new(request));
        self.arrive(number);
    }

    pub(crate) fn arrive(&mut self, number: ConnectionNumber) {
        let Some(arrival) = self.number_request(number) else { return };
        let Some(connection) = self.connection_mut(number) else { return };
        let Some(request) = connection.request.take() else { return };
        let (client, socket) = (connection.client, connection.wire.server_socket());
        let address = self.clients[client].address;
        let request = match *request {
            SessionRequest::Poll(request) => request,
            SessionRequest::WebSocket { query } => {
                let task = self.server.serve_websocket(socket, address, &query, arrival);
                return self.serve(number, task);
            }
            SessionRequest::Events { target, last_event_id } => {
                let last_event_id = last_event_id.as_deref();
                return match self.server.serve_events(socket, address, &target, last_event_id, arrival) {
                    Ok(task) => self.serve(number, task),
                    Err(refusal) => self.request_refused(number, refusal.status),
                };
            }
            SessionRequest::Connect(connect) => {
                let (all, browser) = (std::sync::Arc::clone(&self.held), connect.browser);
                let held = move |held| all.lock().push((number, browser, held));
                let task = self.server.serve_connect(socket, address, connect, arrival, held);
                return self.serve(number, task);
            }
        };
        match self.server.serve_poll(socket, address, &request.target, request.is_last, arrival) {
            Ok(HeldPoll { task, session, recovered }) => {
                self.serve(number, task);
                self.poll_begins(&session, number);
                self.trace.log(self.now, format_args!("poll {number} of {session} is accepted"));
                self.poll_is_held(client, number, &request, &session, recovered);
            }
            Err(refusal) => self.request_refused(number, refusal.status),
        }
    }

    /// Handles the refusal of a request, which its client may have given up on.
    fn request_refused(&mut self, number: ConnectionNumber, status: u16) {
        let Some(client) = self.connection(number).map(|connection| connection.client) else { return };
        match self.clients[client].is_linked_by(number) {
            true => self.refused(client, status),
            false => self.consider(number),
        }
    }

    /// Returns a request's arrival. `None` if the server does not handle the request now.
    fn number_request(&mut self, number: ConnectionNumber) -> Option<RequestArrival> {
        let (server, connection) = (self.server_number(), self.connection(number)?);
        let client = connection.client;
        match connection.arrival {
            Some((of, arrival)) if of == server => return Some(arrival),
            Some(_) => {
                // The connection ended with the process that had accepted it.
                drop(connection.wire.server_socket());
                self.cut(number);
                return None;
            }
            None => {}
        }
        let arrival = self.server.number_request();
        self.connection_mut(number)?.arrival = Some((server, arrival));
        self.clients[client].last_arrived = Some(number);
        if self.clients[client].bayeux.is_none() && self.injects(Fault::LateRequest, 0.1) {
            self.plan_within(SECOND, Action::Arrive(number));
            return None;
        }
        Some(arrival)
    }

    fn poll_is_held(
        &mut self,
        client: ClientNumber,
        number: ConnectionNumber,
        request: &JsonPoll,
        session: &str,
        recovered: bool,
    ) {
        let is_future = request.offer.as_ref().is_some_and(|offer| offer.is_future);
        let offer = request.offer.as_ref().map(|offer| offer.session.as_str());
        if recovered != (offer == Some(session)) || recovered && is_future {
            return self.violate("resume", format!("{request:?} got {session}, recovered: {recovered}"));
        }
        if !recovered && let Some(offer) = offer {
            // The client gets its session or a new one, never both.
            self.check_session_may_be_lost(offer, is_future);
        }
        let client = &mut self.clients[client];
        if let Some(link) = client.link.as_mut().filter(|link| link.connection == number) {
            link.channel = request.channel;
            link.greeted = recovered;
            if recovered && let Some(model) = &mut client.model {
                model.must_tell_seq = false;
                model.resumed_after = model.highest;
            }
        }
    }

    /// Processes the answer to the current poll, if it is complete.
    pub(super) fn process_poll_answer(&mut self, number: ClientNumber, connection: ConnectionNumber) {
        let Some(link) = self.clients[number].link.as_ref() else { return };
        let (status, body) = match http_answer::read(&link.incoming) {
            Ok(None) => return,
            Ok(Some(answer)) => (answer.status, answer.body.to_owned()),
            Err(error) => return self.violate("wire", format!("client {number} reads {error}")),
        };
        match status {
            200 => self.receive_array(number, connection, &body),
            409 if !self.is_latest_poll(connection) => self.superseded(number),
            status => self.violate("replies", format!("client {number} reads {status}: {body}")),
        }
    }

    /// Lets a client continue after the server has rejected its poll in favour of a later one, which the
    /// client may have abandoned.
    pub(super) fn superseded(&mut self, number: ClientNumber) {
        let client = &self.clients[number];
        let connection = client.link.as_ref().map(|link| link.connection);
        if client.last_arrived == connection {
            let what = format!("client {number}: poll {connection:?} arrived last, but was superseded");
            return self.violate("polls", what);
        }
        self.trace.log(self.now, format_args!("client {number} reads that {connection:?} was superseded"));
        self.end_poll(number, SUPERSEDED_PAUSE);
    }

    fn receive_array(&mut self, number: ClientNumber, connection: ConnectionNumber, body: &str) {
        let objects: Vec<&RawValue> = match serde_json::from_str(body) {
            Ok(objects) => objects,
            Err(error) => return self.violate("wire", format!("client {number} reads {body}: {error}")),
        };
        if objects.is_empty() {
            self.trace.log(self.now, format_args!("client {number} reads []"));
            self.check_hold_was_over(connection);
        }
        for object in objects {
            self.receive_text(number, object.get());
            if self.violation.is_some() || !self.clients[number].is_linked_by(connection) {
                return;
            }
        }
        let pause = self.pause_between_polls();
        self.end_answered_poll(number, pause);
    }

    /// Ends the current poll, sometimes sends a command, and plans the next poll.
    pub(super) fn end_answered_poll(&mut self, number: ClientNumber, pause: u64) {
        let sends_command = self.is_busy() && self.rng.random_bool(0.2);
        if sends_command {
            self.lose_link(number);
            self.send_random_command(number);
        }
        self.end_poll(number, pause);
    }

    fn end_poll(&mut self, number: ClientNumber, pause: u64) {
        self.lose_link(number);
        self.plan_to_act(number, pause);
    }

    /// Returns the pause before the next poll: usually short, sometimes long enough to miss the poll gap or
    /// the reconnect window.
    pub(super) fn pause_between_polls(&mut self) -> u64 {
        let (session, tick) = (&self.scenario.config.session, self.scenario.tick());
        let (gap, window) = (nanos(session.poll_gap), nanos(session.reconnect_window));
        if !self.is_busy() {
            return self.rng.random_range(0..MILLI);
        }
        match self.rng.random_range(0..20) {
            0..14 => self.rng.random_range(0..(gap / 100).max(2)),
            14..18 => self.rng.random_range(0..gap),
            18 => gap.saturating_sub(1) + self.rng.random_range(0..4 * tick),
            // Resume at about the end of the reconnect window.
            _ => (window + 4 * tick).saturating_sub(self.rng.random_range(0..8 * tick)),
        }
    }
}
