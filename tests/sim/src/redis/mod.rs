//! A simulated Redis, with the commands that servers use. The scripts are replaced by the model that the
//! end-to-end tests compare with the real scripts.

mod commands;
#[path = "../../../tests/e2e/redis/model.rs"]
mod model;
mod resp;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;

use encke_server::testing::simulation::SimulatedStream;
use parking_lot::{Mutex, MutexGuard};

use crate::schedule::Direction;
use crate::wire::{Buffers, Network, SharedWire};
use model::Model;

/// Number of a connection to Redis. Numbers are not reused.
pub(crate) type RedisConnection = usize;

/// The simulated Redis, shared with the server.
#[derive(Clone, Debug)]
pub(crate) struct Redis(Arc<Mutex<RedisState>>);

#[derive(Debug, Default)]
pub(crate) struct RedisState {
    data: Model,
    links: BTreeMap<RedisConnection, RedisLink>,
    opened: RedisConnection,
    pub(crate) network: Arc<Network>,
    /// Replication id, which changes with every new data set.
    replication: u32,
    /// Replication id of the generation that servers know, and the number of generations so far.
    generation: (u32, u64),
    /// Whether connections are refused.
    pub(crate) is_down: bool,
    /// Number of push messages still to be lost.
    pub(crate) pushes_to_lose: u32,
    /// Maximum number of messages in a log.
    max_messages: usize,
    /// Time after the last message until a log expires, in milliseconds. `None`: never.
    age_ms: Option<u64>,
    /// Time of each log's newest message.
    touched: BTreeMap<String, u64>,
    /// Registered servers, with the end of each lease.
    servers: BTreeMap<String, u64>,
    /// Time in milliseconds since 1970.
    now_ms: u64,
    epochs: u64,
}

/// A connection, with Redis as the client of the simulated network.
#[derive(Debug, Default)]
struct RedisLink {
    wire: SharedWire,
    /// Bytes from the server that are not yet parsed.
    received: Vec<u8>,
    /// Feeds that the server subscribes to.
    feeds: BTreeSet<String>,
    /// Queued commands of an open transaction.
    transaction: Option<Vec<Vec<String>>>,
}

impl Redis {
    pub(crate) fn new(max_messages: usize, age_ms: Option<u64>) -> Self {
        let state = RedisState { replication: 1, max_messages, age_ms, ..RedisState::default() };
        Self(Arc::new(Mutex::new(state)))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, RedisState> {
        self.0.lock()
    }

    pub(crate) fn connect(&self) -> io::Result<SimulatedStream> {
        let mut state = self.0.lock();
        if state.is_down {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        state.links.retain(|_, link| !link.wire.lock().server_gone);
        state.opened += 1;
        let number = state.opened;
        let wire = SharedWire::new(number, Buffers::UNLIMITED, &state.network);
        let socket = wire.server_socket();
        state.links.insert(number, RedisLink { wire, ..RedisLink::default() });
        Ok(SimulatedStream::new(socket))
    }
}

impl RedisState {
    /// Advances the time, and removes expired logs.
    pub(crate) fn set_time(&mut self, now_ms: u64) {
        self.now_ms = now_ms;
        let Some(age) = self.age_ms else { return };
        let old = self.touched.extract_if(.., |_, at| *at + age <= now_ms);
        old.for_each(|(channel, _)| self.data.expire_log(&channel));
    }

    pub(crate) fn deliver(&self, connection: RedisConnection) {
        if let Some(link) = self.links.get(&connection) {
            link.wire.lock().carry(Direction::ToServer, usize::MAX);
        }
    }

    /// Publishes on behalf of another server.
    pub(crate) fn publish_as_peer(&mut self, channel: &str, data: &str) -> u64 {
        let generation = self.generation_of(self.replication);
        self.publish(channel, data, None, generation).1
    }

    /// Publishes on behalf of another server, without a push message to this one, which lags behind until it
    /// receives the next message or opens the channel.
    pub(crate) fn publish_unnoticed(&mut self, channel: &str, data: &str) {
        let lost = std::mem::replace(&mut self.pushes_to_lose, 1);
        self.publish_as_peer(channel, data);
        self.pushes_to_lose = lost;
    }

    /// Returns the epoch and the last offset of a channel, if it exists.
    pub(crate) fn state_of(&self, channel: &str) -> Option<(String, u64)> {
        let (known, count) = self.generation;
        let present = if known == self.replication { count } else { count + 1 };
        let (epoch, last, generation) = self.data.state(channel)?;
        // A log of an earlier generation starts again with the next publish.
        (generation >= present).then_some((epoch, last))
    }

    pub(crate) fn history(&self, channel: &str, since: u64) -> Vec<(u64, String)> {
        self.data.log(channel).iter().filter(|(offset, _)| *offset > since).cloned().collect()
    }

    pub(crate) fn cut(&mut self) {
        std::mem::take(&mut self.links).into_values().for_each(|link| link.wire.lock().reset());
    }

    /// Stops transmission on all connections without closing them.
    pub(crate) fn silence_all(&self) {
        self.links.values().for_each(|link| link.wire.lock().vanish());
    }

    pub(crate) fn empty(&mut self) {
        self.data.flush();
        self.touched.clear();
        self.servers.clear();
        self.generation = (0, 0);
        self.restart();
    }

    /// Restarts without losing data.
    pub(crate) fn restart(&mut self) {
        self.replication += 1;
        self.cut();
    }

    /// Fails over to a replica that lacks the newest messages of each log. `lost` returns the maximum number
    /// of messages to lose from a log.
    pub(crate) fn fail_over(&mut self, lost: impl FnMut() -> u64) {
        self.data.lose_tails(lost);
        self.restart();
    }

    fn send(&mut self, connection: RedisConnection, text: &str) {
        if let Some(link) = self.links.get(&connection) {
            link.wire.lock().to_server.sent.extend(text.as_bytes());
            self.network.changed.lock().push(connection);
        }
    }
}
