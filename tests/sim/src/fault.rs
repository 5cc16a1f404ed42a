//! Classes of faults. A scenario allows some of them, and the shrinker removes them one by one.

use strum::VariantArray;

/// A class of faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, VariantArray)]
pub(crate) enum Fault {
    /// A connection is reset.
    Cut,
    /// A client vanishes: no more bytes move in either direction.
    HalfOpen,
    /// A client closes its connection, with or without a Close frame.
    Leave,
    /// A client stops reading for a while, or reads in small pieces.
    SlowReader,
    /// A pong is delayed, together with everything else that the client sends.
    LatePong,
    /// A connected client does not answer pings.
    LostPong,
    /// A client resumes with a state older than its latest one.
    OldSeq,
    /// A client resumes without a seq.
    NoSeq,
    /// A client acknowledges a seq that was never sent.
    FutureSeq,
    /// A client reconnects while its old connection is open.
    TakeOver,
    /// A worker takes a batch late.
    LateWorker,
    /// The runtime polls a woken task late.
    LateTask,
    /// The wheel advances late, but by less than the stall threshold.
    LateWheel,
    /// The server handles a request for a session after requests that arrived later, or a client gives up on a
    /// request before the server has handled it, and leaves the socket open.
    LateRequest,
    /// The engine answers late.
    LateEngine,
    /// The backend fails or answers late.
    Backend,
    /// The server stops for longer than the stall threshold.
    Stall,
    /// Every step takes time.
    SlowSteps,
    /// An administrator disconnects or closes a session.
    Admin,
    /// Commands are malformed, too many, or acknowledge too much.
    BadInput,
    /// Bytes arrive in pieces.
    Pieces,
    /// Bytes take time to arrive.
    Latency,
    /// The run ends with a drain of the server.
    Drain,
    /// The server shuts down gracefully, and the next one restores its snapshot.
    Restart,
    /// The snapshot's file cannot be created at a restart, or cannot be completed.
    SnapshotFails,
    /// The server is killed, and another one starts without a snapshot.
    Kill,
    /// A client returns from another server with newer positions. Only with Redis.
    Roam,
    /// All connections to Redis break.
    RedisCut,
    /// Redis is unreachable for a while.
    RedisDown,
    /// Connections to Redis fall silent without being closed.
    RedisSilent,
    /// Push messages of Redis are lost.
    RedisLostPush,
    /// Redis loses all data.
    RedisEmptied,
    /// Redis fails over to a replica that lacks the newest messages.
    RedisFailover,
    /// Redis restarts without losing data.
    RedisRestarted,
}

impl Fault {
    /// Faults of a single server without restarts.
    pub(crate) const OF_ONE_SERVER: &[Self] = Self::VARIANTS.split_at(Self::Restart as usize).0;

    /// Faults of Redis.
    pub(crate) const OF_REDIS: &[Self] = Self::VARIANTS.split_at(Self::RedisCut as usize).1;
}

/// A set of fault classes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Faults(u64);

impl Faults {
    pub(crate) fn with(self, fault: Fault) -> Self {
        Self(self.0 | 1 << fault as u8)
    }

    pub(crate) fn without(self, fault: Fault) -> Self {
        Self(self.0 & !(1 << fault as u8))
    }

    pub(crate) fn allows(self, fault: Fault) -> bool {
        self.0 & 1 << fault as u8 != 0
    }

    pub(crate) fn iter(self) -> impl Iterator<Item = Fault> {
        Fault::VARIANTS.iter().copied().filter(move |fault| self.allows(*fault))
    }
}

/// Number of injected faults by class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FaultCounts([u64; Fault::VARIANTS.len()]);

impl Default for FaultCounts {
    fn default() -> Self {
        Self([0; Fault::VARIANTS.len()])
    }
}

impl FaultCounts {
    pub(crate) fn count(&mut self, fault: Fault) {
        self.0[fault as usize] += 1;
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0).for_each(|(sum, more)| *sum += more);
    }

    pub(crate) fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    pub(crate) fn each(&self) -> impl Iterator<Item = (&Fault, u64)> {
        Fault::VARIANTS.iter().zip(self.0)
    }
}
