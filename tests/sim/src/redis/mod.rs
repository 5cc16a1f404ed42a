//! A Redis, as far as servers use it: its connections, and what its commands do. What scripts do is the model that is held against the real
//! ones in the end-to-end tests.

mod commands;
mod connection;
#[path = "../../../tests/e2e/redis/model.rs"]
mod model;
mod resp;

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use encke_server::simulation::Socket;
use parking_lot::Mutex;

use connection::{Connection, ServerEnd};
use model::Model;

/// A connection to Redis, by its number. No number is used twice.
pub(crate) type RedisConnection = u32;

/// Shared with the server, which connects.
#[derive(Clone, Debug)]
pub(crate) struct Redis(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    data: Model,
    connections: BTreeMap<RedisConnection, Connection>,
    opened: RedisConnection,
    /// Which history of it this is.
    replication: u32,
    /// That of the history that servers know, and how many there were.
    life: (u32, u64),
    /// Nobody is there.
    is_down: bool,
    /// Connections at which something has happened that the scheduler must know of.
    news: Vec<RedisConnection>,
    /// The next that is told to servers gets lost on its way.
    loses_pushes: u32,
    /// Logs keep so many messages.
    most_messages: usize,
    /// After so many milliseconds without a message a log is gone, unless it is for ever.
    age_ms: Option<u64>,
    /// When each log got its newest message.
    touched: BTreeMap<String, u64>,
    /// Servers that are there, and until when they are taken to be.
    servers: BTreeMap<String, u64>,
    now_ms: u64,
    epochs: u64,
}

impl Redis {
    pub(crate) fn new(most_messages: usize, age_ms: Option<u64>) -> Self {
        Self(Arc::new(Mutex::new(State {
            data: Model::default(),
            connections: BTreeMap::new(),
            opened: 0,
            replication: 1,
            life: (0, 0),
            is_down: false,
            news: Vec::new(),
            loses_pushes: 0,
            most_messages,
            age_ms,
            touched: BTreeMap::new(),
            servers: BTreeMap::new(),
            now_ms: 0,
            epochs: 0,
        })))
    }

    /// A server connects.
    pub(crate) fn connect(&self) -> io::Result<Box<dyn Socket>> {
        let mut state = self.0.lock();
        if state.is_down {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        state.opened += 1;
        let number = state.opened;
        state.connections.insert(number, Connection::default());
        Ok(Box::new(ServerEnd { redis: self.clone(), number }))
    }

    /// Time goes on, in milliseconds since 1970.
    pub(crate) fn pass_to(&self, now_ms: u64) {
        self.0.lock().now_ms = now_ms;
    }

    /// Connections that have something to move or to do.
    pub(crate) fn take_news(&self) -> Vec<RedisConnection> {
        std::mem::take(&mut self.0.lock().news)
    }

    /// Carries out what has come on a connection. Returns how many commands that were, or what is wrong with them.
    pub(crate) fn work(&self, number: RedisConnection) -> Result<u32, String> {
        let mut state = self.0.lock();
        state.expire();
        state.work(number)
    }

    /// What Redis has said on a connection arrives.
    pub(crate) fn deliver(&self, number: RedisConnection) {
        if let Some(connection) = self.0.lock().connections.get_mut(&number) {
            connection.deliver();
        }
    }

    pub(crate) fn is_there(&self) -> bool {
        !self.0.lock().is_down
    }

    /// Another server publishes.
    pub(crate) fn publish(&self, channel: &str, data: &str) -> u64 {
        let mut state = self.0.lock();
        state.expire();
        let life = state.learn_life();
        state.publish(channel, data, None, life).1
    }

    /// The epoch and the newest message of a channel, if there is one.
    pub(crate) fn state_of(&self, channel: &str) -> Option<(String, u64)> {
        let state = self.0.lock();
        let (known, count) = state.life;
        let present = if known == state.replication { count } else { count + 1 };
        let (epoch, last, life) = state.data.state(channel)?;
        // In the present life, it has not begun yet.
        (life >= present).then_some((epoch, last))
    }

    /// The messages of a channel after this one.
    pub(crate) fn history(&self, channel: &str, since: u64) -> Vec<(u64, String)> {
        let state = self.0.lock();
        state.data.log(channel).iter().filter(|(offset, _)| *offset > since).cloned().collect()
    }

    /// All connections break.
    pub(crate) fn cut(&self) {
        self.0.lock().cut();
    }

    /// Nobody can connect, or somebody can again.
    pub(crate) fn set_down(&self, is_down: bool) {
        let mut state = self.0.lock();
        state.is_down = is_down;
        if is_down {
            state.cut();
        }
    }

    /// Nothing moves any more on a connection, and nobody says so.
    pub(crate) fn silence_all(&self) {
        self.0.lock().connections.values_mut().for_each(|connection| connection.is_silent = true);
    }

    /// So many of the next messages that it tells servers get lost.
    pub(crate) fn lose_pushes(&self, count: u32) {
        self.0.lock().loses_pushes = count;
    }

    /// It has lost everything, and begins anew.
    pub(crate) fn empty(&self) {
        let mut state = self.0.lock();
        state.data.flush();
        state.touched.clear();
        state.servers.clear();
        state.life = (0, 0);
        state.replication += 1;
        state.cut();
    }

    /// Another one takes over, which lacks the newest messages, this many of each log at most.
    pub(crate) fn fail_over(&self, lost: impl FnMut() -> u64) {
        let mut state = self.0.lock();
        state.data.lose_tails(lost);
        state.replication += 1;
        state.cut();
    }
}

impl State {
    fn cut(&mut self) {
        self.connections.values_mut().for_each(Connection::fail);
    }

    /// Logs become too old.
    fn expire(&mut self) {
        let Some(age) = self.age_ms else { return };
        let now = self.now_ms;
        let old: Vec<String> =
            self.touched.extract_if(.., |_, at| *at + age <= now).map(|(name, _)| name).collect();
        old.iter().for_each(|channel| self.data.expire_log(channel));
    }
}
