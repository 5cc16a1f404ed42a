//! Engine of a simulated server.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use encke_base::entropy::Entropy;
use encke_base::executor::Executor;
use encke_broker::engine::{
    LogEngine, MemoryEngine, RedisAddress, RedisEngine, RedisLocation, SimulatedRedis,
};

use super::delayed_engine::DelayedEngine;
use super::socket::SimulatedStream;
use crate::config::{EngineConfig, Settings};
use crate::session::SessionRef;

/// Kind of engine.
#[expect(missing_debug_implementations, reason = "functions do not implement Debug")]
pub enum SimulatedEngine {
    /// The memory engine. The function returns the delay of the next response, or `None` if it is immediate.
    Memory(Box<dyn Fn() -> Option<Duration> + Send + Sync>),
    /// A simulated Redis.
    Redis {
        /// Opens a connection, or fails if Redis is down.
        connect: Box<dyn Fn() -> io::Result<SimulatedStream> + Send + Sync>,
    },
}

pub(super) fn make_engine(
    engine: SimulatedEngine,
    memory: MemoryEngine<SessionRef>,
    outstanding: Arc<AtomicUsize>,
    entropy: Entropy,
    executor: &Arc<dyn Executor>,
) -> Arc<dyn LogEngine<SessionRef>> {
    match engine {
        SimulatedEngine::Memory(delay) => {
            Arc::new(DelayedEngine { memory: Arc::new(memory), delay, outstanding })
        }
        SimulatedEngine::Redis { connect } => {
            let flags = ["engine.kind=redis", "engine.url=redis://simulated"].map(str::to_owned).to_vec();
            let config = Settings { flags, ..Settings::default() }.resolve();
            let Ok(EngineConfig::Redis(mut settings)) = config.map(|config| config.engine) else {
                unreachable!("the settings are valid and select Redis");
            };
            let connect = move || connect().map(|SimulatedStream(stream)| stream);
            settings.location = RedisLocation::Address(RedisAddress::Simulated(SimulatedRedis::new(connect)));
            let MemoryEngine { channels, timeouts } = memory;
            Arc::new(RedisEngine::start(*settings, channels, timeouts, entropy, executor, None, None))
        }
    }
}
