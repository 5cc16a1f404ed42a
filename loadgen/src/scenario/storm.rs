//! Drop all connections at once, and resume every session at once.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use super::answering::Answering;
use super::connects::{Connects, ConnectsOutcome, Resumes, ResumesOutcome};
use super::{Attempt, Figures, Opened, Outcome, Pace, Run, Scenario, Setup, open_all};
use crate::client::Failure;
use crate::client::{Connection, Event, Greeting, Ticket};
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
    /// From the drop to the last hello that said `recovered`.
    took: Cell<Option<Duration>>,
    /// Before the drop and after the resume.
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

    fn run(self: Rc<Self>, setup: Rc<Setup>) -> Run {
        Box::pin(async move { self.break_out(setup).await })
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

    fn outcome(&self, setup: &Setup) -> Outcome {
        Outcome::Storm(StormOutcome {
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
        /// From the drop to the last hello that said `recovered`.
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
    async fn break_out(self: Rc<Self>, setup: Rc<Setup>) {
        let pace = Pace::from_now(&setup.load);
        setup.recorder.phase("connect");
        let (drop_now, dropping) = watch::channel(());
        let mut held = JoinSet::new();
        open_all(&setup, pace.attempts(&setup.load), |opened| {
            self.connected.increment();
            self.connects.record(&opened);
            held.spawn_local(self.clone().stay_until(dropping.clone(), opened));
        })
        .await;
        setup.recorder.phase("hold");
        sleep_until(pace.end(&setup.load)).await;

        setup.recorder.brief_phase("resume");
        // So that it can be seen how many there were, and below that none was left.
        setup.recorder.look_now().await;
        let dropped_at = Instant::now();
        drop(drop_now);
        let tickets: Vec<Ticket> = held.join_all().await.into_iter().flatten().collect();
        setup.recorder.look_now().await;
        let attempts =
            (0..).zip(tickets).map(|(index, ticket)| Attempt::new(index, dropped_at, Some(ticket)));
        let mut resumed = JoinSet::new();
        open_all(&setup, attempts, |opened| {
            self.record_return(&opened, &setup);
            resumed.spawn_local(self.clone().stay(opened.connection));
        })
        .await;
    }

    /// Holds a connection until all are to be dropped (the other end of the channel is). Gives what is needed to
    /// come back, unless the server was faster to end it.
    async fn stay_until(self: Rc<Self>, mut dropping: watch::Receiver<()>, opened: Opened) -> Option<Ticket> {
        let Opened { mut connection, greeting: Greeting { mut ticket, .. }, .. } = opened;
        let note = |event: Event<'_>| ticket.note(event);
        tokio::select! {
            biased;
            _ = dropping.changed() => {
                self.dropped.increment();
                Some(ticket)
            }
            () = self.answering.answer(&mut connection, note) => None,
        }
    }

    /// Holds a connection that has come back, while others still do.
    async fn stay(self: Rc<Self>, mut connection: Connection) {
        self.answering.answer(&mut connection, |_| {}).await;
    }

    fn record_return(&self, opened: &Opened, setup: &Setup) {
        self.resumes.record(opened);
        if opened.greeting.recovered {
            self.resumed.increment();
            self.took.set(self.took.get().max(Some(opened.took())));
        } else {
            setup.failures.record(&Failure::NotRecovered);
        }
    }
}
