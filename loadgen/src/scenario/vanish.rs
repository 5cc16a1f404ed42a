//! Closes every socket without a Close frame, and reconnects just before or just after the reconnect window
//! ends.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use super::answering::Answering;
use super::connects::{Connects, ConnectsOutcome, Resumes, ResumesOutcome};
use super::window::{WindowOutcome, WindowReturns};
use super::{
    Attempt, ConnectSchedule, Figures, OpenedConnection, Scenario, ScenarioOutcome, ScenarioRun, Setup,
    open_all, task_result,
};
use crate::args::Kill;
use crate::client::{ClientEvent, Greeting, Ticket};
use crate::progress::Bar;
use crate::record::{Counter, EndsOutcome, Recorder};
use crate::result::summed;

#[derive(Debug)]
pub(crate) struct Vanish {
    kill: Kill,
    /// Time between reconnecting and the end of the reconnect window.
    margin: Duration,
    connected: Counter,
    killed: Counter,
    window: WindowReturns,
    connects: Connects,
    resumes: Resumes,
    answering: Answering,
}

/// A session that has lost its connection.
#[derive(Clone, Debug)]
struct LostSession {
    ticket: Ticket,
    at: Instant,
    window: Duration,
}

impl Scenario for Vanish {
    fn record(&self, recorder: &Recorder) {
        recorder.counter("killed", &self.killed);
        recorder.counter("unexpected_closes", &self.answering.unexpected_closes);
        self.window.register(recorder);
        self.connects.register(recorder);
        self.resumes.register(recorder);
    }

    fn run(self: Rc<Self>, setup: Rc<Setup>) -> ScenarioRun {
        Box::pin(async move { self.vanish(setup).await })
    }

    fn figures(&self) -> Figures {
        Figures::of_phases(["connect", "hold", "return"])
    }

    fn connected(&self) -> u64 {
        self.connected.get()
    }

    fn bars(&self, setup: &Setup) -> Vec<Bar> {
        vec![
            Bar { label: "connected", done: self.connected.get(), of: setup.load.connections.into() },
            Bar { label: "returned", done: self.window.returned(), of: self.killed.get() },
        ]
    }

    fn outcome(&self, setup: &Setup) -> ScenarioOutcome {
        ScenarioOutcome::Vanish(VanishOutcome {
            connected: self.connected.get(),
            errors: setup.failures.total(),
            killed: self.killed.get(),
            window: self.window.outcome(),
            unexpected_closes: self.answering.unexpected_closes.get(),
            pings: self.answering.pings.get(),
            connects: self.connects.outcome(),
            resumes: self.resumes.outcome(),
            ends: self.answering.ends.outcome(),
        })
    }
}

summed! {
    pub(crate) struct VanishOutcome {
        connected: u64,
        errors: u64,
        killed: u64,
        #[serde(flatten)]
        window: WindowOutcome,
        unexpected_closes: u64,
        pings: u64,
        #[serde(flatten)]
        connects: ConnectsOutcome,
        #[serde(flatten)]
        resumes: ResumesOutcome,
        #[serde(flatten)]
        ends: EndsOutcome,
    }
}

impl Vanish {
    pub(crate) fn new(kill: Kill, margin: Duration) -> Self {
        Self {
            kill,
            margin,
            connected: Counter::default(),
            killed: Counter::default(),
            window: WindowReturns::default(),
            connects: Connects::default(),
            resumes: Resumes::default(),
            answering: Answering::default(),
        }
    }

    async fn vanish(self: Rc<Self>, setup: Rc<Setup>) {
        let pace = ConnectSchedule::from_now(&setup.load);
        setup.recorder.phase("connect");
        let (kill_now, kill_signal) = watch::channel(());
        let mut held = JoinSet::new();
        open_all(&setup, pace.attempts(&setup.load), |opened| {
            self.connected.increment();
            self.connects.record(&opened);
            held.spawn_local(self.clone().stay_until(kill_signal.clone(), opened));
        })
        .await;
        setup.recorder.phase("hold");
        sleep_until(pace.end(&setup.load)).await;
        setup.recorder.phase("return");
        drop(kill_now);
        let mut lost = Vec::new();
        while let Some(result) = held.join_next().await {
            lost.extend(task_result(result));
        }
        self.reconnect_all(lost, &setup).await;
    }

    /// Reconnects one half of the sessions before the end of the window, and the other half after it.
    async fn reconnect_all(&self, lost: Vec<LostSession>, setup: &Rc<Setup>) {
        let (before, after): (Vec<_>, Vec<_>) =
            (0..).zip(lost).partition(|(index, _): &(u32, LostSession)| index % 2 == 0);
        let before =
            before.into_iter().map(|(_, lost)| (lost.clone(), lost.at + self.time_before_deadline(&lost)));
        let after = after.into_iter().map(|(_, lost)| (lost.clone(), lost.at + lost.window + self.margin));
        let returns: Vec<(LostSession, Instant)> = before.chain(after).collect();
        let attempts: Vec<Attempt> = (0..)
            .zip(&returns)
            .map(|(index, (lost, due))| Attempt::new(index, *due, Some(lost.ticket.clone())))
            .collect();
        // Keep the connections until the last client is back: closing one immediately would look like another
        // lost connection.
        let back = RefCell::new(Vec::new());
        open_all(setup, attempts.into_iter(), |opened| {
            self.resumes.record(&opened);
            let (lost, _) = &returns[opened.index as usize];
            self.window.record_return(lost.at, lost.window, &opened);
            back.borrow_mut().push(opened.connection);
        })
        .await;
    }

    fn time_before_deadline(&self, lost: &LostSession) -> Duration {
        lost.window.saturating_sub(self.margin)
    }

    /// Holds a connection until it is killed. Returns the ticket for resuming, unless the server ended the
    /// connection first.
    async fn stay_until(
        self: Rc<Self>,
        mut kill_signal: watch::Receiver<()>,
        opened: OpenedConnection,
    ) -> Option<LostSession> {
        let OpenedConnection {
            mut connection, greeting: Greeting { mut ticket, reconnect_window, .. }, ..
        } = opened;
        let note = |event: ClientEvent<'_>| ticket.note(event);
        tokio::select! {
            biased;
            _ = kill_signal.changed() => {}
            () = self.answering.answer(&mut connection, note) => return None,
        }
        self.killed.increment();
        let at = Instant::now();
        match self.kill {
            Kill::Rst => connection.reset(),
            Kill::Fin => drop(connection),
        }
        Some(LostSession { ticket, at, window: reconnect_window })
    }
}
