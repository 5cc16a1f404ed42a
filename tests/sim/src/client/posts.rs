//! Commands in separate requests, sent while a poll or an event stream is open, or between polls.

use encke_core::dialect::json::ServerMessage;
use encke_server::testing::simulation::HttpResponse;
use rand::RngExt;
use serde_json::value::RawValue;

use super::PendingCommand;
use super::bayeux::{BayeuxCommand, session_of_handshake};
use crate::fault::Fault;
use crate::scenario::{MILLI, SECOND};
use crate::schedule::{Action, ClientNumber, PostNumber};
use crate::tasks::TaskId;
use crate::world::Simulation;

/// A request with commands.
#[derive(Debug)]
pub(crate) struct Post {
    client: ClientNumber,
    session: String,
    target: String,
    body: String,
    pending_commands: Vec<(u64, PendingCommand)>,
    /// Command of a Bayeux client.
    command: Option<BayeuxCommand>,
    /// Latency of the request, and of the response, in nanoseconds.
    latency: u64,
    task: Option<TaskId>,
    answer: Option<HttpResponse>,
    /// Bit set of the channels to which the request publishes.
    pub(crate) published_to: u8,
}

impl Post {
    /// Returns whether the request has arrived at the server.
    pub(crate) fn is_served(&self) -> bool {
        self.task.is_some()
    }

    pub(crate) fn is_answered(&self) -> bool {
        self.answer.is_some()
    }
}

impl Simulation {
    /// Sends a command in a separate request, unless another one is pending: requests may overtake each
    /// other.
    pub(super) fn post(
        &mut self,
        number: ClientNumber,
        command: &str,
        pending: PendingCommand,
        published_to: u8,
    ) {
        let client = &self.clients[number as usize];
        if client.posting.is_some() {
            return;
        }
        let id = u64::from(self.next_post());
        // Commands after a close are not answered.
        let is_array =
            !command.starts_with("\"close\"") && self.clients[number as usize].rng.random_bool(0.3);
        let body = match is_array {
            true => format!(
                "[{{\"id\":{id},{command}}},{{\"id\":{},\"presence\":{{\"channel\":\"/even/0\"}}}}]",
                id + 1
            ),
            false => format!("{{\"id\":{id},{command}}}"),
        };
        let mut pending_commands = vec![(id, pending)];
        if is_array {
            pending_commands.push((id + 1, PendingCommand::Other));
        }
        self.post_body(number, body, pending_commands, published_to);
    }

    /// Sends an invalid request.
    pub(super) fn post_invalid_request(&mut self, number: ClientNumber) {
        let many = format!("[{}{{\"no_such_command\":{{}}}}]", "{\"no_such_command\":{}},".repeat(64));
        let bodies = ["this is not JSON", "[]", "{\"ack\":{\"seq\":1000000}}", "[7]", many.as_str(), ""];
        let client = &mut self.clients[number as usize];
        let body = bodies[client.rng.random_range(0..bodies.len())].to_owned();
        if client.posting.is_none() {
            self.post_body(number, body, Vec::new(), 0);
        }
    }

    fn post_body(
        &mut self,
        number: ClientNumber,
        body: String,
        pending_commands: Vec<(u64, PendingCommand)>,
        published_to: u8,
    ) {
        let faults = self.faults_now();
        let post = self.next_post();
        let client = &mut self.clients[number as usize];
        let Some(model) = &client.model else { return };
        let latency = if faults.allows(Fault::Latency) { client.rng.random_range(0..300 * MILLI) } else { 0 };
        self.trace.log(self.now, format_args!("client {number} posts {}", body.get(..90).unwrap_or(&body)));
        client.posting = Some(post);
        let is_lost = faults.allows(Fault::Cut) && client.rng.random_bool(0.05);
        let lost_after = client.rng.random_range(0..2 * latency + SECOND);
        let (session, target) = (model.session.clone(), format!("/poll?resume={}", model.resume));
        let one = Post {
            client: number,
            session,
            target,
            body,
            pending_commands,
            command: None,
            latency,
            task: None,
            answer: None,
            published_to,
        };
        self.send_post(one, is_lost.then_some(lost_after));
    }

    /// Sends a Bayeux command in a separate request, unless another one is pending.
    pub(super) fn send_by_request(
        &mut self,
        number: ClientNumber,
        body: String,
        command: BayeuxCommand,
        published_to: u8,
    ) {
        let faults = self.faults_now();
        let post = self.next_post();
        let client = &mut self.clients[number as usize];
        if client.posting.is_some() {
            return;
        }
        let session = client.session().unwrap_or_default().to_owned();
        let latency = if faults.allows(Fault::Latency) { client.rng.random_range(0..300 * MILLI) } else { 0 };
        self.trace.log(self.now, format_args!("client {number} sends {}", body.get(..150).unwrap_or(&body)));
        client.posting = Some(post);
        let is_lost = faults.allows(Fault::Cut) && client.rng.random_bool(0.05);
        let lost_after = is_lost.then(|| client.rng.random_range(0..2 * latency + SECOND));
        let one = Post {
            client: number,
            session,
            target: String::new(),
            body,
            pending_commands: Vec::new(),
            command: Some(command),
            latency,
            task: None,
            answer: None,
            published_to,
        };
        self.send_post(one, lost_after);
    }

    fn send_post(&mut self, post: Post, lost_after: Option<u64>) {
        let (number, latency) = (self.next_post(), post.latency);
        self.posts.push(Some(Box::new(post)));
        self.now_or_after(latency, Action::Command(number));
        if let Some(after) = lost_after {
            self.schedule.plan(self.now + after, Action::LosePost(number));
        }
    }

