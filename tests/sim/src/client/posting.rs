//! Commands in requests of their own: beside a poll or a stream of events, and between polls.

use encke_core::dialect::json::ServerMessage;
use encke_server::simulation::Answer;
use rand::RngExt;
use serde_json::value::RawValue;

use super::Question;
use super::bayeux::{Asks, handshaken};
use crate::fault::Fault;
use crate::scenario::{MILLI, SECOND};
use crate::schedule::{Action, ClientNumber, PostNumber};
use crate::tasks::TaskId;
use crate::world::World;

/// A request with commands.
#[derive(Debug)]
pub(crate) struct Post {
    client: ClientNumber,
    session: String,
    target: String,
    body: String,
    questions: Vec<(u64, Question)>,
    /// What a client of Bayeux asks for.
    asks: Option<Asks>,
    /// How long it takes to arrive, and its answer to come back, in nanoseconds.
    latency: u64,
    task: Option<TaskId>,
    answer: Option<Answer>,
    /// The channels to which it publishes, as bits.
    pub(crate) published_to: u8,
}

impl Post {
    /// It has reached the server.
    pub(crate) fn is_served(&self) -> bool {
        self.task.is_some()
    }

    pub(crate) fn is_answered(&self) -> bool {
        self.answer.is_some()
    }
}

impl World {
    /// The client sends one command by itself, unless it waits for the answer to another: requests may overtake each other.
    pub(super) fn post(&mut self, number: ClientNumber, command: &str, question: Question, published_to: u8) {
        let client = &self.clients[number as usize];
        if client.posting.is_some() {
            return;
        }
        let id = u64::from(self.next_post());
        // What follows its own close is not answered.
        let is_array =
            !command.starts_with("\"close\"") && self.clients[number as usize].rng.random_bool(0.3);
        let body = match is_array {
            true => format!(
                "[{{\"id\":{id},{command}}},{{\"id\":{},\"presence\":{{\"channel\":\"/even/0\"}}}}]",
                id + 1
            ),
            false => format!("{{\"id\":{id},{command}}}"),
        };
        let mut questions = vec![(id, question)];
        if is_array {
            questions.push((id + 1, Question::Other));
        }
        self.post_body(number, body, questions, published_to);
    }

    /// What no client should send.
    pub(super) fn post_nonsense(&mut self, number: ClientNumber) {
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
        questions: Vec<(u64, Question)>,
        published_to: u8,
    ) {
        let faults = self.faults_now();
        let post = self.next_post();
        let client = &mut self.clients[number as usize];
        let Some(page) = &client.page else { return };
        let latency = if faults.allows(Fault::Latency) { client.rng.random_range(0..300 * MILLI) } else { 0 };
        self.trace.say(self.now, format_args!("client {number} posts {}", body.get(..90).unwrap_or(&body)));
        client.posting = Some(post);
        let is_lost = faults.allows(Fault::Cut) && client.rng.random_bool(0.05);
        let lost_after = client.rng.random_range(0..2 * latency + SECOND);
        let (session, target) = (page.session.clone(), format!("/poll?resume={}", page.resume));
        let one = Post {
            client: number,
            session,
            target,
            body,
            questions,
            asks: None,
            latency,
            task: None,
            answer: None,
            published_to,
        };
        self.send_post(one, is_lost.then_some(lost_after));
    }

