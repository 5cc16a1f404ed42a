//! Long-polling clients: they send one request after another, each of which the server holds until it has
//! something to send.

use encke_server::testing::simulation::{ConnectRequest, HeldPoll};
use rand::RngExt;
use serde_json::value::RawValue;

use super::{ResumeOffer, poll_answer};
use crate::scenario::{MILLI, SECOND, nanos};
use crate::schedule::{Action, ClientNumber, ConnectionNumber};
use crate::truth::channel_name;
use crate::world::Simulation;

/// Pause of a client after its poll was superseded.
const SUPERSEDED_PAUSE: u64 = SECOND;

/// A poll in transit to the server.
#[derive(Clone, Debug)]
pub(crate) struct PollRequest {
    target: String,
    connect: Option<ConnectRequest>,
    /// Channel of a poll that opens a session.
    channel: Option<u8>,
    offer: Option<ResumeOffer>,
    /// Whether the request contains `Connection: close`.
    is_last: bool,
}

impl PollRequest {
    /// Creates a request with a `/meta/connect`.
    pub(super) fn connect(connect: ConnectRequest) -> Self {
        let is_last = connect.is_last;
        Self { target: String::new(), connect: Some(connect), channel: None, offer: None, is_last }
    }
}

impl Simulation {
    /// Sends the client's next poll. While it is in transit, later requests may overtake it.
    pub(super) fn request_poll(&mut self, number: ClientNumber, resume: Option<String>, seq: Option<u64>) {
        let channels = self.scenario.channels;
        let client = &mut self.clients[number as usize];
        let link = client.link.as_mut().expect("just connected");
        let connection = link.connection;
        let is_last = client.rng.random_bool(0.3);
        let channel = client.rng.random_range(0..channels);
        let mut request = PollRequest {
            target: String::new(),
            connect: None,
            channel: None,
            offer: link.offer.clone(),
            is_last,
        };
        request.target = match (&resume, seq) {
            (Some(resume), Some(seq)) => format!("/poll?resume={resume}&seq={seq}"),
            (Some(resume), None) => format!("/poll?resume={resume}"),
            (None, _) => {
                request.channel = Some(channel);
                format!("/poll?channels={}", channel_name(channel))
            }
        };
        let state = self.connection_mut(connection).expect("a new connection");
        state.request = Some(Box::new(request));
        let latency = state.latency;
        self.now_or_after(latency, Action::Arrive(connection));
    }

    /// Handles the arrival of a poll at the server.
    pub(crate) fn arrive(&mut self, number: ConnectionNumber) {
        let Some(connection) = self.connection_mut(number) else { return };
        let Some(request) = connection.request.take() else { return };
        let (client, wire) = (connection.client, connection.wire.clone());
        let address = self.clients[client as usize].address;
        if let Some(connect) = request.connect {
            return self.connect_arrives(number, address, connect);
        }
        match self.server.serve_poll(wire.server_socket(), address, &request.target, request.is_last) {
            Ok(HeldPoll { task, session, recovered }) => {
                self.serve(number, task);
                self.poll_begins(session.clone(), number);
                self.trace.log(self.now, format_args!("poll {number} of {session} is accepted"));
                if let Some(connection) = self.connection_mut(number) {
                    connection.session = Some(session.clone());
                }
                self.poll_is_held(client, number, &request, &session, recovered);
            }
            Err(refusal) if self.clients[client as usize].is_linked_by(number) => {
                self.refused(client, refusal.status);
            }
            Err(_) => self.consider(number),
        }
    }

    fn poll_is_held(
        &mut self,
        client: ClientNumber,
        number: ConnectionNumber,
        request: &PollRequest,
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
        let client = &mut self.clients[client as usize];
        if let Some(link) = client.link.as_mut().filter(|link| link.connection == number) {
            link.channel = request.channel;
            link.greeted = recovered;
            if recovered && let Some(model) = &mut client.model {
                model.must_tell_seq = false;
            }
        }
    }

    /// Processes the answer to the current poll, if it is complete.
    pub(super) fn process_poll_answer(&mut self, number: ClientNumber, connection: ConnectionNumber) {
        let Some(link) = self.clients[number as usize].link.as_ref() else { return };
        if link.incoming.is_empty() {
            return;
        }
        let (status, body) = match poll_answer::read(&link.incoming) {
            Ok(None) => return,
            Ok(Some(answer)) => (answer.status, answer.body.to_owned()),
            Err(error) => return self.violate("wire", format!("client {number} reads {error}")),
        };
        match status {
            200 => self.receive_array(number, connection, &body),
            409 => self.receive_superseded(number, connection),
            status => self.violate("replies", format!("client {number} reads {status}: {body}")),
        }
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
            if self.violation.is_some() || !self.clients[number as usize].is_linked_by(connection) {
                return;
            }
        }
        let pause = self.pause_between_polls(number);
        if self.is_busy() && self.clients[number as usize].rng.random_bool(0.2) {
            self.post_between_polls(number);
        }
        self.end_poll(number, connection, pause);
    }

    /// Checks that a superseded poll was followed by another one, which the client may have abandoned.
    fn receive_superseded(&mut self, number: ClientNumber, connection: ConnectionNumber) {
        self.trace.log(self.now, format_args!("client {number} reads that {connection} was superseded"));
        if self.is_latest_poll(connection) {
            return self.violate("replies", format!("{connection} was superseded, but is the latest poll"));
        }
        self.end_poll(number, connection, SUPERSEDED_PAUSE);
    }

    /// Ends the current poll and plans the next one.
    pub(super) fn end_poll(&mut self, number: ClientNumber, connection: ConnectionNumber, pause: u64) {
        self.lose_link(number);
        self.plan_to_act(number, pause);
        self.consider(connection);
    }

    /// Sends a command between polls.
    fn post_between_polls(&mut self, number: ClientNumber) {
        self.lose_link(number);
        self.post_random_command(number);
    }

    /// Returns the pause before the next poll: usually short, sometimes long enough to miss the poll gap or
    /// the reconnect window.
    pub(super) fn pause_between_polls(&mut self, number: ClientNumber) -> u64 {
        let gap = nanos(self.scenario.config.session.poll_gap);
        let window = nanos(self.scenario.config.session.reconnect_window);
        let is_busy = self.is_busy();
        let rng = &mut self.clients[number as usize].rng;
        match rng.random_range(0..20) {
            _ if !is_busy => rng.random_range(0..MILLI),
            0..14 => rng.random_range(0..(gap / 100).max(2)),
            14..18 => rng.random_range(0..gap),
            18 => gap.saturating_sub(1) + rng.random_range(0..4 * self.scenario.tick()),
            // Resume at about the end of the reconnect window.
            _ => (window + 4 * self.scenario.tick())
                .saturating_sub(rng.random_range(0..8 * self.scenario.tick())),
        }
    }
}
