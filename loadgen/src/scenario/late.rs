//! Answers pings just before and just after the deadline: the former connections must stay open, the latter
//! must be closed.

use std::ops::ControlFlow;
use std::rc::Rc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::connects::{Connects, ConnectsOutcome};
use super::deadline::{
    DeadlineOutcome, TimeoutExpiries, TimeoutStart, ended_for_silence, objection_if_too_short,
};
use super::{
    ConnectSchedule, Figures, Objection, OpenedConnection, Scenario, ScenarioOutcome, ScenarioRun, Setup,
    open_all,
};
use crate::client::{ClientConnection, ClientEvent};
use crate::progress::Bar;
use crate::record::{ConnectionEnds, Counter, EndsOutcome, Recorder};
use crate::result::summed;
use crate::target::Target;
use crate::transport::websocket::ConnectionEnd;

#[derive(Debug)]
pub(crate) struct Late {
    /// Time between a pong and the deadline.
    margin: Duration,
    connected: Counter,
    pings: Counter,
    /// Number of pongs that left before the deadline.
    in_time: Counter,
    /// Number of pongs that should have left before the deadline but did not. This is loadgen's own fault, so
    /// the server's reaction means nothing.
    missed: Counter,
    /// Number of connections that were closed although all their pongs were in time.
    closed_in_time: Counter,
    /// Number of connections that answer too late.
    too_late: Counter,
    /// Number of late connections that the server closed for their silence.
    closed: Counter,
    /// Number of late connections that the server pinged again instead of closing them.
    forgiven: Counter,
    other_closes: Counter,
    deadline: TimeoutExpiries,
    connects: Connects,
    ends: ConnectionEnds,
}

/// A ping that has not been answered yet.
struct PendingPing {
    begin: TimeoutStart,
    payload: Vec<u8>,
}

impl Scenario for Late {
    fn record(&self, recorder: &Recorder) {
        recorder.counters([
            ("in_time", &self.in_time),
            ("missed", &self.missed),
            ("closed_in_time", &self.closed_in_time),
            ("too_late", &self.too_late),
            ("closed", &self.closed),
            ("forgiven", &self.forgiven),
            ("other_closes", &self.other_closes),
        ]);
        self.deadline.register(recorder);
        self.connects.register(recorder);
    }

    fn run(self: Rc<Self>, setup: Rc<Setup>) -> ScenarioRun {
        Box::pin(async move { self.answer_late(setup).await })
    }

    fn figures(&self) -> Figures {
        Figures::of_phases(["connect", "answer late"])
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
            Bar { label: "closed", done: self.closed.get(), of: self.too_late.get() },
        ]
    }

    fn outcome(&self, setup: &Setup) -> ScenarioOutcome {
        let ended = self.closed.get() + self.forgiven.get() + self.other_closes.get();
        ScenarioOutcome::Late(LateOutcome {
            connected: self.connected.get(),
            errors: setup.failures.total(),
            pings: self.pings.get(),
            in_time: self.in_time.get(),
            missed: self.missed.get(),
            closed_in_time: self.closed_in_time.get(),
            too_late: self.too_late.get(),
            closed: self.closed.get(),
            forgiven: self.forgiven.get(),
            still_open: self.too_late.get().saturating_sub(ended),
            other_closes: self.other_closes.get(),
            deadline: self.deadline.outcome(),
            connects: self.connects.outcome(),
            ends: self.ends.outcome(),
        })
    }
}

summed! {
    pub(crate) struct LateOutcome {
        connected: u64,
        errors: u64,
        pings: u64,
        in_time: u64,
        missed: u64,
        closed_in_time: u64,
        too_late: u64,
        closed: u64,
        forgiven: u64,
        still_open: u64,
        other_closes: u64,
        #[serde(flatten)]
        deadline: DeadlineOutcome,
        #[serde(flatten)]
        connects: ConnectsOutcome,
        #[serde(flatten)]
        ends: EndsOutcome,
    }
}

impl Late {
    pub(crate) fn new(margin: Duration) -> Self {
        Self {
            margin,
            connected: Counter::default(),
            pings: Counter::default(),
            in_time: Counter::default(),
            missed: Counter::default(),
            closed_in_time: Counter::default(),
            too_late: Counter::default(),
            closed: Counter::default(),
            forgiven: Counter::default(),
            other_closes: Counter::default(),
            deadline: TimeoutExpiries::default(),
            connects: Connects::default(),
            ends: ConnectionEnds::default(),
        }
    }

