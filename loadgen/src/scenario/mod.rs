//! Scenarios: what loadgen does to the server, and what it counts.
//!
//! Each thread of a run has its own instance of the scenario, which opens a share of the connections. The
//! instances register metrics of the same names in [`Metrics`], which adds them up. [`crate::run`] runs a
//! scenario and may stop it at any point; the result then has the metrics recorded until then.

mod abuse;
mod answering;
mod channel;
mod churn;
mod connects;
mod deadline;
mod fanout;
mod hold;
mod mix;
mod mute;
mod nodes;
mod pongs;
mod punctuality;
mod restart;
mod storm;

use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

use encke_client::{ClientConnection, ClientFailure, Dialer, Greeting, Ticket};
use tokio::sync::mpsc;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, sleep_until};

use crate::args::{Load, ScenarioOptions};
use crate::failures::Failures;
use crate::record::{Metrics, Phases, Stalls};

/// Environment of a scenario on one thread.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    /// The share of the load that this thread generates.
    pub(crate) load: Load,
    pub(crate) dialer: Rc<Dialer>,
    pub(crate) failures: Failures,
    /// `None` within a mix, which has phases of its own.
    pub(crate) phases: Option<Phases>,
    pub(crate) stalls: Stalls,
    /// Sends the reason to abort a run whose options do not suit the parameters in the server's hello.
    pub(crate) refusal: mpsc::Sender<String>,
}

impl Setup {
    pub(crate) fn enter_phase(&self, name: &str) {
        if let Some(phases) = &self.phases {
            phases.enter(name);
        }
    }

    /// Aborts the run with a usage error and without a result.
    pub(crate) fn refuse(&self, why: String) {
        // The channel has room for one reason: the first one ends the run.
        let _ = self.refusal.try_send(why);
    }
}

/// A scenario. Each call runs it once. Dropping the future drops every connection.
pub(crate) type Scenario = Box<dyn Fn(Rc<Setup>) -> Pin<Box<dyn Future<Output = ()>>>>;

fn scenario<S: 'static, F: Future<Output = ()> + 'static>(
    scenario: S,
    run: fn(Rc<S>, Rc<Setup>) -> F,
) -> Scenario {
    let scenario = Rc::new(scenario);
    Box::new(move |setup| Box::pin(run(scenario.clone(), setup)))
}

/// Creates a scenario and registers its metrics.
pub(crate) fn create(options: &ScenarioOptions, metrics: &Metrics) -> Scenario {
    match options {
        ScenarioOptions::Hold(it) => scenario(hold::Hold::new(it, metrics), hold::Hold::run),
        ScenarioOptions::Mute(it) => scenario(mute::Mute::new(it, metrics), mute::Mute::run),
        ScenarioOptions::Storm(_) => scenario(storm::Storm::new(metrics), storm::Storm::run),
        ScenarioOptions::Churn(it) => scenario(churn::Churn::new(it, metrics), churn::Churn::run),
        ScenarioOptions::Fanout(it) => scenario(fanout::Fanout::new(it, metrics), fanout::Fanout::run),
        ScenarioOptions::Restart(it) => {
            scenario(restart::Restart::new(it.clone(), metrics), restart::Restart::run)
        }
        ScenarioOptions::Nodes(it) => scenario(nodes::Nodes::new(it.clone(), metrics), nodes::Nodes::run),
        ScenarioOptions::Abuse(it) => scenario(abuse::Abuse::new(it.clone(), metrics), abuse::Abuse::run),
        ScenarioOptions::Mix(it) => scenario(mix::Mix::new(it, metrics), mix::Mix::run),
    }
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
        (0..load.connections).map(move |index| Attempt { index, due: self.due(index), resume: None })
    }

    /// Returns the time at which the last connection has been held for the full duration.
    fn end(self, load: &Load) -> Instant {
        self.due(load.connections - 1) + load.duration
    }
}

#[derive(Debug)]
struct Attempt {
    /// Index among all connections.
    index: u32,
    due: Instant,
    resume: Option<Ticket>,
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

/// Opens each connection when it is due. Returns when the last attempt has succeeded or failed.
async fn open_all(
    setup: &Rc<Setup>,
    attempts: impl Iterator<Item = Attempt>,
    mut on_open: impl FnMut(OpenedConnection),
) {
    let mut opening = JoinSet::new();
    let mut settle = |result: Result<Result<OpenedConnection, ClientFailure>, JoinError>| match result
        .expect("tasks do not panic, and are not aborted while they are awaited")
    {
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
    let Attempt { index, due, resume } = attempt;
    let (connection, greeting) = setup.dialer.open(resume.as_ref()).await?;
    Ok(OpenedConnection { index, connection, greeting, due, began, at: Instant::now() })
}
