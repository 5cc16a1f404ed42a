//! One cell of the table: a server, a link, a client and a fault.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use encke_tests::network::NetworkLink;
use encke_tests::process::Signal;
use encke_tests::waiting::let_pass;
use encke_tests::{Launch, RunningServer, Script};
use parking_lot::Mutex;
use serde_json::json;

use crate::client::{CHANNEL, FaultClient};
use crate::condition::LinkCondition;
use crate::ledger::Ledger;
use crate::outcome::{CellOutcome, CellTimes};
use crate::traffic::TrafficPlan;

/// Polling interval, and thus the maximum delay of an action on a machine that is not busy.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// A combination of link, client and traffic to test.
#[derive(Clone, Debug)]
pub(crate) struct FaultCell {
    pub(crate) condition: LinkCondition,
    /// Client at the far end of the link.
    pub(crate) client: FaultClient,
    pub(crate) traffic: TrafficPlan,
    /// Settings of the server (`key=value`).
    pub(crate) settings: Vec<String>,
}

/// Step of a cell. Messages are published at intervals, independently of the steps.
#[derive(Clone, Copy, Debug)]
enum Step {
    FaultBegins,
    Burst,
    FaultEnds,
    PublishingEnds,
}

impl FaultCell {
    /// Runs the cell. Returns `None` if it is interrupted through `over`.
    ///
    /// # Panics
    /// Without root, or if a required program is not installed.
    pub(crate) fn run(&self, over: &AtomicBool) -> Option<CellOutcome> {
        let mut running = RunningCell::start(self);
        let mut times = CellTimes::default();
        for (at, step) in self.steps() {
            running.publish_until(at, self.traffic, over)?;
            match step {
                Step::FaultBegins => {
                    self.condition.fault.begin(&running.link);
                    times.fault_start = Some(running.began.elapsed());
                }
                Step::Burst => {
                    (0..self.traffic.burst).for_each(|_| running.publish(self.traffic.burst_message));
                    times.burst = Some(running.began.elapsed());
                }
                Step::FaultEnds => {
                    self.condition.fault.end(&running.link);
                    times.fault_end = Some(running.began.elapsed());
                }
                Step::PublishingEnds => {}
            }
        }
        let limit = running.began.elapsed() + self.traffic.limit;
        while running.ledger.counts().missing() > 0 && running.began.elapsed() < limit {
            running.poll(over)?;
        }
        times.end = running.began.elapsed();
        Some(CellOutcome::of(self, &running.ledger, times, &running.server, &running.script))
    }

    /// Returns the steps in order, with the time of each.
    fn steps(&self) -> Vec<(Duration, Step)> {
        let TrafficPlan { before_fault, until_burst, during_fault, after_fault, .. } = self.traffic;
        let mut steps = vec![(before_fault, Step::FaultBegins), (before_fault + until_burst, Step::Burst)];
        match self.condition.fault.duration() {
            Some(lasts) => {
                let end = before_fault + lasts;
                steps.extend([(end, Step::FaultEnds), (end + after_fault, Step::PublishingEnds)]);
            }
            None => steps.push((before_fault + during_fault, Step::PublishingEnds)),
        }
        steps.sort_by_key(|(at, _)| *at);
        steps
    }
}

/// State of a cell while it runs.
struct RunningCell {
    began: Instant,
    script: Script,
    server: RunningServer,
    ledger: Ledger,
    next_message: Duration,
    /// Dropped last, because the other fields use its namespace and address.
    link: NetworkLink,
}

impl Drop for RunningCell {
    fn drop(&mut self) {
        // Kill the script's child processes and stopped processes, too.
        self.link.signal(Signal::KILL);
    }
}

impl RunningCell {
    /// Starts a server, and a client that subscribes to the channel, on a link without a fault.
    fn start(cell: &FaultCell) -> Self {
        // Start one client after the other, because starting one keeps the machine busy.
        static TURN: Mutex<()> = Mutex::new(());
        let _turn = TURN.lock();
        let link = NetworkLink::new();
        cell.condition.fault.prepare(&link);
        let launch = Launch::listening_on(&SocketAddr::new(link.near_address(), 0).to_string());
        let launch =
            cell.settings.iter().fold(launch.argument("--insecure"), |launch, setting| launch.set(setting));
        let server = launch.start();
        let script = cell.client.start(&link, server.public);
        let _ = script.await_object(cell.client.subscribed_key(), 1);
        let (began, next_message) = (Instant::now(), Duration::ZERO);
        Self { began, script, server, ledger: Ledger::default(), next_message, link }
    }

    /// Publishes at intervals until this time. Returns `None` if the cell is interrupted.
    fn publish_until(&mut self, end: Duration, traffic: TrafficPlan, over: &AtomicBool) -> Option<()> {
        while self.began.elapsed() < end {
            if self.began.elapsed() >= self.next_message {
                self.next_message += traffic.interval;
                self.publish(traffic.message);
            }
            self.poll(over)?;
        }
        Some(())
    }

    fn publish(&mut self, length: u32) {
        let number = self.ledger.publish(self.began.elapsed());
        let text = "x".repeat(length as usize);
        let at = self.server.admin.publish(CHANNEL, json!({ "number": number, "text": text }));
        assert_eq!(at["offset"], number, "no other publisher");
    }

    /// Records what the client has received, and waits a moment. Returns `None` if the cell is interrupted.
    fn poll(&mut self, over: &AtomicBool) -> Option<()> {
        for (at, object) in self.script.take_objects() {
            self.ledger.record(at.saturating_duration_since(self.began), &object);
        }
        let_pass(POLL_INTERVAL);
        (!over.load(Ordering::Relaxed)).then_some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disconnected_client_recovers_everything() {
        let cell = FaultCell {
            condition: "cut-1s".parse().expect("a valid link"),
            client: FaultClient::Json,
            traffic: TrafficPlan::QUICK,
            settings: TrafficPlan::QUICK.settings.iter().map(ToString::to_string).collect(),
        };
        let outcome = cell.run(&AtomicBool::new(false)).expect("the cell is not interrupted");
        let counts = &outcome.counts;
        assert!(counts.is_exact() && counts.delivered == counts.published, "{outcome:?}");
        assert_eq!(counts.sessions, 1, "{outcome:?}");
        let is_delayed = |seconds: Option<f64>| seconds.is_some_and(|seconds| seconds > 0.0);
        assert!(outcome.back_s.is_some() && is_delayed(outcome.burst_s), "{outcome:?}");
    }
}
