//! Clients of long-polling: one request after another, each of which is held until there is something to answer.

use encke_server::simulation::{ConnectRequest, Poll};
use rand::RngExt;
use serde_json::value::RawValue;

use super::{Asked, answer};
use crate::scenario::{MILLI, SECOND, nanos};
use crate::schedule::{Action, ClientNumber, ConnectionNumber};
use crate::truth::channel_name;
use crate::world::World;

/// How long a client waits that was told of another poll of its session.
const SUPERSEDED_PAUSE: u64 = SECOND;

/// A request for the next answer, on its way or held.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    target: String,
    connect: Option<ConnectRequest>,
    /// The channel that it asks for, where it opens a session.
    channel: Option<u8>,
    asked: Option<Asked>,
    /// It says that no other request follows on its connection.
    is_last: bool,
}

impl Request {
    /// With a `/meta/connect`.
    pub(super) fn connect(connect: ConnectRequest) -> Self {
        let is_last = connect.is_last;
        Self { target: String::new(), connect: Some(connect), channel: None, asked: None, is_last }
    }
}

impl World {
    /// The client sends its next poll. As long as it is under way, others may overtake it.
    pub(super) fn request_poll(&mut self, number: ClientNumber, resume: Option<String>, seq: Option<u64>) {
        let channels = self.scenario.channels;
        let client = &mut self.clients[number as usize];
        let link = client.link.as_mut().expect("it has just connected");
        let connection = link.connection;
        let is_last = client.rng.random_bool(0.3);
        let channel = client.rng.random_range(0..channels);
        let mut request = Request {
            target: String::new(),
            connect: None,
            channel: None,
            asked: link.asked.clone(),
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
        let state = self.connection_mut(connection).expect("it is new");
        state.request = Some(Box::new(request));
        let latency = state.latency;
        self.now_or_after(latency, Action::Arrive(connection));
    }

    /// A poll has reached the server.
    pub(crate) fn arrive(&mut self, number: ConnectionNumber) {
        let Some(connection) = self.connection_mut(number) else { return };
        let Some(request) = connection.request.take() else { return };
        let (client, wire) = (connection.client, connection.wire.clone());
        let address = self.clients[client as usize].address;
        if let Some(connect) = request.connect {
            return self.connect_arrives(number, address, connect);
        }
        match self.server.serve_poll(wire.server_socket(), address, &request.target, request.is_last) {
            Ok(Poll { task, session, recovered }) => {
                self.serve(number, task);
                self.poll_begins(session.clone(), number);
                self.trace.say(self.now, format_args!("the poll {number} of {session} is there"));
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
        request: &Request,
        session: &str,
        recovered: bool,
    ) {
        let is_future = request.asked.as_ref().is_some_and(|asked| asked.is_future);
        let asked = request.asked.as_ref().map(|asked| asked.session.as_str());
        if recovered != (asked == Some(session)) || recovered && is_future {
            return self.violate("resume", format!("{request:?} got {session}, recovered: {recovered}"));
        }
        if !recovered && let Some(asked) = asked {
            // A new session or the old one, never both.
            self.check_session_may_be_lost(asked, is_future);
        }
        let client = &mut self.clients[client as usize];
        if let Some(link) = client.link.as_mut().filter(|link| link.connection == number) {
            link.channel = request.channel;
            link.greeted = recovered;
            if recovered && let Some(page) = &mut client.page {
                page.must_tell_seq = false;
            }
        }
    }

    /// What has come of an answer.
    pub(super) fn understand_answer(&mut self, number: ClientNumber, connection: ConnectionNumber) {
        let Some(link) = self.clients[number as usize].link.as_ref() else { return };
        if link.incoming.is_empty() {
            return;
        }
        let (status, body) = match answer::read(&link.incoming) {
            Ok(None) => return,
            Ok(Some(answer)) => (answer.status, answer.body.to_owned()),
            Err(error) => return self.violate("wire", format!("client {number} reads {error}")),
        };
        match status {
            200 => self.hear_array(number, connection, &body),
            409 => self.hear_superseded(number, connection),
            status => self.violate("replies", format!("client {number} reads {status}: {body}")),
        }
    }

    fn hear_array(&mut self, number: ClientNumber, connection: ConnectionNumber, body: &str) {
        let objects: Vec<&RawValue> = match serde_json::from_str(body) {
            Ok(objects) => objects,
            Err(error) => return self.violate("wire", format!("client {number} reads {body}: {error}")),
        };
        if objects.is_empty() {
            self.trace.say(self.now, format_args!("client {number} reads []"));
            self.check_hold_was_over(connection);
        }
        for object in objects {
            self.hear_text(number, object.get());
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

    /// It knows of another poll of its session, or there was one that it has given up.
    fn hear_superseded(&mut self, number: ClientNumber, connection: ConnectionNumber) {
        self.trace.say(self.now, format_args!("client {number} reads that {connection} was superseded"));
        if self.is_latest_poll(connection) {
            return self.violate("replies", format!("no other poll has come than {connection}"));
        }
        self.end_poll(number, connection, SUPERSEDED_PAUSE);
    }

    /// The poll is over, and the client will come with the next.
    pub(super) fn end_poll(&mut self, number: ClientNumber, connection: ConnectionNumber, pause: u64) {
        self.lose_link(number);
        self.plan_to_act(number, pause);
        self.consider(connection);
    }

    /// Before it polls again, if it waits.
    fn post_between_polls(&mut self, number: ClientNumber) {
        self.lose_link(number);
        self.post_something(number);
    }

    /// Mostly none. Some wait for so long that they may be missed.
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
            // As long as the session may live, give or take.
            _ => (window + 4 * self.scenario.tick())
                .saturating_sub(rng.random_range(0..8 * self.scenario.tick())),
        }
    }
}
