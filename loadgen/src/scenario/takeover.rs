//! Resumes sessions that are still connected: the second connection must take over the session, and the first
//! must be closed with the right code.

use std::cell::Cell;
use std::rc::Rc;

use tokio::task::JoinSet;
use tokio::time::sleep_until;

use super::answering::Answering;
use super::connects::{Connects, ConnectsOutcome, Resumes, ResumesOutcome};
use super::{
    Attempt, ConnectSchedule, Figures, OpenedConnection, Scenario, ScenarioOutcome, ScenarioRun, Setup,
    open_all,
};
use crate::client::ClientFailure;
use crate::client::{ClientConnection, Ticket};
use crate::progress::Bar;
use crate::record::{ConnectionEnds, Counter, EndsOutcome, Recorder, Times};
use crate::result::{Distribution, summed};
use crate::transport::websocket::ConnectionEnd;

#[derive(Debug)]
pub(crate) struct Takeover {
    /// Close code of a connection whose session was taken over.
    code: u16,
    connected: Counter,
    /// Number of sessions that a second connection took over.
    taken: Counter,
    /// Number of first connections that were closed with the right code after their session was taken over.
    replaced: Counter,
    /// Number of first connections that ended otherwise.
    other_closes: Counter,
    /// Time from when the take-over was due to the end of the first connection.
    replacement: Times,
    connects: Connects,
    resumes: Resumes,
    first: Answering,
    first_ends: ConnectionEnds,
    second: Answering,
    /// Schedule of the take-overs, set when they begin.
    pace: Cell<Option<ConnectSchedule>>,
}

impl Scenario for Takeover {
    fn record(&self, recorder: &Recorder) {
        recorder.counters([
            ("taken", &self.taken),
            ("replaced", &self.replaced),
            ("other_closes", &self.other_closes),
            ("unexpected_closes", &self.second.unexpected_closes),
        ]);
        recorder.times("replacement_ms", &self.replacement);
        self.connects.register(recorder);
        self.resumes.register(recorder);
    }

    fn run(self: Rc<Self>, setup: Rc<Setup>) -> ScenarioRun {
        Box::pin(async move { self.take_over(setup).await })
    }

    fn figures(&self) -> Figures {
        Figures::of_phases(["connect", "hold", "take over", "hold again"])
    }

    fn connected(&self) -> u64 {
        self.connected.get()
    }

    fn bars(&self, setup: &Setup) -> Vec<Bar> {
        vec![
            Bar { label: "connected", done: self.connected.get(), of: setup.load.connections.into() },
            Bar { label: "replaced", done: self.replaced.get(), of: self.connected.get() },
        ]
    }

    fn outcome(&self, setup: &Setup) -> ScenarioOutcome {
        let ended = self.replaced.get() + self.other_closes.get();
        ScenarioOutcome::Takeover(TakeoverOutcome {
            connected: self.connected.get(),
            errors: setup.failures.total(),
            taken: self.taken.get(),
            replaced: self.replaced.get(),
            other_closes: self.other_closes.get(),
            still_open: self.connected.get() - ended,
            unexpected_closes: self.second.unexpected_closes.get(),
            pings: self.first.pings.get() + self.second.pings.get(),
            replacement_ms: self.replacement.summary(),
            connects: self.connects.outcome(),
            resumes: self.resumes.outcome(),
            ends: self.first_ends.outcome(),
            second: self.second.ends.outcome(),
        })
    }
}

summed! {
    pub(crate) struct TakeoverOutcome {
        connected: u64,
        errors: u64,
        taken: u64,
        replaced: u64,
        other_closes: u64,
        still_open: u64,
        unexpected_closes: u64,
        pings: u64,
        replacement_ms: Distribution,
        #[serde(flatten)]
        connects: ConnectsOutcome,
        #[serde(flatten)]
        resumes: ResumesOutcome,
        #[serde(flatten)]
        ends: EndsOutcome,
        second: EndsOutcome,
    }
}

impl Takeover {
    pub(crate) fn new(code: u16) -> Self {
        Self {
            code,
            connected: Counter::default(),
            taken: Counter::default(),
            replaced: Counter::default(),
            other_closes: Counter::default(),
            replacement: Times::default(),
            connects: Connects::default(),
            resumes: Resumes::default(),
            first: Answering::default(),
            first_ends: ConnectionEnds::default(),
            second: Answering::default(),
            pace: Cell::new(None),
        }
    }

    /// Connects all clients, takes over their sessions at the same rate, and holds the second connections for
    /// as long as the first ones.
    async fn take_over(self: Rc<Self>, setup: Rc<Setup>) {
        let pace = ConnectSchedule::from_now(&setup.load);
        setup.recorder.phase("connect");
        let mut tickets: Vec<(u32, Ticket)> = Vec::new();
        let (mut first, mut second) = (JoinSet::new(), JoinSet::new());
        self.pace.set(None);
        open_all(&setup, pace.attempts(&setup.load), |opened| {
            self.connected.increment();
            self.connects.record(&opened);
            tickets.push((opened.index, opened.greeting.ticket.clone()));
            first.spawn_local(self.clone().stay_first(opened.index, opened.connection));
        })
        .await;
        setup.recorder.phase("hold");
        sleep_until(pace.end(&setup.load)).await;
        let pace = ConnectSchedule::from_now(&setup.load);
        self.pace.set(Some(pace));
        setup.recorder.phase("take over");
        let attempts = tickets
            .into_iter()
            .map(move |(index, ticket)| Attempt::new(index, pace.due(index), Some(ticket)));
        open_all(&setup, attempts, |opened| {
            self.record_second(&opened, &setup);
            second.spawn_local(self.clone().stay_second(opened.connection));
        })
        .await;
        setup.recorder.phase("hold again");
        sleep_until(pace.end(&setup.load)).await;
    }

    fn record_second(&self, opened: &OpenedConnection, setup: &Setup) {
        self.resumes.record(opened);
        if opened.greeting.recovered {
            self.taken.increment();
        } else {
            setup.failures.record(&ClientFailure::NotRecovered);
        }
    }

    async fn stay_first(self: Rc<Self>, index: u32, mut connection: ClientConnection) {
        let Err(end) = self.first.listen(&mut connection, |_| {}).await;
        self.record_end(index, end);
    }

    async fn stay_second(self: Rc<Self>, mut connection: ClientConnection) {
        self.second.answer(&mut connection, |_| {}).await;
    }

    /// Records the end of a first connection.
    fn record_end(&self, index: u32, end: ConnectionEnd) {
        self.first_ends.record(end);
        let due = self.pace.get().map(|pace| pace.due(index));
        match due {
            Some(due)
                if matches!(end, ConnectionEnd::Closed(Some(_)) | ConnectionEnd::Status(_))
                    && end.code() == self.code =>
            {
                self.replaced.increment();
                self.replacement.record(due.elapsed());
            }
            _ => self.other_closes.increment(),
        }
    }
}
