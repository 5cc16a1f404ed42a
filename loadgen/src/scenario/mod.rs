//! Scenarios: what loadgen does to the server, and what it counts.
//!
//! Each scenario is a struct of counters that implements [`Scenario`]. [`crate::run`] drives it and may stop
//! it at any point; the counters then still make a result.

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
use crate::client::{ClientConnection, Dialer, Greeting, Ticket};
use crate::client::{ClientFailure, Failures};
use crate::progress::Bar;
use crate::record::Recorder;

pub(crate) use self::figures::Figures;
pub(crate) use self::measured::{LoadgenUsage, MeasureError, Measured, Numbers, WholeRunNumbers};
pub(crate) use self::outcome::ScenarioOutcome;
pub(crate) use self::prepare::{Prepared, prepare};
pub(crate) use self::refusal::RunRefusal;

/// Environment of a scenario.
#[derive(Debug)]
pub(crate) struct Setup {
    pub(crate) load: Load,
    pub(crate) dialer: Rc<Dialer>,
    pub(crate) failures: Rc<Failures>,
    pub(crate) recorder: Recorder,
    pub(crate) refusal: RunRefusal,
}

/// Checks whether a run with this load could show nothing about a server with this greeting. Returns the
/// reason if so.
type Objection = fn(&Load, &Greeting) -> Option<String>;

/// A scenario in progress.
pub(crate) type ScenarioRun = Pin<Box<dyn Future<Output = ()>>>;

pub(crate) trait Scenario {
    /// Registers the counters and times that are worth a curve over time. Called once, before the scenario
    /// runs. See [`crate::record`].
    fn record(&self, recorder: &Recorder);
    /// Runs the scenario to its end. Dropping the future drops every connection.
    fn run(self: Rc<Self>, setup: Rc<Setup>) -> ScenarioRun;
    /// Returns the number of connections opened.
    fn connected(&self) -> u64;
    /// Returns the progress bars, always the same ones in the same order.
    fn bars(&self, setup: &Setup) -> Vec<Bar>;
    fn figures(&self) -> Figures;
    /// Returns a check of the server's hello that detects whether the run could show nothing, if the scenario
    /// has such a check.
    fn objection(&self) -> Option<Objection> {
        None
    }
    /// Returns everything that has been counted so far.
    fn outcome(&self, setup: &Setup) -> ScenarioOutcome;
}

/// When connections are due. This is an open model, so a slow server does not slow down the schedule.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConnectSchedule {
    start: Instant,
    rate: f64,
}

impl ConnectSchedule {
    fn from_now(load: &Load) -> Self {
        Self { start: Instant::now() + load.first_due, rate: load.rate }
    }

    fn due(self, index: u32) -> Instant {
        self.start + Duration::from_secs_f64(f64::from(index) / self.rate)
    }

    /// Returns one attempt to open a new session for each connection of the load.
    fn attempts(self, load: &Load) -> impl Iterator<Item = Attempt> + use<> {
        (0..load.connections).map(move |index| Attempt::new(index, self.due(index), None))
    }

    /// Returns the time at which the last connection has been held for the full duration.
    fn end(self, load: &Load) -> Instant {
        self.due(load.connections - 1) + load.duration
    }
}

/// A connection to open.
#[derive(Debug)]
struct Attempt {
    /// Index among all connections.
    index: u32,
    due: Instant,
    resume: Option<Ticket>,
    /// Size of the kernel's receive buffer, if not the default.
    receive_buffer_bytes: Option<u32>,
}

impl Attempt {
    fn new(index: u32, due: Instant, resume: Option<Ticket>) -> Self {
        Self { index, due, resume, receive_buffer_bytes: None }
    }
}

/// A connection that has received its hello.
#[derive(Debug)]
struct OpenedConnection {
    index: u32,
    connection: ClientConnection,
    greeting: Greeting,
    due: Instant,
    /// When the attempt began. This is later than `due` if loadgen was delayed.
    began: Instant,
    /// When the hello was read.
    at: Instant,
}

impl OpenedConnection {
    fn took(&self) -> Duration {
        self.at.saturating_duration_since(self.due)
    }
}

/// Opens each connection when it is due. Returns when the last attempt has succeeded or failed.
async fn open_all(
    setup: &Rc<Setup>,
    attempts: impl Iterator<Item = Attempt>,
    mut on_open: impl FnMut(OpenedConnection),
) {
    let mut opening = JoinSet::new();
    let mut settle =
        |result: Result<Result<OpenedConnection, ClientFailure>, JoinError>| match task_result(result) {
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

async fn open(setup: Rc<Setup>, attempt: Attempt) -> Result<OpenedConnection, ClientFailure> {
    let began = Instant::now();
    let (connection, greeting) =
        setup.dialer.open_with(attempt.resume.as_ref(), attempt.receive_buffer_bytes).await?;
    let Attempt { index, due, .. } = attempt;
    Ok(OpenedConnection { index, connection, greeting, due, began, at: Instant::now() })
}

/// Unwraps the result of a task.
fn task_result<T>(result: Result<T, JoinError>) -> T {
    result.expect("tasks do not panic, and are not aborted while they are awaited")
}
