//! Scenarios: what is done to the server, and what is counted meanwhile.
//!
//! Each is a struct of its counters. It implements [`Scenario`]; [`crate::run`] drives it and may stop it at any
//! point, after which the counters still make a result.

mod abuse;
mod answering;
mod channel;
mod churn;
mod connects;
mod deadline;
mod expire;
mod fanout;
mod figures;
mod hold;
mod hold_times;
mod late;
mod measured;
mod mix;
mod mute;
mod outcome;
mod ping_times;
mod pongs;
mod prepare;
mod refusal;
mod restart;
mod resume;
mod slow;
mod spread;
mod storm;
mod takeover;
mod vanish;
mod window;

use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, sleep_until};

use crate::args::Load;
use crate::client::{Connection, Dialer, Greeting, Ticket};
use crate::client::{Failure, Failures};
use crate::progress::Bar;
use crate::record::Recorder;

pub(crate) use self::figures::Figures;
pub(crate) use self::measured::{Measured, NotMeasured, Numbers, SelfUsage, Whole};
pub(crate) use self::outcome::Outcome;
pub(crate) use self::prepare::{Prepared, prepare};
pub(crate) use self::refusal::Refusal;

/// What a scenario works with.
#[derive(Debug)]
pub(crate) struct Setup {
    pub(crate) load: Load,
    pub(crate) dialer: Rc<Dialer>,
    pub(crate) failures: Rc<Failures>,
    pub(crate) recorder: Recorder,
    pub(crate) refusal: Refusal,
}

/// Why a run with this load could show nothing of a server that says this.
type Objection = fn(&Load, &Greeting) -> Option<String>;

/// A scenario under way.
pub(crate) type Run = Pin<Box<dyn Future<Output = ()>>>;

pub(crate) trait Scenario {
    /// Names what is worth a curve over time; called once, before it runs. [`crate::record`] says how.
    fn record(&self, recorder: &Recorder);
    /// Runs to the end. Dropping the future drops every connection.
    fn run(self: Rc<Self>, setup: Rc<Setup>) -> Run;
    /// How many connections it has opened.
    fn connected(&self) -> u64;
    /// The progress, always with the same bars in the same order.
    fn bars(&self, setup: &Setup) -> Vec<Bar>;
    fn figures(&self) -> Figures;
    /// How to tell from the server's hello that it could show nothing, if that can be told.
    fn objection(&self) -> Option<Objection> {
        None
    }
    /// Everything that was counted so far.
    fn outcome(&self, setup: &Setup) -> Outcome;
}

/// The instants at which connections are due: an open model, so a slow server does not slow them down.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    start: Instant,
    rate: f64,
}

impl Pace {
    fn from_now(load: &Load) -> Self {
        Self { start: Instant::now() + load.first_due, rate: load.rate }
    }

    fn due(self, index: u32) -> Instant {
        self.start + Duration::from_secs_f64(f64::from(index) / self.rate)
    }

    /// One new session an instant.
    fn attempts(self, load: &Load) -> impl Iterator<Item = Attempt> + use<> {
        (0..load.connections).map(move |index| Attempt::new(index, self.due(index), None))
    }

    /// When the connections have been held for long enough.
    fn end(self, load: &Load) -> Instant {
        self.due(load.connections - 1) + load.duration
    }
}

/// A connection to open.
#[derive(Debug)]
struct Attempt {
    /// Its number among all connections.
    index: u32,
    due: Instant,
    resume: Option<Ticket>,
    /// How much the kernel takes in before it is read, if not as much as usual.
    receive_buffer_bytes: Option<u32>,
}

impl Attempt {
    fn new(index: u32, due: Instant, resume: Option<Ticket>) -> Self {
        Self { index, due, resume, receive_buffer_bytes: None }
    }
}

/// A connection that has said hello.
#[derive(Debug)]
struct Opened {
    index: u32,
    connection: Connection,
    greeting: Greeting,
    due: Instant,
    /// When its connect began: later than it was due, if we were held up.
    began: Instant,
    /// When the hello was read.
    at: Instant,
}

impl Opened {
    fn took(&self) -> Duration {
        self.at.saturating_duration_since(self.due)
    }
}

/// Opens connections, each when it is due. Returns when the last attempt has succeeded or failed.
async fn open_all(
    setup: &Rc<Setup>,
    attempts: impl Iterator<Item = Attempt>,
    mut on_open: impl FnMut(Opened),
) {
    let mut opening = JoinSet::new();
    let mut settle = |result: Result<Result<Opened, Failure>, JoinError>| match finished(result) {
        Ok(opened) => on_open(opened),
        Err(failure) => setup.failures.record(&failure),
    };
    for attempt in attempts {
        let due = sleep_until(attempt.due);
        tokio::pin!(due);
        loop {
            tokio::select! {
                biased;
                Some(result) = opening.join_next() => settle(result),
                () = &mut due => break,
            }
        }
        opening.spawn_local(open(setup.clone(), attempt));
    }
    while let Some(result) = opening.join_next().await {
        settle(result);
    }
}

async fn open(setup: Rc<Setup>, attempt: Attempt) -> Result<Opened, Failure> {
    let began = Instant::now();
    let (connection, greeting) =
        setup.dialer.open_with(attempt.resume.as_ref(), attempt.receive_buffer_bytes).await?;
    let Attempt { index, due, .. } = attempt;
    Ok(Opened { index, connection, greeting, due, began, at: Instant::now() })
}

/// The result of a task.
fn finished<T>(result: Result<T, JoinError>) -> T {
    result.expect("no task of ours panics, and none is aborted while it is awaited")
}
