//! A simulated Redis, with the commands that servers use. The scripts are replaced by the model that the
//! end-to-end tests compare with the real scripts.

mod commands;
mod connection;
#[path = "../../../tests/e2e/redis/model.rs"]
mod model;
mod resp;

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use encke_server::testing::simulation::SimulatedStream;
use parking_lot::Mutex;

use connection::{RedisLink, ServerEnd};
use model::Model;

/// Number of a connection to Redis. Numbers are not reused.
pub(crate) type RedisConnection = u32;

/// The simulated Redis, shared with the server.
#[derive(Clone, Debug)]
pub(crate) struct Redis(Arc<Mutex<RedisState>>);

#[derive(Debug)]
struct RedisState {
    data: Model,
    connections: BTreeMap<RedisConnection, RedisLink>,
    opened: RedisConnection,
    /// Replication id, which changes with every new data set.
    replication: u32,
    /// Replication id of the generation that servers know, and the number of generations so far.
    generation: (u32, u64),
    /// Whether connections are refused.
    is_down: bool,
    /// Connections with bytes to move or commands to execute.
    changed: Vec<RedisConnection>,
    /// Number of push messages still to be lost.
    pushes_to_lose: u32,
    /// Maximum number of messages in a log.
    max_messages: usize,
    /// Time after the last message until a log expires, in milliseconds. `None`: never.
    age_ms: Option<u64>,
    /// Time of each log's newest message.
    touched: BTreeMap<String, u64>,
    /// Registered servers, with the end of each lease.
    servers: BTreeMap<String, u64>,
    now_ms: u64,
    epochs: u64,
}

impl Redis {
    pub(crate) fn new(max_messages: usize, age_ms: Option<u64>) -> Self {
        Self(Arc::new(Mutex::new(RedisState {
            data: Model::default(),
            connections: BTreeMap::new(),
            opened: 0,
            replication: 1,
            generation: (0, 0),
            is_down: false,
            changed: Vec::new(),
            pushes_to_lose: 0,
            max_messages,
            age_ms,
            touched: BTreeMap::new(),
            servers: BTreeMap::new(),
            now_ms: 0,
            epochs: 0,
        })))
    }

    /// Opens a connection for a server.
    pub(crate) fn connect(&self) -> io::Result<SimulatedStream> {
        let mut state = self.0.lock();
        if state.is_down {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        state.opened += 1;
        let number = state.opened;
        state.connections.insert(number, RedisLink::default());
        Ok(SimulatedStream::new(ServerEnd { redis: self.clone(), number }))
    }

    /// Sets the time, in milliseconds since 1970.
    pub(crate) fn set_time(&self, now_ms: u64) {
        self.0.lock().now_ms = now_ms;
    }

    /// Returns the connections with bytes to move or commands to execute.
    pub(crate) fn take_changed(&self) -> Vec<RedisConnection> {
        std::mem::take(&mut self.0.lock().changed)
    }

    /// Executes the commands received on a connection. Returns their number, or a description of an invalid
    /// command.
    pub(crate) fn work(&self, number: RedisConnection) -> Result<u32, String> {
        let mut state = self.0.lock();
        state.expire();
        state.work(number)
    }

    /// Delivers the bytes sent by Redis on a connection.
    pub(crate) fn deliver(&self, number: RedisConnection) {
        if let Some(connection) = self.0.lock().connections.get_mut(&number) {
            connection.deliver();
        }
    }

    pub(crate) fn is_up(&self) -> bool {
        !self.0.lock().is_down
    }

    /// Publishes on behalf of another server.
    pub(crate) fn publish(&self, channel: &str, data: &str) -> u64 {
        let mut state = self.0.lock();
        state.expire();
        let generation = state.learn_generation();
        state.publish(channel, data, None, generation).1
    }

    /// Returns the epoch and the last offset of a channel, if it exists.
    pub(crate) fn state_of(&self, channel: &str) -> Option<(String, u64)> {
        let state = self.0.lock();
        let (known, count) = state.generation;
        let present = if known == state.replication { count } else { count + 1 };
        let (epoch, last, generation) = state.data.state(channel)?;
        // A log of an earlier generation starts again with the next publish.
        (generation >= present).then_some((epoch, last))
    }

    /// Returns the messages of a channel after `since`.
    pub(crate) fn history(&self, channel: &str, since: u64) -> Vec<(u64, String)> {
        let state = self.0.lock();
        state.data.log(channel).iter().filter(|(offset, _)| *offset > since).cloned().collect()
    }

    /// Breaks all connections.
    pub(crate) fn cut(&self) {
        self.0.lock().cut();
    }

    /// Refuses connections and breaks the existing ones, or accepts connections again.
    pub(crate) fn set_down(&self, is_down: bool) {
        let mut state = self.0.lock();
        state.is_down = is_down;
        if is_down {
            state.cut();
        }
    }

    /// Stops transmission on all connections without closing them.
    pub(crate) fn silence_all(&self) {
        self.0.lock().connections.values_mut().for_each(|connection| connection.is_silent = true);
    }

    /// Loses the next `count` push messages.
    pub(crate) fn lose_pushes(&self, count: u32) {
        self.0.lock().pushes_to_lose = count;
    }

    /// Loses all data.
    pub(crate) fn empty(&self) {
        let mut state = self.0.lock();
        state.data.flush();
        state.touched.clear();
        state.servers.clear();
        state.generation = (0, 0);
        state.replication += 1;
        state.cut();
    }

    /// Fails over to a replica that lacks the newest messages of each log. `lost` returns the maximum number
    /// of messages to lose from a log.
    pub(crate) fn fail_over(&self, lost: impl FnMut() -> u64) {
        let mut state = self.0.lock();
        state.data.lose_tails(lost);
        state.replication += 1;
        state.cut();
    }
}

impl RedisState {
    fn cut(&mut self) {
        self.connections.values_mut().for_each(RedisLink::fail);
    }

    /// Removes expired logs.
    fn expire(&mut self) {
        let Some(age) = self.age_ms else { return };
        let now = self.now_ms;
        let old: Vec<String> =
            self.touched.extract_if(.., |_, at| *at + age <= now).map(|(name, _)| name).collect();
        old.iter().for_each(|channel| self.data.expire_log(channel));
    }
}
