//! What is to happen when, in virtual time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::redis::RedisConnection;
use crate::tasks::TaskId;

/// A connection, by its number. No number is used twice.
pub(crate) type ConnectionNumber = u32;

/// A request with commands, by its number. No number is used twice.
pub(crate) type PostNumber = u32;

/// A client, by its number.
pub(crate) type ClientNumber = u32;

/// How far a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Things happen and go wrong.
    Busy,
    /// Nothing goes wrong any more: everyone has to catch up, or be noticed as gone.
    Calm,
    /// Everyone leaves, or the server drains.
    Leaving,
    Over,
}

/// Which way bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Way {
    ToServer,
    ToClient,
}

/// Something that can happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// The wheel turns, if this is the turn that was planned last.
    Wheel {
        plan: u32,
    },
    /// A worker takes a batch.
    Work,
    /// Someone looks what a connection at rest has to read.
    Look,
    /// A woken task is polled.
    Poll(TaskId),
    /// Bytes move from one end's kernel to the other's.
    Move(ConnectionNumber, Way),
    /// A client does something by itself, if it has not changed its plans since.
    Act(ClientNumber, u32),
    /// A client reads on.
    Read(ConnectionNumber),
    /// A poll reaches the server.
    Arrive(ConnectionNumber),
    /// Commands in a request of their own reach the server.
    Command(PostNumber),
    /// Their client reads the answer.
    Reply(PostNumber),
    /// Their client loses the connection.
    LosePost(PostNumber),
    /// A client answers a ping late.
    Answer(ConnectionNumber, u64),
    /// Someone publishes by the API.
    Publish,
    /// An administrator does something.
    Administrate,
    /// The server stops for a while.
    Stall,
    /// The server is told to stop, or killed.
    Restart,
    /// The server that was told to stop writes down what it has, and ends; unless it has been killed before.
    Replace {
        server: u32,
    },
    /// Redis does what it was asked on a connection.
    Redis(RedisConnection),
    /// What Redis has said on a connection arrives.
    RedisSays(RedisConnection),
    TroubleWithRedis,
    RedisIsBack,
    /// A stage of the run ends, if it has not ended before.
    EndStage(Stage),
}

/// What lies ahead, in the order of time; what is due at one time, in the order in which it was planned.
#[derive(Debug, Default)]
pub(crate) struct Schedule {
    ahead: BinaryHeap<Reverse<Planned>>,
    numbers: u64,
    /// How many of them are late for something that the server had to do already.
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
    /// Plans `action` for the instant `at`.
    pub(crate) fn plan(&mut self, at: u64, action: Action) {
        self.push(at, action, false);
    }

    /// Puts `action`, which could happen now, off until `at`.
    pub(crate) fn put_off(&mut self, at: u64, action: Action) {
        self.late += 1;
        self.push(at, action, true);
    }

    fn push(&mut self, at: u64, action: Action, late: bool) {
        self.numbers += 1;
        self.ahead.push(Reverse(Planned { at, number: self.numbers, late, action }));
    }

    /// When something is to happen next.
    pub(crate) fn next_at(&self) -> Option<u64> {
        self.ahead.peek().map(|Reverse(planned)| planned.at)
    }

    /// The next action that is due at `now`, and whether it was put off.
    pub(crate) fn take_due(&mut self, now: u64) -> Option<(Action, bool)> {
        if self.next_at()? > now {
            return None;
        }
        let Reverse(planned) = self.ahead.pop()?;
        self.late -= usize::from(planned.late);
        Some((planned.action, planned.late))
    }

    /// Whether the server has put nothing off.
    pub(crate) fn nothing_put_off(&self) -> bool {
        self.late == 0
    }
}