    /// A client of Bayeux asks for something, unless it waits for an answer.
    pub(super) fn ask_by_request(
        &mut self,
        number: ClientNumber,
        body: String,
        asks: Asks,
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
        self.trace.say(self.now, format_args!("client {number} asks {}", body.get(..150).unwrap_or(&body)));
        client.posting = Some(post);
        let is_lost = faults.allows(Fault::Cut) && client.rng.random_bool(0.05);
        let lost_after = is_lost.then(|| client.rng.random_range(0..2 * latency + SECOND));
        let one = Post {
            client: number,
            session,
            target: String::new(),
            body,
            questions: Vec::new(),
            asks: Some(asks),
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

    /// Commands have reached the server.
    pub(crate) fn carry_out_commands(&mut self, number: PostNumber) {
        let Some(post) = self.posts[number as usize].as_deref_mut() else { return };
        let address = self.clients[post.client as usize].address;
        let answers = std::sync::Arc::clone(&self.answers);
        let answer = move |answer| answers.lock().push((number, answer));
        let body = std::mem::take(&mut post.body);
        if post.asks.is_some() {
            let task = self.server.ask_bayeux(address, body, answer);
            let task = self.tasks.spawn(task);
            post.task = Some(task);
            return self.now_serves(task, crate::world::Served::Post(number));
        }
        let body = body.into_bytes();
        match self.server.carry_out(address, &post.target, body, answer) {
            Ok(task) => {
                let task = self.tasks.spawn(task);
                self.posts[number as usize].as_mut().expect("it is there").task = Some(task);
                self.now_serves(task, crate::world::Served::Post(number));
            }
            Err(refusal) => self.answer_post(number, refusal),
        }
    }

    /// The server has an answer to commands.
    pub(crate) fn answer_post(&mut self, number: PostNumber, answer: Answer) {
        let Some(post) = self.posts[number as usize].as_deref_mut() else { return };
        if let Some(asks) = &mut post.asks {
            asks.answered(&self.server);
            if let (Asks::Handshake { .. }, Some(session)) = (asks, handshaken(&answer)) {
                self.handshake_answered(&session);
            }
        }
        let Some(post) = self.posts[number as usize].as_deref_mut() else { return };
        post.answer = Some(answer);
        let latency = post.latency;
        let followed = |(_, question): &(u64, Question)| match question {
            Question::Subscribe { channel, .. } => Some(*channel),
            Question::Other => None,
        };
        let followed: Vec<u8> = post.questions.iter().filter_map(followed).collect();
        // A life that begins with it is known before what is under way of the one before is read.
        followed.into_iter().for_each(|log| self.look_at_log(log));
        self.now_or_after(latency, Action::Reply(number));
    }

    /// The client has lost the connection of its request. What was carried out, was.
    pub(crate) fn lose_post(&mut self, number: PostNumber) {
        let Some(post) = self.posts[number as usize].take() else { return };
        self.fault_counts.count(Fault::Cut);
        self.trace.say(self.now, format_args!("client {} loses a request", post.client));
        if let Some(task) = post.task {
            self.tasks.cancel(task);
        }
        let client = &mut self.clients[post.client as usize];
        client.posting = None;
        if let Some(bayeux) = &mut client.bayeux {
            bayeux.request_lost(&post.session);
            return self.plan_to_act(post.client, MILLI);
        }
        if let Some(page) = client.page.as_mut().filter(|page| page.session == post.session) {
            page.disconnected();
        }
    }

    /// The client reads the answer to its commands.
    pub(crate) fn hear_answer(&mut self, number: PostNumber) {
        let Some(post) = self.posts[number as usize].take() else { return };
        let Post { client, session, questions, answer, asks, .. } = *post;
        self.clients[client as usize].posting = None;
        let Some(Answer { status, body }) = answer else { return };
        let body = String::from_utf8_lossy(&body).into_owned();
        self.trace.say(
            self.now,
            format_args!("client {client} is answered {status} {}", body.get(..90).unwrap_or(&body)),
        );
        if let Some(asks) = asks {
            return self.hear_replies_of_bayeux(client, &session, asks, status, &body);
        }
        match status {
            200 => self.hear_replies(client, &session, questions, &body),
            410 => self.check_session_may_be_lost(&session, false),
            // Its session has moved, and nothing was done.
            503 if self.scenario.faults.allows(Fault::Restart) => {
                let page = self.clients[client as usize].page.as_mut();
                if let Some(page) = page.filter(|page| page.session == session) {
                    page.disconnected();
                }
            }
            400 | 413 if questions.is_empty() => {}
            _ => self.violate("replies", format!("client {client} is answered {status}: {body}")),
        }
    }

    fn hear_replies(
        &mut self,
        client: ClientNumber,
        session: &str,
        questions: Vec<(u64, Question)>,
        body: &str,
    ) {
        let Ok(objects) = serde_json::from_str::<Vec<&RawValue>>(body) else {
            return self.violate("wire", format!("client {client} is answered {body}"));
        };
        let mut questions = questions.into_iter();
        for object in objects {
            match serde_json::from_str(object.get()) {
                Ok(ServerMessage::Reply(reply)) => {
                    let Some(id) = reply.id else { continue };
                    match questions.next() {
                        Some((expected, question)) if expected == id => {
                            self.answer_question(client, Some(session), question, reply.outcome);
                        }
                        other => {
                            let what = format!("client {client}: a reply {id} where {other:?} is due");
                            return self.violate("replies", what);
                        }
                    }
                }
                Ok(ServerMessage::Goaway(_)) => return,
                _ => return self.violate("wire", format!("client {client} is answered {body}")),
            }
        }
        if let Some(question) = questions.next() {
            self.violate("replies", format!("client {client}: no reply to {question:?}"));
        }
    }
}
