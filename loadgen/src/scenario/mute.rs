//! Stops answering pings on a share of the connections, and measures when the server closes them.

use std::convert::Infallible;
use std::ops::ControlFlow;
use std::rc::Rc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::timeout_at;

use super::answering::Answering;
use super::connects::{Connects, ConnectsOutcome};
use super::deadline::{
    DeadlineOutcome, TimeoutExpiries, TimeoutStart, Waited, ended_for_silence, objection_if_too_short,
};
use super::spread::is_chosen;
use super::{
    ConnectSchedule, Figures, Objection, OpenedConnection, Scenario, ScenarioOutcome, ScenarioRun, Setup,
    open_all,
};
use crate::client::{ClientConnection, ClientEvent};
use crate::progress::Bar;
use crate::record::{Counter, EndsOutcome, Recorder};
use crate::result::summed;
use crate::target::Target;
use crate::transport::websocket::ConnectionEnd;

#[derive(Debug)]
pub(crate) struct Mute {
    share: f64,
    connected: Counter,
    muted: Counter,
    /// Number of mute connections that the server closed for their silence, in time or not.
    closed: Counter,
    /// Number of mute connections that ended with a code unrelated to silence.
    other_closes: Counter,
    connects: Connects,
    deadline: TimeoutExpiries,
    /// Counters of the answering connections. Pings and close codes also include the mute connections.
    answering: Answering,
}

impl Scenario for Mute {
    fn record(&self, recorder: &Recorder) {
        recorder.counters([
            ("muted", &self.muted),
            ("closed", &self.closed),
            ("other_closes", &self.other_closes),
            ("unexpected_closes", &self.answering.unexpected_closes),
        ]);
        self.deadline.register(recorder);
        self.connects.register(recorder);
    }

    fn run(self: Rc<Self>, setup: Rc<Setup>) -> ScenarioRun {
        Box::pin(async move { self.run_mute(setup).await })
    }

    fn figures(&self) -> Figures {
        Figures::of_phases(["connect", "silence"])
    }

    fn objection(&self) -> Option<Objection> {
        Some(objection_if_too_short)
    }

    fn connected(&self) -> u64 {
        self.connected.get()
    }

    fn bars(&self, setup: &Setup) -> Vec<Bar> {
        vec![
            Bar { label: "connected", done: self.connected.get(), of: setup.load.connections.into() },
            Bar { label: "closed", done: self.closed.get(), of: self.muted.get() },
        ]
    }

    fn outcome(&self, setup: &Setup) -> ScenarioOutcome {
        let ended = self.closed.get() + self.other_closes.get();
        ScenarioOutcome::Mute(MuteOutcome {
            connected: self.connected.get(),
            errors: setup.failures.total(),
            muted: self.muted.get(),
            closed: self.closed.get(),
            deadline: self.deadline.outcome(),
            still_open: self.muted.get() - ended,
            other_closes: self.other_closes.get(),
            unexpected_closes: self.answering.unexpected_closes.get(),
            pings: self.answering.pings.get(),
            connects: self.connects.outcome(),
            ends: self.answering.ends.outcome(),
        })
    }
}

summed! {
    pub(crate) struct MuteOutcome {
        connected: u64,
        errors: u64,
        muted: u64,
        closed: u64,
        #[serde(flatten)]
        deadline: DeadlineOutcome,
        still_open: u64,
        other_closes: u64,
        unexpected_closes: u64,
        pings: u64,
        #[serde(flatten)]
        connects: ConnectsOutcome,
        #[serde(flatten)]
        ends: EndsOutcome,
    }
}

impl Mute {
    async fn run_mute(self: Rc<Self>, setup: Rc<Setup>) {
        let pace = ConnectSchedule::from_now(&setup.load);
        setup.recorder.phase("connect");
        let (mut muted, mut answering) = (JoinSet::new(), JoinSet::new());
        open_all(&setup, pace.attempts(&setup.load), |opened| {
            setup.refuse_if(objection_if_too_short(&setup.load, &opened.greeting));
            self.connects.record(&opened);
            if is_chosen(opened.index, self.share) {
                self.muted.increment();
                muted.spawn_local(self.clone().run_mute_connection(setup.clone(), opened));
            } else {
                answering.spawn_local(self.clone().answer(opened.connection));
            }
            self.connected.increment();
        })
        .await;
        setup.recorder.phase("silence");
        // This ends when the time is up, or when the last mute connection has ended.
        let _ = timeout_at(pace.end(&setup.load), muted.join_all()).await;
    }

    pub(crate) fn new(share: f64) -> Self {
        Self {
            share,
            connected: Counter::default(),
            muted: Counter::default(),
            closed: Counter::default(),
            other_closes: Counter::default(),
            connects: Connects::default(),
            deadline: TimeoutExpiries::default(),
            answering: Answering::default(),
        }
    }

    async fn answer(self: Rc<Self>, mut connection: ClientConnection) {
        self.answering.answer(&mut connection, |_| {}).await;
    }

    async fn run_mute_connection(self: Rc<Self>, setup: Rc<Setup>, opened: OpenedConnection) {
        let OpenedConnection { mut connection, greeting, .. } = opened;
        connection.mute();
        let mut first_ping = None;
        let listened = connection.each(|event| {
            if let ClientEvent::Ping(_) = event {
                self.answering.pings.increment();
                // Use the first ping: some servers ping again while they wait.
                first_ping.get_or_insert_with(|| TimeoutStart::now(&setup.recorder));
            }
            ControlFlow::<Infallible>::Continue(())
        });
        let Err(end) = listened.await;
        self.record_close(
            end,
            connection.target(),
            first_ping.map(TimeoutStart::waited),
            greeting.pong_timeout,
        );
    }

    /// Records the end of a mute connection. `waited` is the time since the first ping, if there was one.
    fn record_close(
        &self,
        end: ConnectionEnd,
        target: Target,
        waited: Option<Waited>,
        pong_timeout: Duration,
    ) {
        self.answering.ends.record(end);
        if !ended_for_silence(end, target) {
            return self.other_closes.increment();
        }
        self.closed.increment();
        self.deadline.expired(waited, pong_timeout);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PONG_TIMEOUT: Duration = Duration::from_millis(1000);

    #[test]
    fn only_silence_counts_as_closed_on_encke() {
        for (target, end, is_closed) in [
            (Target::Encke, ConnectionEnd::NoCloseFrame, true),
            (Target::Encke, ConnectionEnd::Closed(Some(4000)), true),
            (Target::Encke, ConnectionEnd::Closed(Some(4002)), false),
            (Target::Plain, ConnectionEnd::Closed(Some(1001)), true),
        ] {
            let mute = Mute::new(1.0);
            mute.record_close(end, target, None, PONG_TIMEOUT);
            let expected = if is_closed { (1, 0) } else { (0, 1) };
            assert_eq!((mute.closed.get(), mute.other_closes.get()), expected, "{target:?} {end}");
        }
    }
}
