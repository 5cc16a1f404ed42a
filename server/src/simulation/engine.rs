//! Where the logs of a simulated server live.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use super::Socket;
use super::late_engine::LateEngine;
use super::socket::Adapter;
use crate::config::{EngineConfig, Settings};
use crate::engine::{LogEngine, MemoryEngine, RedisAddress, RedisEngine, RedisPlace, SimulatedRedis, Stream};
use crate::entropy::Entropy;
use crate::executor::Executor;
use crate::session::SessionRef;

/// Which engine a server has.
#[expect(missing_debug_implementations, reason = "functions have none")]
pub enum Engine {
    /// Memory. How late its next answer is, if it is late.
    Memory(Box<dyn Fn() -> Option<Duration> + Send + Sync>),
    /// A Redis that these connections lead to.
    Redis {
        /// Opens one, unless nobody listens.
        connect: Box<dyn Fn() -> io::Result<Box<dyn Socket>> + Send + Sync>,
    },
}

pub(super) fn make_engine(
    engine: Engine,
    memory: MemoryEngine<SessionRef>,
    late: Arc<AtomicUsize>,
    entropy: Entropy,
    executor: &Arc<dyn Executor>,
) -> Arc<dyn LogEngine<SessionRef>> {
    match engine {
        Engine::Memory(delay) => Arc::new(LateEngine { memory: Arc::new(memory), delay, late }),
        Engine::Redis { connect } => {
            let flags = ["engine.kind=redis", "engine.url=redis://simulated"].map(str::to_owned).to_vec();
            let config = Settings { flags, ..Settings::default() }.resolve();
            let Ok(EngineConfig::Redis(mut settings)) = config.map(|config| config.engine) else {
                unreachable!("the settings are right, and say so");
            };
            let connect = move || connect().map(|socket| Box::new(Adapter(socket)) as Box<dyn Stream>);
            settings.place = RedisPlace::At(RedisAddress::Simulated(SimulatedRedis::new(connect)));
            let MemoryEngine { channels, timeouts } = memory;
            Arc::new(RedisEngine::start(*settings, channels, timeouts, entropy, executor))
        }
    }
}
