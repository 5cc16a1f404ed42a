//! Leave out what the server waits for, until a timeout of it ends the connection: idle, lifetime, handshake.

use std::rc::Rc;

use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::answering::Answering;
use super::connects::{Connects, ConnectsOutcome};
use super::deadline::{Deadline, DeadlineOutcome};
use super::{Figures, Opened, Outcome, Pace, Run, Scenario, Setup, open_all};
use crate::args::{self, Omission};
use crate::progress::Bar;
use crate::record::{Counter, EndsOutcome, Recorder};
use crate::result::summed;
use crate::transport::websocket::End;

#[derive(Debug)]
pub(crate) struct Expire {
    options: args::Expire,
    connected: Counter,
    /// Connections that were ended as they should be, in time or not.
    closed: Counter,
    /// Connections that were ended otherwise.
    other_closes: Counter,
    deadline: Deadline,
    connects: Connects,
    answering: Answering,
}

/// When the server began to wait: within these two.
#[derive(Clone, Copy)]
struct Beginning {
    earliest: Instant,
    latest: Instant,
}

impl Scenario for Expire {
    fn record(&self, recorder: &Recorder) {
        recorder.counters([("closed", &self.closed), ("other_closes", &self.other_closes)]);
        self.deadline.register(recorder);
        self.connects.register(recorder);
    }

    fn run(self: Rc<Self>, setup: Rc<Setup>) -> Run {
        Box::pin(async move { self.wait(setup).await })
    }

    fn figures(&self) -> Figures {
        let figures = Figures::of_phases(["connect", "wait"]);
        match self.options.without {
            Omission::Commands => figures,
            Omission::Upgrade => figures.with_never(vec!["connect_ms.", "connect_from_start_ms."]),
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

    fn outcome(&self, setup: &Setup) -> Outcome {
        let gone = self.closed.get() + self.other_closes.get();
        Outcome::Expire(ExpireOutcome {
            connected: self.connected.get(),
            errors: setup.failures.total(),
            closed: self.closed.get(),
            deadline: self.deadline.outcome(),
            still_open: self.connected.get() - gone,
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
    pub(crate) fn new(options: args::Expire) -> Self {
        Self {
            options,
            connected: Counter::default(),
            closed: Counter::default(),
            other_closes: Counter::default(),
            deadline: Deadline::default(),
            connects: Connects::default(),
            answering: Answering::default(),
        }
    }

    async fn wait(self: Rc<Self>, setup: Rc<Setup>) {
        let pace = Pace::from_now(&setup.load);
        setup.recorder.phase("connect");
        let mut waiting = JoinSet::new();
        match self.options.without {
            Omission::Commands => {
                let attempts = pace.attempts(&setup.load);
                open_all(&setup, attempts, |opened| {
                    self.connected.increment();
                    self.connects.record(&opened);
                    waiting.spawn_local(self.clone().stay(opened));
                })
                .await;
            }
            Omission::Upgrade => {
                for index in 0..setup.load.connections {
                    sleep_until(pace.due(index)).await;
                    waiting.spawn_local(self.clone().say_nothing(setup.clone()));
                }
            }
        }
        setup.recorder.phase("wait");
        // Over when the time is, or when the last one is gone.
        let _ = timeout_at(pace.end(&setup.load), waiting.join_all()).await;
    }

    /// Answers pings, and does nothing else.
    async fn stay(self: Rc<Self>, opened: Opened) {
        let Opened { mut connection, began, at, .. } = opened;
        let Err(end) = self.answering.listen(&mut connection, |_| {}).await;
        self.record_end(end, Beginning { earliest: began, latest: at });
    }

    /// Connects, and that is all.
    async fn say_nothing(self: Rc<Self>, setup: Rc<Setup>) {
        let earliest = Instant::now();
        let (mut stream, live) = match setup.dialer.connect().await {
            Ok(connected) => connected,
            Err(failure) => return setup.failures.record(&failure),
        };
        self.connected.increment();
        let beginning = Beginning { earliest, latest: Instant::now() };
        wait_for_end(&mut stream).await;
        live.ended(End::Cut);
        self.record_end(End::Cut, beginning);
    }

    fn record_end(&self, end: End, beginning: Beginning) {
        self.answering.ends.record(end);
        if self.options.code.is_some_and(|code| code != end.code()) {
            return self.other_closes.increment();
        }
        self.closed.increment();
        self.deadline.expired_since(
            beginning.earliest.elapsed(),
            beginning.latest.elapsed(),
            self.options.after,
        );
    }
}

/// Returns when the server ends the connection, or says that it will: some answer with an HTTP status first.
async fn wait_for_end(stream: &mut TcpStream) {
    // However it ended.
    let _ = stream.read(&mut [0]).await;
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::{Args, Command};

    fn expire(options: &str) -> Expire {
        let words =
            format!("loadgen expire ws://h/ws --connections 1 --rate 1 --duration 1s --after 1s {options}");
        match Args::try_parse_from(words.split_whitespace()).expect("the words are good").command {
            Command::Run(args::Scenario::Expire(options)) => Expire::new(options),
            _ => panic!("it is another scenario"),
        }
    }

    #[test]
    fn only_the_code_that_was_asked_for_counts() {
        let now = Instant::now();
        let beginning = Beginning { earliest: now, latest: now };
        let (any, idle) = (expire(""), expire("--code 4004"));
        for scenario in [&any, &idle] {
            scenario.record_end(End::Closed(Some(4004)), beginning);
            scenario.record_end(End::Cut, beginning);
        }
        assert_eq!((any.closed.get(), any.other_closes.get()), (2, 0));
        assert_eq!((idle.closed.get(), idle.other_closes.get()), (1, 1));
    }
}
