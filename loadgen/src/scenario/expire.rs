//! Withholds what the server expects, until one of its timeouts (idle, lifetime or handshake) ends the
//! connection.

use std::rc::Rc;

use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::answering::Answering;
use super::connects::{Connects, ConnectsOutcome};
use super::deadline::{DeadlineOutcome, TimeoutExpiries};
use super::{
    ConnectSchedule, Figures, OpenedConnection, Scenario, ScenarioOutcome, ScenarioRun, Setup, open_all,
};
use crate::args::{self, Omission};
use crate::progress::Bar;
use crate::record::{Counter, EndsOutcome, Recorder};
use crate::result::summed;
use crate::transport::websocket::ConnectionEnd;

#[derive(Debug)]
pub(crate) struct Expire {
    options: args::ExpireOptions,
    connected: Counter,
    /// Number of connections that ended as expected, in time or not.
    closed: Counter,
    /// Number of connections that ended otherwise.
    other_closes: Counter,
    deadline: TimeoutExpiries,
    connects: Connects,
    answering: Answering,
}

/// Bounds on the time at which the server began to wait.
#[derive(Clone, Copy)]
struct WaitStart {
    earliest: Instant,
    latest: Instant,
}

impl Scenario for Expire {
    fn record(&self, recorder: &Recorder) {
        recorder.counters([("closed", &self.closed), ("other_closes", &self.other_closes)]);
        self.deadline.register(recorder);
        self.connects.register(recorder);
    }

    fn run(self: Rc<Self>, setup: Rc<Setup>) -> ScenarioRun {
        Box::pin(async move { self.wait(setup).await })
    }

    fn figures(&self) -> Figures {
        let figures = Figures::of_phases(["connect", "wait"]);
        match self.options.without {
            Omission::Commands => figures,
            Omission::Upgrade => figures.with_unmeasured(vec!["connect_ms.", "connect_from_start_ms."]),
        }
    }

    fn connected(&self) -> u64 {
        self.connected.get()
    }

    fn bars(&self, setup: &Setup) -> Vec<Bar> {
        vec![
            Bar { label: "connected", done: self.connected.get(), of: setup.load.connections.into() },
            Bar { label: "closed", done: self.closed.get(), of: self.connected.get() },
        ]
    }

    fn outcome(&self, setup: &Setup) -> ScenarioOutcome {
        let ended = self.closed.get() + self.other_closes.get();
        ScenarioOutcome::Expire(ExpireOutcome {
            connected: self.connected.get(),
            errors: setup.failures.total(),
            closed: self.closed.get(),
            deadline: self.deadline.outcome(),
            still_open: self.connected.get() - ended,
            other_closes: self.other_closes.get(),
            pings: self.answering.pings.get(),
            connects: self.connects.outcome(),
            ends: self.answering.ends.outcome(),
        })
    }
}

summed! {
    pub(crate) struct ExpireOutcome {
        connected: u64,
        errors: u64,
        closed: u64,
        #[serde(flatten)]
        deadline: DeadlineOutcome,
        still_open: u64,
        other_closes: u64,
        pings: u64,
        #[serde(flatten)]
        connects: ConnectsOutcome,
        #[serde(flatten)]
        ends: EndsOutcome,
    }
}

impl Expire {
    pub(crate) fn new(options: args::ExpireOptions) -> Self {
        Self {
            options,
            connected: Counter::default(),
            closed: Counter::default(),
            other_closes: Counter::default(),
            deadline: TimeoutExpiries::default(),
            connects: Connects::default(),
            answering: Answering::default(),
        }
    }

    async fn wait(self: Rc<Self>, setup: Rc<Setup>) {
        let pace = ConnectSchedule::from_now(&setup.load);
        setup.recorder.phase("connect");
        let mut tasks = JoinSet::new();
        match self.options.without {
            Omission::Commands => {
                let attempts = pace.attempts(&setup.load);
                open_all(&setup, attempts, |opened| {
                    self.connected.increment();
                    self.connects.record(&opened);
                    tasks.spawn_local(self.clone().stay(opened));
                })
                .await;
            }
            Omission::Upgrade => {
                for index in 0..setup.load.connections {
                    sleep_until(pace.due(index)).await;
                    tasks.spawn_local(self.clone().connect_only(setup.clone()));
                }
            }
        }
        setup.recorder.phase("wait");
        // This ends when the time is up, or when the last connection has ended.
        let _ = timeout_at(pace.end(&setup.load), tasks.join_all()).await;
    }

    /// Answers pings, and does nothing else.
    async fn stay(self: Rc<Self>, opened: OpenedConnection) {
        let OpenedConnection { mut connection, began, at, .. } = opened;
        let Err(end) = self.answering.listen(&mut connection, |_| {}).await;
        self.record_end(end, WaitStart { earliest: began, latest: at });
    }

    /// Connects, and sends nothing.
    async fn connect_only(self: Rc<Self>, setup: Rc<Setup>) {
        let earliest = Instant::now();
        let (mut stream, live) = match setup.dialer.connect().await {
            Ok(connected) => connected,
            Err(failure) => return setup.failures.record(&failure),
        };
        self.connected.increment();
        let start = WaitStart { earliest, latest: Instant::now() };
        wait_for_end(&mut stream).await;
        live.record_end(ConnectionEnd::NoCloseFrame);
        self.record_end(ConnectionEnd::NoCloseFrame, start);
    }

    fn record_end(&self, end: ConnectionEnd, start: WaitStart) {
        self.answering.ends.record(end);
        if self.options.code.is_some_and(|code| code != end.code()) {
            return self.other_closes.increment();
        }
        self.closed.increment();
        self.deadline.expired_since(start.earliest.elapsed(), start.latest.elapsed(), self.options.after);
    }
}

/// Returns when the server ends the connection, or announces the end: some servers respond with an HTTP
/// status first.
async fn wait_for_end(stream: &mut TcpStream) {
    // Ignore the result: it does not matter how the connection ended.
    let _ = stream.read(&mut [0]).await;
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::{LoadgenArgs, LoadgenCommand};

    fn expire(options: &str) -> Expire {
        let words =
            format!("loadgen expire ws://h/ws --connections 1 --rate 1 --duration 1s --after 1s {options}");
        match LoadgenArgs::try_parse_from(words.split_whitespace()).expect("the arguments are valid").command
        {
            LoadgenCommand::Run(args::ScenarioOptions::Expire(options)) => Expire::new(options),
            _ => panic!("expected the subcommand expire"),
        }
    }

    #[test]
    fn only_the_configured_code_counts() {
        let now = Instant::now();
        let start = WaitStart { earliest: now, latest: now };
        let (any, idle) = (expire(""), expire("--code 4004"));
        for scenario in [&any, &idle] {
            scenario.record_end(ConnectionEnd::Closed(Some(4004)), start);
            scenario.record_end(ConnectionEnd::NoCloseFrame, start);
        }
        assert_eq!((any.closed.get(), any.other_closes.get()), (2, 0));
        assert_eq!((idle.closed.get(), idle.other_closes.get()), (1, 1));
    }
}
