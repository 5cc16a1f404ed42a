//! Reads slowly or not at all on a share of the connections, while messages are published to all.

use std::ops::ControlFlow;
use std::rc::Rc;
use std::time::Duration;

use encke_core::close::CloseCode;
use serde::Serialize;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use super::channel::{
    ConcurrentWork, ConnectionsOutcome, PublishRound, Subscriber, SubscriberGroup, SubscribersOutcome,
};
use super::spread::is_chosen;
use super::{Attempt, Figures, OpenedConnection, Scenario, ScenarioOutcome, ScenarioRun, Setup};
use crate::args;
use crate::client::{ClientConnection, ClientEvent};
use crate::progress::Bar;
use crate::record::{ConnectionEnds, Counter, EndsOutcome, Recorder};
use crate::result::Group;
use crate::transport::websocket::{ConnectionEnd, NO_CLOSE_FRAME};

/// Size of the kernel's receive buffer for a slow connection; the kernel doubles it. With the default size,
/// megabytes would be sent before a slow reader is noticed.
const RECEIVE_BUFFER_BYTES: u32 = 8 * 1024;
/// Time limit for reading at the end, to find out how a slow connection ended: its Close frame comes after
/// all unread data.
const MAX_DRAIN_TIME: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(crate) struct Slow {
    options: args::SlowOptions,
    subscribers: SubscriberGroup,
    slow: Counter,
    /// Number of slow connections that the server closed for being slow.
    closed: Counter,
    /// Number of slow connections that ended with another code.
    other_closes: Counter,
    /// Number of slow connections that the server kept open.
    still_open: Counter,
    ends: ConnectionEnds,
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

    fn run(self: Rc<Self>, setup: Rc<Setup>) -> ScenarioRun {
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

    fn outcome(&self, setup: &Setup) -> ScenarioOutcome {
        ScenarioOutcome::Single(Group::of(&SlowOutcome {
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

/// Returns the number of bytes per read, for a rate in bytes per second. The result is below `u32::MAX`,
/// which would mean no limit.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the cast saturates")]
fn bytes_per_read(rate: u32, every: Duration) -> u32 {
    ((f64::from(rate) * every.as_secs_f64()).round() as u32).clamp(u32::from(rate > 0), u32::MAX - 1)
}

impl Slow {
    pub(crate) fn new(options: args::SlowOptions) -> Self {
        Self {
            subscribers: SubscriberGroup::new(options.channel_load.clone()),
            options,
            slow: Counter::default(),
            closed: Counter::default(),
            other_closes: Counter::default(),
            still_open: Counter::default(),
            ends: ConnectionEnds::default(),
        }
    }

    async fn publish(self: Rc<Self>, setup: Rc<Setup>) {
        let round = Rc::<PublishRound>::default();
        let (end_slow_phase, slow_phase) = watch::channel(());
        let (mut slow, mut others) = (JoinSet::new(), JoinSet::new());
        let make_slow = |mut attempt: Attempt| {
            let is_slow = is_chosen(attempt.index, self.options.share);
            attempt.receive_buffer_bytes = is_slow.then_some(RECEIVE_BUFFER_BYTES);
            attempt
        };
        self.subscribers
            .connect_all_with(&setup, &round, make_slow, |opened| {
                if is_chosen(opened.index, self.options.share) {
                    let task = self.clone().run_slow_subscriber(
                        setup.clone(),
                        round.clone(),
                        opened,
                        slow_phase.clone(),
                    );
                    slow.spawn_local(task);
                } else {
                    others.spawn_local(self.clone().run_subscriber(setup.clone(), round.clone(), opened));
                }
            })
            .await;
        let beside = |round: &PublishRound| {
            let end = round.last_due().unwrap_or_else(Instant::now);
            let others =
                ConcurrentWork { last_due: end + self.options.slow_for, progress: &|| 0, is_done: &|| true };
            (others, std::future::ready(()))
        };
        self.subscribers.publish_and_wait(&setup, &round, beside).await;
        drop(end_slow_phase);
        slow.join_all().await;
    }

    async fn run_subscriber(
        self: Rc<Self>,
        setup: Rc<Setup>,
        round: Rc<PublishRound>,
        opened: OpenedConnection,
    ) {
        let OpenedConnection { mut connection, greeting, .. } = opened;
        if self.subscribers.join(&setup, &round, &mut connection, true).await {
            let mut subscriber = Subscriber::new(greeting.ticket, true);
            let end = self.subscribers.listen(&round, &mut connection, &mut subscriber).await;
            self.subscribers.answering.record_close(end);
        }
    }

    async fn run_slow_subscriber(
        self: Rc<Self>,
        setup: Rc<Setup>,
        round: Rc<PublishRound>,
        opened: OpenedConnection,
        mut slow_phase: watch::Receiver<()>,
    ) {
        let OpenedConnection { mut connection, .. } = opened;
        if !self.subscribers.join(&setup, &round, &mut connection, false).await {
            return;
        }
        self.slow.increment();
        let end = tokio::select! {
            biased;
            end = self.read_slowly(&mut connection) => Some(end),
            // Nothing is sent on this channel: it changes when its sender is dropped.
            _ = slow_phase.changed() => self.drain(&mut connection).await,
        };
        match end {
            Some(end) => self.record_end(end),
            None => self.still_open.increment(),
        }
    }

    /// Reads at the configured rate, until the connection ends.
    async fn read_slowly(&self, connection: &mut ClientConnection) -> ConnectionEnd {
        let bytes = bytes_per_read(self.options.read_rate, self.options.read_every);
        loop {
            connection.allow_reading(bytes);
            let read = connection.each(|_| ControlFlow::<()>::Continue(()));
            tokio::select! {
                Err(end) = read => return end,
                () = sleep(self.options.read_every) => {}
            }
        }
    }

    /// Reads everything that is pending. `None` if the connection is still open afterwards.
    async fn drain(&self, connection: &mut ClientConnection) -> Option<ConnectionEnd> {
        connection.allow_reading(u32::MAX);
        let all = async {
            loop {
                // Count only messages: pings continue as long as the connection is open.
                let message = connection.each(|event| match event {
                    ClientEvent::Text(_) => ControlFlow::Break(()),
                    _ => ControlFlow::Continue(()),
                });
                match timeout(self.subscribers.options.grace, message).await {
                    Ok(Ok(())) => {}
                    Ok(Err(end)) => return Some(end),
                    Err(_) => return None,
                }
            }
        };
        timeout(MAX_DRAIN_TIME, all).await.ok().flatten()
    }

    fn record_end(&self, end: ConnectionEnd) {
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
    fn bytes_per_read_follow_the_rate() {
        for (rate, every_ms, bytes) in
            [(0, 100, 0), (1000, 100, 100), (300_000, 400, 120_000), (1_000_000, 1_000_000_000, u32::MAX - 1)]
        {
            assert_eq!(
                bytes_per_read(rate, Duration::from_millis(every_ms)),
                bytes,
                "{rate} every {every_ms} ms"
            );
        }
    }
}
