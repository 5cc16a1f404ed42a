//! Commands in separate requests, sent while a poll or an event stream is open, or between polls.

use std::sync::Arc;

use encke_core::dialect::json::ServerMessage;
use encke_server::testing::simulation::HttpResponse;
use rand::RngExt;
use serde_json::value::RawValue;

use super::bayeux::{BayeuxCommand, ExpectedReply, session_of_handshake};
use super::link::{PendingCommand, SentCommand};
use crate::fault::Fault;
use crate::scenario::{MILLI, SECOND};
use crate::schedule::{Action, ClientNumber, PostNumber};
use crate::tasks::{TaskNumber, TaskSubject};
use crate::world::Simulation;

/// A request with commands.
#[derive(Debug)]
pub(crate) struct Post {
    client: ClientNumber,
    session: String,
    body: String,
    commands: PostedCommands,
    /// Latency of the request, and of the response, in nanoseconds.
    latency: u64,
    task: Option<TaskNumber>,
    answer: Option<HttpResponse>,
    /// Bit set of the channels to which the request publishes.
    pub(crate) published_to: u8,
}

/// The commands of a request, in order. Empty if the request is invalid.
#[derive(Debug)]
pub(super) enum PostedCommands {
    Json { target: String, pending: Vec<PendingCommand> },
    Bayeux(Vec<ExpectedReply>),
}

impl Post {
    /// Returns whether the request has arrived at the server, and has no response yet.
    pub(crate) fn is_executing(&self) -> bool {
        self.task.is_some() && self.answer.is_none()
    }
}

impl Simulation {
    /// Sends a separate request, unless another one is pending: requests may overtake each other.
    pub(super) fn post(
        &mut self,
        client: ClientNumber,
        body: String,
        commands: PostedCommands,
        published_to: u8,
    ) {
        if self.clients[client].posting.is_some() {
            return;
        }
        let (number, latency) = (self.posts.len(), self.random_latency());
        let session = self.clients[client].session().unwrap_or_default().to_owned();
        self.trace.log(self.now, format_args!("client {client} posts {}", body.get(..150).unwrap_or(&body)));
        self.clients[client].posting = Some(number);
        let (task, answer) = (None, None);
        let post = Post { client, session, body, commands, latency, task, answer, published_to };
        self.posts.push(Some(Box::new(post)));
        self.now_or_after(latency, Action::Command(number));
        if self.faults_now().allows(Fault::Cut) && self.rng.random_bool(0.05) {
            self.plan_within(2 * latency + SECOND, Action::LosePost(number));
        }
    }

    pub(crate) fn execute_post(&mut self, number: PostNumber) {
        let Some(post) = self.posts[number].as_deref_mut() else { return };
        let address = self.clients[post.client].address;
        let answers = Arc::clone(&self.answers);
        let answer = move |answer| answers.lock().push((number, answer));
        let body = std::mem::take(&mut post.body);
        let task = match &post.commands {
            PostedCommands::Bayeux(_) => Ok(self.server.serve_bayeux_commands(address, body, answer)),
            PostedCommands::Json { target, .. } => {
                self.server.execute_commands(address, target, body.into_bytes(), answer)
            }
        };
        match task {
            Ok(task) => post.task = Some(self.tasks.spawn(task, Some(TaskSubject::Post(number)))),
            Err(refusal) => self.record_post_answer(number, refusal),
        }
    }

    /// Handles the server's response to a request.
    pub(crate) fn record_post_answer(&mut self, number: PostNumber, answer: HttpResponse) {
        let Some(post) = self.posts[number].as_deref_mut() else { return };
        let (mut subscribed, mut opened) = (Vec::new(), None);
        match &mut post.commands {
            PostedCommands::Json { pending, .. } => {
                subscribed.extend(pending.iter().filter_map(|it| match it.command {
                    SentCommand::Subscribe(log, _) => Some(log),
                    _ => None,
                }));
            }
            PostedCommands::Bayeux(expected) => {
                for ExpectedReply { command, .. } in expected {
                    command.answered(&self.server);
                    if let BayeuxCommand::Handshake { .. } = command {
                        opened = session_of_handshake(&answer);
                    }
                }
            }
        }
        post.answer = Some(answer);
        let latency = post.latency;
        self.now_or_after(latency, Action::Reply(number));
        // Record a new epoch that the command may have started, before the client reads messages of the
        // former epoch that are still in transit.
        subscribed.into_iter().for_each(|log| self.record_published(log));
        if let Some(session) = opened {
            self.handshake_answered(&session);
        }
    }

    /// Breaks the connection of a request. Its commands may have been executed.
    pub(crate) fn lose_post(&mut self, number: PostNumber) {
        let Some(post) = self.posts[number].take() else { return };
        let Post { client, session, task, .. } = *post;
        self.totals.faults.count(Fault::Cut);
        self.trace.log(self.now, format_args!("client {client} loses a request"));
        if let Some(task) = task {
            self.tasks.cancel(task);
        }
        self.clients[client].posting = None;
        self.clients[client].commands_lost(&session);
        if self.clients[client].bayeux.is_some() {
            self.plan_to_act(client, MILLI);
        }
    }

    pub(crate) fn receive_post_answer(&mut self, number: PostNumber) {
        let Some(post) = self.posts[number].take() else { return };
        let Post { client, session, commands, answer, .. } = *post;
        self.clients[client].posting = None;
        let Some(HttpResponse { status, body }) = answer else { return };
        let body = String::from_utf8_lossy(&body).into_owned();
        let words = body.get(..90).unwrap_or(&body);
        self.trace.log(self.now, format_args!("client {client} is answered {status} {words}"));
        match (status, commands) {
            (200, PostedCommands::Bayeux(expected)) if !expected.is_empty() => {
                self.receive_bayeux_answer(client, expected, &body);
            }
            (200, PostedCommands::Json { pending, .. }) => {
                self.receive_replies(client, &session, pending, &body);
            }
            (410, PostedCommands::Json { .. }) => self.check_session_may_be_lost(&session, false),
            // The session has moved, and no command was executed.
            (503, PostedCommands::Json { .. }) if self.scenario.faults.allows(Fault::Restart) => {
                self.clients[client].commands_lost(&session);
            }
            (200 | 400 | 413, PostedCommands::Bayeux(none)) if none.is_empty() => {}
            (400 | 413, PostedCommands::Json { pending: none, .. }) if none.is_empty() => {}
            _ => self.violate("replies", format!("client {client} is answered {status}: {body}")),
        }
    }

    fn receive_replies(
        &mut self,
        client: ClientNumber,
        session: &str,
        pending: Vec<PendingCommand>,
        body: &str,
    ) {
        let Ok(objects) = serde_json::from_str::<Vec<&RawValue>>(body) else {
            return self.violate("wire", format!("client {client} is answered {body}"));
        };
        let mut pending = pending.into_iter();
        for object in objects {
            let reply = match serde_json::from_str(object.get()) {
                Ok(ServerMessage::Reply(reply)) => reply,
                Ok(ServerMessage::Goaway(_)) => return,
                _ => return self.violate("wire", format!("client {client} is answered {body}")),
            };
            let Some(id) = reply.id else { continue };
            match pending.next() {
                Some(pending) if pending.id == id => {
                    self.receive_command_reply(client, Some(session), pending, reply.outcome, object.get());
                }
                other => {
                    let what = format!("client {client}: reply {id} instead of {other:?}");
                    return self.violate("replies", what);
                }
            }
        }
        if let Some(pending) = pending.next() {
            self.violate("replies", format!("client {client}: no reply to {pending:?}"));
        }
    }
}
