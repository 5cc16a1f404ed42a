//! Read slowly or not at all on a share of the connections, while messages are published to all.

use std::ops::ControlFlow;
use std::rc::Rc;
use std::time::Duration;

use encke_core::close::CloseCode;
use serde::Serialize;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use super::channel::{Concurrent, ConnectionsOutcome, Round, Subscriber, Subscribers, SubscribersOutcome};
use super::spread::is_chosen;
use super::{Attempt, Figures, Opened, Outcome, Run, Scenario, Setup};
use crate::args;
use crate::client::{Connection, Event};
use crate::progress::Bar;
use crate::record::{Counter, Ends, EndsOutcome, Recorder};
use crate::result::Group;
use crate::transport::websocket::{End, NO_CLOSE_FRAME};

/// What the kernel takes in for a slow connection before it is read; it doubles this. With the usual one, a slow reader would
/// go unnoticed for megabytes.
const RECEIVE_BUFFER_BYTES: u32 = 8 * 1024;
/// The longest that is read in the end, to see what became of a slow connection: its Close frame comes after all that was not read.
const LONGEST_DRAIN: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(crate) struct Slow {
    options: args::Slow,
    subscribers: Subscribers,
    slow: Counter,
    /// Slow connections that the server gave up.
    closed: Counter,
    /// Slow connections that ended by another code.
    other_closes: Counter,
    /// Slow connections that the server kept.
    still_open: Counter,
    ends: Ends,
}

impl Scenario for Slow {
    fn record(&self, recorder: &Recorder) {
        recorder.counters([
            ("slow", &self.slow),
            ("closed", &self.closed),
            ("other_closes", &self.other_closes),
            ("still_open", &self.still_open),
        ]);
        self.subscribers.register(recorder);
    }

    fn run(self: Rc<Self>, setup: Rc<Setup>) -> Run {
        Box::pin(async move { self.publish(setup).await })
    }

    fn figures(&self) -> Figures {
        Figures::of_phases(["subscribe", "publish"])
    }

    fn connected(&self) -> u64 {
        self.subscribers.connected.get()
    }

    fn bars(&self, setup: &Setup) -> Vec<Bar> {
        let mut bars = self.subscribers.bars(setup);
        bars.push(Bar { label: "closed", done: self.closed.get(), of: self.slow.get() });
        bars
    }

    fn outcome(&self, setup: &Setup) -> Outcome {
        Outcome::Single(Group::of(&SlowOutcome {
            subscribers: self.subscribers.outcome(setup),
            slow: self.slow.get(),
            closed: self.closed.get(),
            other_closes: self.other_closes.get(),
            still_open: self.still_open.get(),
            slow_ends: self.ends.outcome(),
            connections: self.subscribers.connections(),
        }))
    }
}

#[derive(Serialize)]
struct SlowOutcome {
    #[serde(flatten)]
    subscribers: SubscribersOutcome,
    slow: u64,
    closed: u64,
    other_closes: u64,
    still_open: u64,
    slow_ends: EndsOutcome,
    #[serde(flatten)]
    connections: ConnectionsOutcome,
}

/// What is read at once, at this rate a second. Never as much as would be without a limit.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it saturates")]
fn sip_bytes(rate: u32, every: Duration) -> u32 {
    ((f64::from(rate) * every.as_secs_f64()).round() as u32).clamp(u32::from(rate > 0), u32::MAX - 1)
}

impl Slow {
    pub(crate) fn new(options: args::Slow) -> Self {
        Self {
            subscribers: Subscribers::new(options.channel_load.clone()),
            options,
            slow: Counter::default(),
            closed: Counter::default(),
            other_closes: Counter::default(),
            still_open: Counter::default(),
            ends: Ends::default(),
        }
    }

