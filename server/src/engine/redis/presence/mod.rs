//! Who follows a channel, on all servers that share it.
//!
//! Each server has a lease in Redis, which it renews with its probes. A question goes to all of them at once, by a feed on which all listen, and in the same
//! step Redis says which servers have a lease: these have to answer. Answers come to the asker's own feed. Those that do not come in time
//! are named.

mod pages;
mod questions;
mod wire;

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use redis::aio::MultiplexedConnection;
use redis::{RedisError, Value, cmd};
use tokio::sync::Semaphore;

use super::asked::Asked;
use super::connection::describe;
use super::keys::Keys;
use super::link::{Link, Up, has_to_begin_anew};
use super::pushes::Push;
use crate::channel::{ChannelName, Present, Subscriber, new_epoch};
use crate::engine::{Answer, EngineError, Presence};
use crate::entropy::Entropy;

use pages::{asked_for, first_index, merge};
use questions::{Pending, Questions};
use wire::{Question, answer, parse_answer};

/// How long answers are waited for.
const ANSWERS: Duration = Duration::from_millis(200);

/// How long a server counts as there since it was last heard of: three probes.
const LEASE: Duration = Duration::from_secs(15);

/// Answers of this server that are on their way to Redis. Who asks more gets none.
const MOST_ANSWERS: usize = 256;

/// How long a server that ends tries to say so.
const LEAVE: Duration = Duration::from_millis(500);

/// Stands for all other servers, where it is not known which there are.
const EVERYONE: &str = "*";

/// This server among those that share channels.
#[derive(Debug)]
pub(super) struct Peers {
    /// Its name: new with each process.
    server: String,
    /// Where all servers listen, and where this one listens for answers.
    feeds: [String; 2],
    questions: Questions,
    answers: Arc<Semaphore>,
    /// It is about to end.
    has_left: AtomicBool,
    /// Redis would not give it a lease, and that was said.
    lacks_lease: Arc<AtomicBool>,
}

impl Peers {
    pub(super) fn new(keys: &Keys, entropy: &Entropy) -> Self {
        let server = format!("n_{}", new_epoch(entropy));
        Self {
            feeds: [keys.questions(), keys.answers(&server)],
            server,
            questions: Questions::default(),
            answers: Arc::new(Semaphore::new(MOST_ANSWERS)),
            has_left: AtomicBool::new(false),
            lacks_lease: Arc::default(),
        }
    }

    /// Its name.
    pub(super) fn server(&self) -> &str {
        &self.server
    }

    /// Where this server listens for questions and answers.
    pub(super) fn feeds(&self) -> &[String] {
        &self.feeds
    }
}

impl<S: Subscriber> Link<S> {
    /// Those who follow a channel, a page of at most `limit`.
    pub(super) fn presence(
        self: &Arc<Self>,
        channel: &ChannelName,
        cursor: u64,
        limit: usize,
    ) -> Answer<Result<Presence, EngineError>> {
        let (from, each) = (first_index(cursor), asked_for(limit));
        let name = self.peers.server.clone();
        let here = self.channels.present(channel.as_str(), from, each);
        let Some(up) = self.up().filter(|_| !self.peers.has_left.load(Ordering::Relaxed)) else {
            let missing = vec![EVERYONE.to_owned()];
            return Answer::Ready(Ok(Presence {
                incomplete: missing,
                ..merge(vec![(name, here)], cursor, limit)
            }));
        };
        let Some(pending) = self.peers.questions.begin(&self.entropy) else {
            return Answer::Ready(Err(EngineError::Overloaded));
        };
        let question = Question {
            id: pending.id(),
            server: name.clone(),
            channel: channel.to_string(),
            from,
            limit: each,
        };
        let asked = Asked::new(self.say_it_is_here(up, Some(&question)), &self.executor);
        let (link, timeouts) = (Arc::clone(self), Arc::clone(&self.timeouts));
        let all = async move {
            let mut all = All { said: vec![(name, here)], silent: None };
            _ = timeouts.within(ANSWERS, all.gather(asked, pending, &link)).await;
            let All { said, silent } = all;
            let missing = silent.unwrap_or_else(|| [EVERYONE.to_owned()].into());
            Ok(Presence { incomplete: missing.into_iter().collect(), ..merge(said, cursor, limit) })
        };
        Answer::Later(all.boxed())
    }

