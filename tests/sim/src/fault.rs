//! What can go wrong, by class: a scenario allows some classes, and the shrinker takes them away one by one.

/// A class of faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Fault {
    /// A connection is reset.
    Cut,
    /// A client vanishes without a word: nothing moves any more, in either direction.
    HalfOpen,
    /// A client ends its stream without a Close frame, or says Close.
    Leave,
    /// A client stops reading for a while, or reads little by little.
    SlowReader,
    /// A pong, and everything else that the client says, comes late.
    LatePong,
    /// A client that is there does not answer pings.
    LostPong,
    /// A client comes back with less than it has.
    OldSeq,
    /// A client comes back without saying what it has.
    NoSeq,
    /// A client claims what was never sent.
    FutureSeq,
    /// A client comes back while its old connection is open.
    TakeOver,
    /// Workers take up a batch late.
    LateWorker,
    /// The runtime polls a woken task late.
    LateTask,
    /// The wheel turns late, but less than a stall.
    LateWheel,
    /// The engine of the logs answers late.
    LateEngine,
    /// The server is stopped for longer than the stall threshold.
    Stall,
    /// Every step takes time.
    SlowSteps,
    /// Administrators disconnect and end sessions.
    Admin,
    /// Commands that are malformed, too many, or claim too much.
    BadInput,
    /// Bytes arrive in pieces.
    Pieces,
    /// Bytes take a while.
    Latency,
    /// The server drains before the end.
    Drain,
    /// The server is told to stop, and another one takes up what it has written down.
    Restart,
    /// The server is killed, and another one begins with nothing.
    Kill,
    /// All connections to Redis break.
    RedisCut,
    /// Redis is not there for a while.
    RedisDown,
    /// Connections to Redis bring nothing any more, and do not end.
    RedisSilent,
    /// What Redis tells by itself gets lost.
    RedisLostPush,
    /// Redis has lost everything.
    RedisEmptied,
    /// Another Redis takes over, which lacks the newest messages.
    RedisFailover,
}

impl Fault {
    pub(crate) const ALL: [Self; 29] = [
        Self::Cut,
        Self::HalfOpen,
        Self::Leave,
        Self::SlowReader,
        Self::LatePong,
        Self::LostPong,
        Self::OldSeq,
        Self::NoSeq,
        Self::FutureSeq,
        Self::TakeOver,
        Self::LateWorker,
        Self::LateTask,
        Self::LateWheel,
        Self::LateEngine,
        Self::Stall,
        Self::SlowSteps,
        Self::Admin,
        Self::BadInput,
        Self::Pieces,
        Self::Latency,
        Self::Drain,
        Self::Restart,
        Self::Kill,
        Self::RedisCut,
        Self::RedisDown,
        Self::RedisSilent,
        Self::RedisLostPush,
        Self::RedisEmptied,
        Self::RedisFailover,
    ];

    /// Those that one server meets, whatever becomes of it.
    pub(crate) const OF_ONE_SERVER: &[Self] = Self::ALL.split_at(21).0;

    /// Those of Redis.
    pub(crate) const OF_REDIS: &[Self] = Self::ALL.split_at(23).1;
}

/// Some classes of faults.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Faults(u32);

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
        Fault::ALL.into_iter().filter(move |fault| self.allows(*fault))
    }
}

/// How many faults of each class were injected.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FaultCounts([u64; Fault::ALL.len()]);

impl FaultCounts {
    pub(crate) fn count(&mut self, fault: Fault) {
        self.0[fault as usize] += 1;
    }

    pub(crate) fn add(&mut self, other: &Self) {
        for (sum, more) in self.0.iter_mut().zip(other.0) {
            *sum += more;
        }
    }

    pub(crate) fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    pub(crate) fn each(&self) -> impl Iterator<Item = (Fault, u64)> {
        Fault::ALL.into_iter().zip(self.0)
    }
}