    async fn publish(self: Rc<Self>, setup: Rc<Setup>) {
        let round = Rc::<Round>::default();
        let (stay_slow, be_slow) = watch::channel(());
        let (mut slow, mut others) = (JoinSet::new(), JoinSet::new());
        let make_slow = |mut attempt: Attempt| {
            let is_slow = is_chosen(attempt.index, self.options.share);
            attempt.receive_buffer_bytes = is_slow.then_some(RECEIVE_BUFFER_BYTES);
            attempt
        };
        self.subscribers
            .connect_all_with(&setup, &round, make_slow, |opened| {
                if is_chosen(opened.index, self.options.share) {
                    let life =
                        self.clone().live_slowly(setup.clone(), round.clone(), opened, be_slow.clone());
                    slow.spawn_local(life);
                } else {
                    others.spawn_local(self.clone().live(setup.clone(), round.clone(), opened));
                }
            })
            .await;
        let beside = |round: &Round| {
            let end = round.last_due().unwrap_or_else(Instant::now);
            let others =
                Concurrent { last_due: end + self.options.slow_for, progress: &|| 0, is_done: &|| true };
            (others, std::future::ready(()))
        };
        self.subscribers.publish_and_wait(&setup, &round, beside).await;
        drop(stay_slow);
        slow.join_all().await;
    }

    async fn live(self: Rc<Self>, setup: Rc<Setup>, round: Rc<Round>, opened: Opened) {
        let Opened { mut connection, greeting, .. } = opened;
        if self.subscribers.join(&setup, &round, &mut connection, true).await {
            let mut subscriber = Subscriber::new(greeting.ticket, true);
            let end = self.subscribers.listen(&round, &mut connection, &mut subscriber).await;
            self.subscribers.answering.record_close(end);
        }
    }

    async fn live_slowly(
        self: Rc<Self>,
        setup: Rc<Setup>,
        round: Rc<Round>,
        opened: Opened,
        mut be_slow: watch::Receiver<()>,
    ) {
        let Opened { mut connection, .. } = opened;
        if !self.subscribers.join(&setup, &round, &mut connection, false).await {
            return;
        }
        self.slow.increment();
        let end = tokio::select! {
            biased;
            end = self.sip(&mut connection) => Some(end),
            // The sender says nothing, and is gone when it is time.
            _ = be_slow.changed() => self.drain(&mut connection).await,
        };
        match end {
            Some(end) => self.record_end(end),
            None => self.still_open.increment(),
        }
    }

    /// Reads at the rate that was asked for, until the connection ends.
    async fn sip(&self, connection: &mut Connection) -> End {
        let sip = sip_bytes(self.options.read_rate, self.options.read_every);
        loop {
            connection.allow_reading(sip);
            let read = connection.each(|_| ControlFlow::<()>::Continue(()));
            tokio::select! {
                Err(end) = read => return end,
                () = sleep(self.options.read_every) => {}
            }
        }
    }

    /// Reads all that there is. `None`: and the connection is still open.
    async fn drain(&self, connection: &mut Connection) -> Option<End> {
        connection.allow_reading(u32::MAX);
        let all = async {
            loop {
                // Pings go on for as long as it is open.
                let message = connection.each(|event| match event {
                    Event::Text(_) => ControlFlow::Break(()),
                    _ => ControlFlow::Continue(()),
                });
                match timeout(self.subscribers.options.grace, message).await {
                    Ok(Ok(())) => {}
                    Ok(Err(end)) => return Some(end),
                    Err(_) => return None,
                }
            }
        };
        timeout(LONGEST_DRAIN, all).await.ok().flatten()
    }

    fn record_end(&self, end: End) {
        self.ends.record(end);
        if [NO_CLOSE_FRAME, CloseCode::SlowConsumer.code()].contains(&end.code()) {
            self.closed.increment();
        } else {
            self.other_closes.increment();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sip_is_as_much_as_the_rate_allows() {
        for (rate, every_ms, bytes) in
            [(0, 100, 0), (1000, 100, 100), (300_000, 400, 120_000), (1_000_000, 1_000_000_000, u32::MAX - 1)]
        {
            assert_eq!(sip_bytes(rate, Duration::from_millis(every_ms)), bytes, "{rate} every {every_ms} ms");
        }
    }
}
