//! Opens connections at a given rate, answers pings, and holds them.

use std::rc::Rc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{sleep_until, timeout_at};

use super::answering::Answering;
use super::connects::{Connects, ConnectsOutcome};
use super::hold_times::{HoldTimes, HoldTimesOutcome};
use super::ping_times::{LastPing, PingTimes, PingTimesOutcome};
use super::pongs::{Pings, Pongs, PongsOutcome};
use super::{
    ConnectSchedule, Figures, OpenedConnection, Scenario, ScenarioOutcome, ScenarioRun, Setup, open_all,
};
use crate::client::{ClientConnection, ClientEvent};
use crate::progress::Bar;
use crate::record::{Counter, EndsOutcome, Recorder};
use crate::result::summed;
use crate::target::Target;

#[derive(Debug, Default)]
pub(crate) struct Hold {
    /// Interval between pings that the client sends, if any.
    ping_every: Option<Duration>,
    /// Whether connections are polls, which are held and not pinged.
    is_polling: bool,
    pongs: Pongs,
    ping_times: PingTimes,
    hold_times: HoldTimes,
    connected: Counter,
    connects: Connects,
    answering: Answering,
}

impl Scenario for Hold {
    fn record(&self, recorder: &Recorder) {
        recorder.counter("unexpected_closes", &self.answering.unexpected_closes);
        self.connects.register(recorder);
        match self.ping_every {
            Some(_) => self.pongs.register(recorder),
            None if self.is_polling => self.hold_times.register(recorder),
            None => self.ping_times.register(recorder),
        }
    }

    fn run(self: Rc<Self>, setup: Rc<Setup>) -> ScenarioRun {
        Box::pin(async move { self.hold(setup).await })
    }

    fn figures(&self) -> Figures {
        let of_pings = match self.ping_every {
            Some(_) => vec![],
            None if self.is_polling => vec!["holds_early", "hold_lateness_ms."],
            None => vec!["pings_early", "ping_lateness_ms."],
        };
        Figures::of_phases(["connect", "hold"]).with_conditional(of_pings)
    }

    fn connected(&self) -> u64 {
        self.connected.get()
    }

    fn bars(&self, setup: &Setup) -> Vec<Bar> {
        vec![Bar { label: "connected", done: self.connected.get(), of: setup.load.connections.into() }]
    }

    fn outcome(&self, setup: &Setup) -> ScenarioOutcome {
        ScenarioOutcome::Hold(HoldOutcome {
            connected: self.connected.get(),
            errors: setup.failures.total(),
            unexpected_closes: self.answering.unexpected_closes.get(),
            pings: self.answering.pings.get(),
            pongs: self.ping_every.map(|_| self.pongs.outcome()),
            // Omit ping times if the client pings, because its pings postpone the server's.
            ping_times: self.ping_every.map_or_else(|| self.ping_times.outcome(), |_| None),
            hold_times: self.hold_times.outcome(),
            connects: self.connects.outcome(),
            ends: self.answering.ends.outcome(),
        })
    }
}

summed! {
    pub(crate) struct HoldOutcome {
        connected: u64,
        errors: u64,
        unexpected_closes: u64,
        pings: u64,
        #[serde(flatten)]
        pongs: Option<PongsOutcome>,
        #[serde(flatten)]
        ping_times: Option<PingTimesOutcome>,
        #[serde(flatten)]
        hold_times: Option<HoldTimesOutcome>,
        #[serde(flatten)]
        connects: ConnectsOutcome,
        #[serde(flatten)]
        ends: EndsOutcome,
    }
}

impl Hold {
    pub(crate) fn new(ping_every: Option<Duration>, target: Target) -> Self {
        Self { ping_every, is_polling: target.polls(), ..Self::default() }
    }

    async fn hold(self: Rc<Self>, setup: Rc<Setup>) {
        let pace = ConnectSchedule::from_now(&setup.load);
        setup.recorder.phase("connect");
        let mut held = JoinSet::new();
        open_all(&setup, pace.attempts(&setup.load), |opened| {
            self.connected.increment();
            self.connects.record(&opened);
            self.ping_times.note_announced(&opened);
            self.hold_times.note_announced(&opened);
            match self.ping_every {
                None => held.spawn_local(self.clone().stay(opened.connection)),
                Some(every) => held.spawn_local(self.clone().stay_and_ping(opened, every)),
            };
        })
        .await;
        setup.recorder.phase("hold");
        // This ends when the time is up, or when no connection is left.
        let _ = timeout_at(pace.end(&setup.load), held.join_all()).await;
    }

    /// Holds a connection and answers pings. An async block keeps the captured connection in place; an async
    /// fn would reserve space for it twice.
    #[expect(clippy::manual_async_fn, reason = "see above")]
    fn stay(self: Rc<Self>, mut connection: ClientConnection) -> impl Future<Output = ()> {
        async move {
            let mut last = LastPing::default();
            let listening = self.answering.answer(&mut connection, |event| match event {
                ClientEvent::Ping(_) => self.ping_times.record_ping(&mut last),
                ClientEvent::EmptyPoll(time) => self.hold_times.record_hold(time),
                ClientEvent::Pong(_) | ClientEvent::Text(_) | ClientEvent::Id(_) => {}
            });
            listening.await;
        }
    }

    /// Sends each ping when it is due, regardless of whether the previous ones have been answered.
    async fn stay_and_ping(self: Rc<Self>, opened: OpenedConnection, every: Duration) {
        let OpenedConnection { mut connection, at, .. } = opened;
        let (mut pings, mut due) = (Pings::default(), at + every);
        loop {
            let listened = self.answering.listen(&mut connection, |event| {
                if let ClientEvent::Pong(payload) = event {
                    self.pongs.record_pong(&mut pings, payload);
                }
            });
            tokio::select! {
                Err(end) = listened => return self.answering.record_close(end),
                () = sleep_until(due) => {}
            }
            let payload = self.pongs.next_ping(&mut pings, due);
            connection.ping(&payload).await;
            due += every;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size_of_future<A, B, F>(_: fn(A, B) -> F) -> usize {
        size_of::<F>()
    }

    /// Checks the size of a task. With tokio's overhead of 100 bytes it must fit into 320 bytes, the
    /// allocator's next size class.
    #[test]
    fn an_idle_connection_is_small() {
        let task = size_of_future(Hold::stay);
        assert!(task + 100 <= 320, "{task}");
    }
}