    fn next_post(&self) -> PostNumber {
        PostNumber::try_from(self.posts.len()).expect("few requests")
    }

    pub(crate) fn post_of(&self, number: PostNumber) -> Option<&Post> {
        self.posts.get(number as usize)?.as_deref()
    }

    /// Handles the arrival of a request at the server.
    pub(crate) fn execute_post(&mut self, number: PostNumber) {
        let Some(post) = self.posts[number as usize].as_deref_mut() else { return };
        let address = self.clients[post.client as usize].address;
        let answers = std::sync::Arc::clone(&self.answers);
        let answer = move |answer| answers.lock().push((number, answer));
        let body = std::mem::take(&mut post.body);
        if post.command.is_some() {
            let task = self.server.serve_bayeux_commands(address, body, answer);
            let task = self.tasks.spawn(task);
            post.task = Some(task);
            return self.now_serves(task, crate::world::TaskSubject::Post(number));
        }
        let body = body.into_bytes();
        match self.server.execute_commands(address, &post.target, body, answer) {
            Ok(task) => {
                let task = self.tasks.spawn(task);
                self.posts[number as usize].as_mut().expect("a pending request").task = Some(task);
                self.now_serves(task, crate::world::TaskSubject::Post(number));
            }
            Err(refusal) => self.record_post_answer(number, refusal),
        }
    }

    /// Handles the server's response to a request.
    pub(crate) fn record_post_answer(&mut self, number: PostNumber, answer: HttpResponse) {
        let Some(post) = self.posts[number as usize].as_deref_mut() else { return };
        if let Some(command) = &mut post.command {
            command.answered(&self.server);
            if let (BayeuxCommand::Handshake { .. }, Some(session)) = (command, session_of_handshake(&answer))
            {
                self.handshake_answered(&session);
            }
        }
        let Some(post) = self.posts[number as usize].as_deref_mut() else { return };
        post.answer = Some(answer);
        let latency = post.latency;
        let followed = |(_, pending): &(u64, PendingCommand)| match pending {
            PendingCommand::Subscribe { channel, .. } => Some(*channel),
            PendingCommand::Other => None,
        };
        let followed: Vec<u8> = post.pending_commands.iter().filter_map(followed).collect();
        // Record a new epoch that the command may have started, before the client reads messages of the
        // former epoch that are still in transit.
        followed.into_iter().for_each(|log| self.record_published(log));
        self.now_or_after(latency, Action::Reply(number));
    }

    /// Breaks the connection of a request. Its commands may have been executed.
    pub(crate) fn lose_post(&mut self, number: PostNumber) {
        let Some(post) = self.posts[number as usize].take() else { return };
        self.fault_counts.count(Fault::Cut);
        self.trace.log(self.now, format_args!("client {} loses a request", post.client));
        if let Some(task) = post.task {
            self.tasks.cancel(task);
        }
        let client = &mut self.clients[post.client as usize];
        client.posting = None;
        if let Some(bayeux) = &mut client.bayeux {
            bayeux.request_lost(&post.session);
            return self.plan_to_act(post.client, MILLI);
        }
        if let Some(model) = client.model.as_mut().filter(|model| model.session == post.session) {
            model.disconnected();
        }
    }

    /// Lets the client read the response to its commands.
    pub(crate) fn receive_post_answer(&mut self, number: PostNumber) {
        let Some(post) = self.posts[number as usize].take() else { return };
        let Post { client, session, pending_commands, answer, command, .. } = *post;
        self.clients[client as usize].posting = None;
        let Some(HttpResponse { status, body }) = answer else { return };
        let body = String::from_utf8_lossy(&body).into_owned();
        self.trace.log(
            self.now,
            format_args!("client {client} is answered {status} {}", body.get(..90).unwrap_or(&body)),
        );
        if let Some(command) = command {
            return self.receive_bayeux_answer(client, &session, command, status, &body);
        }
        match status {
            200 => self.receive_replies(client, &session, pending_commands, &body),
            410 => self.check_session_may_be_lost(&session, false),
            // The session has moved, and no command was executed.
            503 if self.scenario.faults.allows(Fault::Restart) => {
                let model = self.clients[client as usize].model.as_mut();
                if let Some(model) = model.filter(|model| model.session == session) {
                    model.disconnected();
                }
            }
            400 | 413 if pending_commands.is_empty() => {}
            _ => self.violate("replies", format!("client {client} is answered {status}: {body}")),
        }
    }

    fn receive_replies(
        &mut self,
        client: ClientNumber,
        session: &str,
        pending_commands: Vec<(u64, PendingCommand)>,
        body: &str,
    ) {
        let Ok(objects) = serde_json::from_str::<Vec<&RawValue>>(body) else {
            return self.violate("wire", format!("client {client} is answered {body}"));
        };
        let mut pending_commands = pending_commands.into_iter();
        for object in objects {
            match serde_json::from_str(object.get()) {
                Ok(ServerMessage::Reply(reply)) => {
                    let Some(id) = reply.id else { continue };
                    match pending_commands.next() {
                        Some((expected, pending)) if expected == id => {
                            self.receive_command_reply(client, Some(session), pending, reply.outcome);
                        }
                        other => {
                            let what = format!("client {client}: reply {id} instead of {other:?}");
                            return self.violate("replies", what);
                        }
                    }
                }
                Ok(ServerMessage::Goaway(_)) => return,
                _ => return self.violate("wire", format!("client {client} is answered {body}")),
            }
        }
        if let Some(pending) = pending_commands.next() {
            self.violate("replies", format!("client {client}: no reply to {pending:?}"));
        }
    }
}