    async fn answer_late(self: Rc<Self>, setup: Rc<Setup>) {
        let pace = ConnectSchedule::from_now(&setup.load);
        setup.recorder.phase("connect");
        let mut all = JoinSet::new();
        open_all(&setup, pace.attempts(&setup.load), |opened| {
            setup.refuse_if(objection_if_too_short(&setup.load, &opened.greeting));
            self.connected.increment();
            self.connects.record(&opened);
            let is_too_late = opened.index % 2 == 1;
            if is_too_late {
                self.too_late.increment();
                all.spawn_local(self.clone().answer_after_deadline(setup.clone(), opened));
            } else {
                all.spawn_local(self.clone().answer_before_deadline(setup.clone(), opened));
            }
        })
        .await;
        setup.recorder.phase("answer late");
        let _ = timeout_at(pace.end(&setup.load), all.join_all()).await;
    }

    /// Answers every ping just before its deadline.
    async fn answer_before_deadline(self: Rc<Self>, setup: Rc<Setup>, opened: OpenedConnection) {
        let OpenedConnection { mut connection, greeting, .. } = opened;
        let pong_timeout = greeting.pong_timeout;
        connection.disable_answers();
        let mut missed = false;
        let end = loop {
            let ping = match self.wait_for_ping(&mut connection, &setup).await {
                Ok(ping) => ping,
                Err(end) => break end,
            };
            let due = ping.begin.read_at + pong_timeout.saturating_sub(self.margin);
            if let Err(end) = self.read_silently(&mut connection, due).await {
                // The client itself may have missed the deadline.
                if ping.begin.read_at.elapsed() >= pong_timeout {
                    self.missed.increment();
                    missed = true;
                }
                break end;
            }
            connection.pong(&ping.payload).await;
            if ping.begin.read_at.elapsed() < pong_timeout {
                self.in_time.increment();
            } else {
                self.missed.increment();
                missed = true;
            }
        };
        self.ends.record(end);
        if missed {
            return;
        }
        self.closed_in_time.increment();
        if ended_for_silence(end, connection.target()) {
            self.deadline.expired(None, pong_timeout);
        }
    }

    /// Answers the first ping just after its deadline.
    async fn answer_after_deadline(self: Rc<Self>, setup: Rc<Setup>, opened: OpenedConnection) {
        let OpenedConnection { mut connection, greeting, .. } = opened;
        let target = connection.target();
        connection.disable_answers();
        let ping = match self.wait_for_ping(&mut connection, &setup).await {
            Ok(ping) => ping,
            Err(end) => return self.record_end(end, target, None, greeting.pong_timeout),
        };
        let due = ping.begin.read_at + greeting.pong_timeout + self.margin;
        if let Err(end) = self.read_silently(&mut connection, due).await {
            return self.record_end(end, target, Some(ping.begin), greeting.pong_timeout);
        }
        connection.pong(&ping.payload).await;
        match self.wait_for_ping(&mut connection, &setup).await {
            Ok(_) => self.forgiven.increment(),
            Err(end) => self.record_end(end, target, Some(ping.begin), greeting.pong_timeout),
        }
    }

    async fn wait_for_ping(
        &self,
        connection: &mut ClientConnection,
        setup: &Setup,
    ) -> Result<PendingPing, ConnectionEnd> {
        let ping = connection.each(|event| match event {
            ClientEvent::Ping(payload) => ControlFlow::Break(payload.to_vec()),
            _ => ControlFlow::Continue(()),
        });
        let payload = ping.await?;
        self.pings.increment();
        Ok(PendingPing { begin: TimeoutStart::now(&setup.recorder), payload })
    }

    /// Reads without sending anything until `until`.
    async fn read_silently(
        &self,
        connection: &mut ClientConnection,
        until: Instant,
    ) -> Result<(), ConnectionEnd> {
        tokio::select! {
            biased;
            end = connection.each(|_| ControlFlow::Continue(())) => end,
            () = sleep_until(until) => Ok(()),
        }
    }

    /// Records the end of a connection that answers too late.
    fn record_end(
        &self,
        end: ConnectionEnd,
        target: Target,
        ping: Option<TimeoutStart>,
        pong_timeout: Duration,
    ) {
        self.ends.record(end);
        if !ended_for_silence(end, target) {
            return self.other_closes.increment();
        }
        self.closed.increment();
        self.deadline.expired(ping.map(TimeoutStart::waited), pong_timeout);
    }
}
