//! Drops all connections simultaneously, and then resumes all sessions simultaneously.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use super::answering::Answering;
use super::connects::{Connects, ConnectsOutcome, Resumes, ResumesOutcome};
use super::{
    Attempt, ConnectSchedule, Figures, OpenedConnection, Scenario, ScenarioOutcome, ScenarioRun, Setup,
    open_all,
};
use crate::client::ClientFailure;
use crate::client::{ClientConnection, ClientEvent, Greeting, Ticket};
use crate::progress::Bar;
use crate::record::{Counter, EndsOutcome, Recorder};
use crate::result::{Highest, seconds, summed};

#[derive(Debug, Default)]
pub(crate) struct Storm {
    connected: Counter,
    dropped: Counter,
    resumed: Counter,
    connects: Connects,
    resumes: Resumes,
    /// Time from the drop to the last hello with `recovered`.
    took: Cell<Option<Duration>>,
    /// Counters of the connections before the drop and after the resume.
    answering: Answering,
}

impl Scenario for Storm {
    fn record(&self, recorder: &Recorder) {
        recorder.counters([
            ("dropped", &self.dropped),
            ("resumed", &self.resumed),
            ("unexpected_closes", &self.answering.unexpected_closes),
        ]);
        self.connects.register(recorder);
        self.resumes.register(recorder);
    }

    fn run(self: Rc<Self>, setup: Rc<Setup>) -> ScenarioRun {
        Box::pin(async move { self.run_storm(setup).await })
    }

    fn figures(&self) -> Figures {
        Figures::of_phases(["connect", "hold", "resume"])
    }

    fn connected(&self) -> u64 {
        self.connected.get()
    }

    fn bars(&self, setup: &Setup) -> Vec<Bar> {
        vec![
            Bar { label: "connected", done: self.connected.get(), of: setup.load.connections.into() },
            Bar { label: "resumed", done: self.resumed.get(), of: self.dropped.get() },
        ]
    }

    fn outcome(&self, setup: &Setup) -> ScenarioOutcome {
        ScenarioOutcome::Storm(StormOutcome {
            connected: self.connected.get(),
            errors: setup.failures.total(),
            dropped: self.dropped.get(),
            resumed: self.resumed.get(),
            all_back_seconds: self.took.get().map(seconds).map(Highest),
            unexpected_closes: self.answering.unexpected_closes.get(),
            pings: self.answering.pings.get(),
            connects: self.connects.outcome(),
            resumes: self.resumes.outcome(),
            ends: self.answering.ends.outcome(),
        })
    }
}

summed! {
    pub(crate) struct StormOutcome {
        connected: u64,
        errors: u64,
        dropped: u64,
        resumed: u64,
        /// Time from the drop to the last hello with `recovered`.
        all_back_seconds: Option<Highest>,
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

impl Storm {
    async fn run_storm(self: Rc<Self>, setup: Rc<Setup>) {
        let pace = ConnectSchedule::from_now(&setup.load);
        setup.recorder.phase("connect");
        let (drop_now, drop_signal) = watch::channel(());
        let mut held = JoinSet::new();
        open_all(&setup, pace.attempts(&setup.load), |opened| {
            self.connected.increment();
            self.connects.record(&opened);
            held.spawn_local(self.clone().stay_until(drop_signal.clone(), opened));
        })
        .await;
        setup.recorder.phase("hold");
        sleep_until(pace.end(&setup.load)).await;

        setup.recorder.brief_phase("resume");
        // Sample the number of connections before the drop, and again after it, when none is left.
        setup.recorder.sample_now().await;
        let dropped_at = Instant::now();
        drop(drop_now);
        let tickets: Vec<Ticket> = held.join_all().await.into_iter().flatten().collect();
        setup.recorder.sample_now().await;
        let attempts =
            (0..).zip(tickets).map(|(index, ticket)| Attempt::new(index, dropped_at, Some(ticket)));
        let mut resumed = JoinSet::new();
        open_all(&setup, attempts, |opened| {
            self.record_return(&opened, &setup);
            resumed.spawn_local(self.clone().stay(opened.connection));
        })
        .await;
    }

    /// Holds a connection until all connections are dropped, which is signalled by dropping the sender.
    /// Returns the ticket for resuming, unless the server ended the connection first.
    async fn stay_until(
        self: Rc<Self>,
        mut drop_signal: watch::Receiver<()>,
        opened: OpenedConnection,
    ) -> Option<Ticket> {
        let OpenedConnection { mut connection, greeting: Greeting { mut ticket, .. }, .. } = opened;
        let note = |event: ClientEvent<'_>| ticket.note(event);
        tokio::select! {
            biased;
            _ = drop_signal.changed() => {
                self.dropped.increment();
                Some(ticket)
            }
            () = self.answering.answer(&mut connection, note) => None,
        }
    }

    /// Holds a resumed connection until the run is over.
    async fn stay(self: Rc<Self>, mut connection: ClientConnection) {
        self.answering.answer(&mut connection, |_| {}).await;
    }

    fn record_return(&self, opened: &OpenedConnection, setup: &Setup) {
        self.resumes.record(opened);
        if opened.greeting.recovered {
            self.resumed.increment();
            self.took.set(self.took.get().max(Some(opened.took())));
        } else {
            setup.failures.record(&ClientFailure::NotRecovered);
        }
    }
}
