//! Planned actions in virtual time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::redis::RedisConnection;
use crate::tasks::TaskId;

/// Number of a connection. Numbers are not reused.
pub(crate) type ConnectionNumber = u32;

/// Number of a request with commands. Numbers are not reused.
pub(crate) type PostNumber = u32;

pub(crate) type ClientNumber = u32;

/// Stage of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// The wheel's loop runs one iteration, if this is the latest plan.
    Wheel {
        plan: u32,
    },
    /// A worker handles a batch.
    Work,
    /// The server reads from a parked connection.
    ReadParked,
    /// A woken task is polled.
    Poll(TaskId),
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
    /// A server that is shutting down writes its snapshot and exits, unless it was killed earlier.
    Replace {
        server: u32,
    },
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
    ahead: BinaryHeap<Reverse<Planned>>,
    numbers: u64,
    /// Number of planned actions that the server could already have performed.
    late: usize,
}

#[derive(Clone, Copy, Debug)]
struct Planned {
    at: u64,
    number: u64,
    late: bool,
    action: Action,
}

impl PartialEq for Planned {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Eq for Planned {}

impl PartialOrd for Planned {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Planned {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

impl Schedule {
    /// Plans `action` for the time `at`.
    pub(crate) fn plan(&mut self, at: u64, action: Action) {
        self.push(at, action, false);
    }

    /// Delays `action`, which is possible now, until `at`.
    pub(crate) fn delay(&mut self, at: u64, action: Action) {
        self.late += 1;
        self.push(at, action, true);
    }

    fn push(&mut self, at: u64, action: Action, late: bool) {
        self.numbers += 1;
        self.ahead.push(Reverse(Planned { at, number: self.numbers, late, action }));
    }

    /// Returns the time of the next action.
    pub(crate) fn next_at(&self) -> Option<u64> {
        self.ahead.peek().map(|Reverse(planned)| planned.at)
    }

    /// Takes the next action due at `now`. Returns it, and whether it was delayed.
    pub(crate) fn take_due(&mut self, now: u64) -> Option<(Action, bool)> {
        if self.next_at()? > now {
            return None;
        }
        let Reverse(planned) = self.ahead.pop()?;
        self.late -= usize::from(planned.late);
        Some((planned.action, planned.late))
    }

    /// Returns whether no action of the server is delayed.
    pub(crate) fn has_no_delayed(&self) -> bool {
        self.late == 0
    }
}
