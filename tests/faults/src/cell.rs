//! One cell of the table: a server, a link, a client and a fault.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use encke_tests::network::NetworkLink;
use encke_tests::process::Signal;
use encke_tests::waiting::let_pass;
use encke_tests::{Launch, RunningServer, Script};
use parking_lot::{Mutex, MutexGuard};
use serde_json::json;

use crate::client::{CHANNEL, FaultClient};
use crate::condition::LinkCondition;
use crate::ledger::Ledger;
use crate::outcome::{CellOutcome, CellTimes};
use crate::traffic_plan::TrafficPlan;

/// Polling interval, and thus the maximum delay of an action on a machine that is not busy.
const STEP: Duration = Duration::from_millis(20);

/// A combination of link, client and traffic to test.
#[derive(Clone, Debug)]
pub struct FaultCell {
    /// Fault of the link.
    pub condition: LinkCondition,
    /// Client at the far end of the link.
    pub client: FaultClient,
    /// Messages to publish.
    pub pace: TrafficPlan,
    /// Additional settings of the server (`key=value`).
    pub settings: Vec<String>,
}

impl FaultCell {
    /// Runs the cell. Returns `None` if it is interrupted through `over`.
    ///
    /// # Panics
    /// Without root, or if a required program is not installed.
    #[must_use]
    pub fn run(&self, over: &AtomicBool) -> Option<CellOutcome> {
        let mut scene = RunningCell::set(self);
        let began = Instant::now();
        let mut instants = CellTimes::default();
        while !over.load(Ordering::Relaxed) {
            let now = began.elapsed();
            scene.record_output(began);
            let done = scene.run_due_actions(now, self, &mut instants);
            let is_complete = done && scene.ledger.missing() == 0;
            let is_overdue = instants.last_publish.is_some_and(|silent| now > silent + self.pace.limit);
            if is_complete || is_overdue {
                instants.end = now;
                return Some(CellOutcome::of(self, &scene.ledger, instants, &scene.server, &scene.script));
            }
            let_pass(STEP);
        }
        None
    }
}

/// Locks the start of a client. Clients are started one after the other, because starting one keeps the
/// machine busy.
fn lock_startup() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock()
}

/// State of a cell while it runs.
struct RunningCell {
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
    fn set(cell: &FaultCell) -> Self {
        let _turn = lock_startup();
        let link = NetworkLink::new();
        cell.condition.prepare(&link);
        let launch = Launch::listening_on(&SocketAddr::new(link.near_address(), 0).to_string());
        let launch =
            cell.settings.iter().fold(launch.argument("--insecure"), |launch, setting| launch.set(setting));
        let server = launch.start();
        let script = cell.client.start(&link, server.public);
        let _ = script.await_object(cell.client.subscribed_key(), 1);
        Self { script, server, ledger: Ledger::default(), next_message: Duration::ZERO, link }
    }

    fn record_output(&mut self, began: Instant) {
        for (at, object) in self.script.take_objects() {
            self.ledger.record(at.saturating_duration_since(began), &object);
        }
    }

    /// Performs the actions that are due. Returns whether all have been performed.
    fn run_due_actions(&mut self, now: Duration, cell: &FaultCell, instants: &mut CellTimes) -> bool {
        let (pace, condition, link) = (cell.pace, cell.condition, &self.link);
        let lasts = condition.duration();
        if instants.fault_start.is_none() && now >= pace.before_fault {
            condition.begin(link);
            instants.fault_start = Some(now);
        }
        let Some(fault) = instants.fault_start else {
            self.publish_in_turn(now, pace);
            return false;
        };
        if instants.fault_end.is_none() && lasts.is_some_and(|lasts| now >= fault + lasts) {
            condition.end(link);
            instants.fault_end = Some(now);
        }
        if instants.burst.is_none() && now >= fault + pace.until_burst {
            instants.burst = Some(now);
            (0..pace.burst).for_each(|_| self.publish(now, pace.burst_message));
        }
        let until = if lasts.is_some() {
            instants.fault_end.map(|at| at + pace.after_fault)
        } else {
            Some(fault + pace.during_fault)
        };
        if until.is_some_and(|until| now >= until) {
            instants.last_publish.get_or_insert(now);
            return true;
        }
        self.publish_in_turn(now, pace);
        false
    }

    fn publish_in_turn(&mut self, now: Duration, pace: TrafficPlan) {
        if now >= self.next_message {
            self.next_message += pace.interval;
            self.publish(now, pace.message);
        }
    }

    fn publish(&mut self, now: Duration, length: usize) {
        let number = self.ledger.publish(now);
        let at = self.server.admin.publish(CHANNEL, json!({ "number": number, "text": "x".repeat(length) }));
        assert_eq!(at["offset"], number, "no other publisher");
    }
}