    /// Renews this server's lease, and asks all others something. Returns the servers that have a lease.
    fn say_it_is_here(
        &self,
        up: Up,
        question: Option<&Question>,
    ) -> impl Future<Output = Result<BTreeSet<String>, RedisError>> + Send + use<S> {
        let lease_ms = LEASE.as_millis().to_string();
        let question = question.map(Question::write).unwrap_or_default();
        let (key, feed) = (self.keys.servers(), &self.peers.feeds[0]);
        let call = up.scripts.servers(&key, &self.peers.server, &lease_ms, feed, &question);
        async move {
            let mut commands = up.commands;
            let servers: Vec<String> = call.query_async(&mut commands).await?;
            Ok(servers.into_iter().collect())
        }
    }

    /// Says that this server is there, and counts the servers.
    pub(super) fn renew_lease(&self, up: Up) {
        if self.peers.has_left.load(Ordering::Relaxed) {
            return;
        }
        let (metrics, lacks) = (Arc::clone(self.channels.metrics()), Arc::clone(&self.peers.lacks_lease));
        let over = up.over.clone();
        let renewed = self.say_it_is_here(up, None).map(move |servers| match servers {
            Ok(servers) => {
                metrics.engine.servers(servers.len());
                lacks.store(false, Ordering::Relaxed);
            }
            Err(error) if has_to_begin_anew(&error) => over.cancel(),
            // Others do not ask it, then. The same once, however often it is tried.
            Err(error) if !lacks.swap(true, Ordering::Relaxed) => {
                tracing::warn!("no lease in Redis: {}", describe(&error));
            }
            Err(_) => {}
        });
        drop(Asked::new(renewed, &self.executor));
    }

    /// This server ends: nobody waits for it any more.
    pub(super) fn leave(&self) -> Answer<()> {
        self.peers.has_left.store(true, Ordering::Relaxed);
        let Some(up) = self.up() else { return Answer::Ready(()) };
        let (key, server) = (self.keys.servers(), self.peers.server.clone());
        let leave = async move {
            let mut commands = up.commands;
            _ = cmd("ZREM").arg(key).arg(server).query_async::<Value>(&mut commands).await;
        };
        Answer::Later(self.timeouts.within(LEAVE, leave).map(drop).boxed())
    }

    /// Takes what came on a feed, if it is of servers among themselves. Returns whether it is.
    pub(super) fn heard_of_peers(&self, feed: &str, push: &Push, commands: &MultiplexedConnection) -> bool {
        let [questions, answers] = &self.peers.feeds;
        if feed == questions {
            if let Some(question) = Question::parse(&push.payload) {
                self.answer(&question, commands.clone());
            }
            return true;
        }
        let is_answer = feed == answers;
        if is_answer && let Some(heard) = parse_answer(&push.payload) {
            self.peers.questions.heard(heard, push.payload.len());
        }
        is_answer
    }

    fn answer(&self, question: &Question, mut commands: MultiplexedConnection) {
        let Peers { server, answers, .. } = &self.peers;
        if question.server == *server {
            return;
        }
        let Ok(permit) = Arc::clone(answers).try_acquire_owned() else { return };
        let present = self.channels.present(&question.channel, question.from, question.limit);
        let mut publish = cmd("PUBLISH");
        publish.arg(self.keys.answers(&question.server)).arg(answer(question.id, server, present));
        let published = async move {
            let _permit = permit;
            // Whoever has asked names this server, if it does not come.
            _ = commands.send_packed_command(&publish).await;
        };
        drop(Asked::new(published, &self.executor));
    }
}

/// What is known of an answer so far.
struct All {
    said: Vec<(String, Present)>,
    /// Servers that have to answer and have not, once they are known.
    silent: Option<BTreeSet<String>>,
}

impl All {
    /// Comes to an end when all have answered.
    async fn gather<S: Subscriber>(
        &mut self,
        asked: impl Future<Output = Result<BTreeSet<String>, RedisError>>,
        mut pending: Pending,
        link: &Link<S>,
    ) {
        let mut servers = match asked.await {
            Ok(servers) => servers,
            Err(error) => return tracing::warn!("nobody was asked who is present: {}", describe(&error)),
        };
        servers.remove(&link.peers.server);
        let silent = self.silent.insert(servers);
        while !silent.is_empty() {
            let (server, present) = pending.next().await;
            // Anyone else is a stranger, or comes twice.
            if silent.remove(&server) {
                self.said.push((server, present));
            }
        }
    }
}
