//! Answers pings just before and just after the deadline: the former connections must stay open, the latter must be closed.

use std::ops::ControlFlow;
use std::rc::Rc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::connects::{Connects, ConnectsOutcome};
use super::deadline::{Begin, Deadline, DeadlineOutcome, is_given_up, too_short};
use super::{Figures, Objection, Opened, Outcome, Pace, Run, Scenario, Setup, open_all};
use crate::client::{Connection, Event};
use crate::progress::Bar;
use crate::record::{Counter, Ends, EndsOutcome, Recorder};
use crate::result::summed;
use crate::target::Target;
use crate::transport::websocket::End;

#[derive(Debug)]
pub(crate) struct Late {
    /// How far from the deadline a pong is.
    margin: Duration,
    connected: Counter,
    pings: Counter,
    /// Pongs that left before the deadline.
    in_time: Counter,
    /// Pongs that should have left before the deadline and did not: loadgen's own fault, so the server's reaction means nothing.
    missed: Counter,
    /// Connections all of whose pongs were in time, closed nevertheless.
    closed_in_time: Counter,
    /// Connections that answer too late.
    too_late: Counter,
    /// Of these, the ones that were given up.
    closed: Counter,
    /// Of these, the connections that were pinged again nevertheless.
    forgiven: Counter,
    other_closes: Counter,
    deadline: Deadline,
    connects: Connects,
    ends: Ends,
}

/// A ping that has not been answered yet.
struct Asked {
    begin: Begin,
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

    fn run(self: Rc<Self>, setup: Rc<Setup>) -> Run {
        Box::pin(async move { self.answer_late(setup).await })
    }

    fn figures(&self) -> Figures {
        Figures::of_phases(["connect", "answer late"])
    }

    fn objection(&self) -> Option<Objection> {
        Some(too_short)
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

    fn outcome(&self, setup: &Setup) -> Outcome {
        let gone = self.closed.get() + self.forgiven.get() + self.other_closes.get();
        Outcome::Late(LateOutcome {
            connected: self.connected.get(),
            errors: setup.failures.total(),
            pings: self.pings.get(),
            in_time: self.in_time.get(),
            missed: self.missed.get(),
            closed_in_time: self.closed_in_time.get(),
            too_late: self.too_late.get(),
            closed: self.closed.get(),
            forgiven: self.forgiven.get(),
            still_open: self.too_late.get().saturating_sub(gone),
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
            deadline: Deadline::default(),
            connects: Connects::default(),
            ends: Ends::default(),
        }
    }

    async fn answer_late(self: Rc<Self>, setup: Rc<Setup>) {
        let pace = Pace::from_now(&setup.load);
        setup.recorder.phase("connect");
        let mut all = JoinSet::new();
        open_all(&setup, pace.attempts(&setup.load), |opened| {
            setup.refuse_if(too_short(&setup.load, &opened.greeting));
            self.connected.increment();
            self.connects.record(&opened);
            let is_too_late = opened.index % 2 == 1;
            if is_too_late {
                self.too_late.increment();
                all.spawn_local(self.clone().stay_after(setup.clone(), opened));
            } else {
                all.spawn_local(self.clone().stay_before(setup.clone(), opened));
            }
        })
        .await;
        setup.recorder.phase("answer late");
        let _ = timeout_at(pace.end(&setup.load), all.join_all()).await;
    }

    /// Answers every ping just before its deadline.
    async fn stay_before(self: Rc<Self>, setup: Rc<Setup>, opened: Opened) {
        let Opened { mut connection, greeting, .. } = opened;
        let pong_timeout = greeting.pong_timeout;
        connection.stop_answering();
        let mut missed = false;
        let end = loop {
            let asked = match self.wait_for_ping(&mut connection, &setup).await {
                Ok(asked) => asked,
                Err(end) => break end,
            };
            let due = asked.begin.read_at + pong_timeout.saturating_sub(self.margin);
            if let Err(end) = self.hold_back(&mut connection, due).await {
                // The client itself has missed the deadline.
                if asked.begin.read_at.elapsed() >= pong_timeout {
                    self.missed.increment();
                    missed = true;
                }
                break end;
            }
            connection.pong(&asked.payload).await;
            if asked.begin.read_at.elapsed() < pong_timeout {
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
        if is_given_up(end, connection.target()) {
            self.deadline.expired(None, pong_timeout);
        }
    }

    /// Answers its first ping just after the deadline.
    async fn stay_after(self: Rc<Self>, setup: Rc<Setup>, opened: Opened) {
        let Opened { mut connection, greeting, .. } = opened;
        let target = connection.target();
        connection.stop_answering();
        let asked = match self.wait_for_ping(&mut connection, &setup).await {
            Ok(asked) => asked,
            Err(end) => return self.record_end(end, target, None, greeting.pong_timeout),
        };
        let due = asked.begin.read_at + greeting.pong_timeout + self.margin;
        if let Err(end) = self.hold_back(&mut connection, due).await {
            return self.record_end(end, target, Some(asked.begin), greeting.pong_timeout);
        }
        connection.pong(&asked.payload).await;
        match self.wait_for_ping(&mut connection, &setup).await {
            Ok(_) => self.forgiven.increment(),
            Err(end) => self.record_end(end, target, Some(asked.begin), greeting.pong_timeout),
        }
    }

    async fn wait_for_ping(&self, connection: &mut Connection, setup: &Setup) -> Result<Asked, End> {
        let ping = connection.each(|event| match event {
            Event::Ping(payload) => ControlFlow::Break(payload.to_vec()),
            _ => ControlFlow::Continue(()),
        });
        let payload = ping.await?;
        self.pings.increment();
        Ok(Asked { begin: Begin::now(&setup.recorder), payload })
    }

    /// Reads without sending anything until then.
    async fn hold_back(&self, connection: &mut Connection, until: Instant) -> Result<(), End> {
        tokio::select! {
            biased;
            end = connection.each(|_| ControlFlow::Continue(())) => end,
            () = sleep_until(until) => Ok(()),
        }
    }

    /// Records the end of a connection that answers too late.
    fn record_end(&self, end: End, target: Target, asked: Option<Begin>, pong_timeout: Duration) {
        self.ends.record(end);
        if !is_given_up(end, target) {
            return self.other_closes.increment();
        }
        self.closed.increment();
        self.deadline.expired(asked.map(Begin::waited), pong_timeout);
    }
}
