//! Planned actions in virtual time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::redis::RedisConnection;
use crate::tasks::TaskNumber;

// Numbers of these kinds are not reused.
pub(crate) type ClientNumber = usize;
pub(crate) type ConnectionNumber = usize;
pub(crate) type PostNumber = usize;

/// Stage of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Stage {
    /// Clients are active and faults happen.
    Busy,
    /// Faults have stopped: clients catch up, or the server notices that they are disconnected.
    Calm,
    /// All clients leave, or the server drains.
    Leaving,
    Over,
}

/// Direction in which bytes move.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Direction {
    ToServer,
    ToClient,
}

/// An action that the scheduler can choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Action {
    /// The wheel's loop runs one iteration, if this is the latest plan.
    Wheel(u32),
    /// A worker handles a batch.
    Work,
    /// The server reads from a parked connection.
    ReadParked,
    /// A woken task is polled.
    Poll(TaskNumber),
    /// Bytes move from one kernel to the other.
    Move(ConnectionNumber, Direction),
    /// A client acts on its own, if this is its latest plan.
    Act(ClientNumber, u32),
    /// A client reads.
    Read(ConnectionNumber),
    /// A poll arrives at the server.
    Arrive(ConnectionNumber),
    /// A request with commands arrives at the server.
    Command(PostNumber),
    /// The client reads the response to its commands.
    Reply(PostNumber),
    /// The client loses the connection that carries its commands.
    LosePost(PostNumber),
    /// A client sends a delayed pong.
    Answer(ConnectionNumber, u64),
    /// A message is published through the API.
    Publish,
    /// An administrator disconnects or closes a session.
    Administrate,
    /// The server stops for a while.
    Stall,
    /// The server begins to shut down, or is killed.
    Restart,
    /// The server with this number, which is shutting down, writes its snapshot and exits, unless it was
    /// killed earlier.
    Replace(u32),
    /// Redis executes the commands received on a connection.
    Redis(RedisConnection),
    /// Bytes from Redis arrive on a connection.
    RedisDelivers(RedisConnection),
    RedisFault,
    RedisRecovers,
    /// A stage of the run ends, unless it has already ended.
    EndStage(Stage),
}

/// Planned actions, ordered by time and then by the order of planning.
#[derive(Debug, Default)]
pub(crate) struct Schedule {
    /// Each action with its time, its number, and whether it was delayed.
    ahead: BinaryHeap<Reverse<(u64, u64, bool, Action)>>,
    planned: u64,
    delayed: usize,
}

impl Schedule {
    pub(crate) fn plan(&mut self, at: u64, action: Action) {
        self.push(at, false, action);
    }

    /// Delays `action`, which the server could perform now, until `at`.
    pub(crate) fn delay(&mut self, at: u64, action: Action) {
        self.delayed += 1;
        self.push(at, true, action);
    }

    fn push(&mut self, at: u64, is_delayed: bool, action: Action) {
        self.planned += 1;
        self.ahead.push(Reverse((at, self.planned, is_delayed, action)));
    }

    pub(crate) fn next_at(&self) -> Option<u64> {
        self.ahead.peek().map(|Reverse((at, ..))| *at)
    }

    /// Takes the next action due at `now`. Returns it, and whether it was delayed.
    pub(crate) fn take_due(&mut self, now: u64) -> Option<(Action, bool)> {
        self.next_at().filter(|at| *at <= now)?;
        let Reverse((_, _, is_delayed, action)) = self.ahead.pop()?;
        self.delayed -= usize::from(is_delayed);
        Some((action, is_delayed))
    }

    pub(crate) fn has_delayed(&self) -> bool {
        self.delayed > 0
    }
}
