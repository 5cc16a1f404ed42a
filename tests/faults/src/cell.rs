//! One cell of the table: a server, a link, a client, a fault.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use encke_tests::network::NetworkLink;
use encke_tests::process::Signal;
use encke_tests::waiting::let_pass;
use encke_tests::{Launch, RunningServer, Script};
use parking_lot::{Mutex, MutexGuard};
use serde_json::json;

use crate::client::{CHANNEL, Client};
use crate::condition::Condition;
use crate::ledger::Ledger;
use crate::outcome::{Instants, Outcome};
use crate::pace::Pace;

/// How soon after it is due something is done, at most, on a machine that is not busy.
const STEP: Duration = Duration::from_millis(20);

/// What is to be tried.
#[derive(Clone, Debug)]
pub struct Cell {
    /// What is wrong with the link.
    pub condition: Condition,
    /// The client at its end.
    pub client: Client,
    /// What is published meanwhile.
    pub pace: Pace,
    /// Settings of the server (`key=value`).
    pub settings: Vec<String>,
}

impl Cell {
    /// Tries it. `None` if `over` is set before it has ended.
    ///
    /// # Panics
    /// Without root, or when something that it needs is not installed.
    #[must_use]
    pub fn run(&self, over: &AtomicBool) -> Option<Outcome> {
        let mut scene = Scene::set(self);
        let began = Instant::now();
        let mut instants = Instants::default();
        while !over.load(Ordering::Relaxed) {
            let now = began.elapsed();
            scene.hear(began);
            let done = scene.act(now, self, &mut instants);
            let complete = done && scene.ledger.missing() == 0;
            let late = instants.silent.is_some_and(|silent| now > silent + self.pace.limit);
            if complete || late {
                instants.end = now;
                return Some(Outcome::of(self, &scene.ledger, instants, &scene.server, &scene.script));
            }
            let_pass(STEP);
        }
        None
    }
}

/// Clients start one after the other: they have a busy machine for a moment.
fn turn_to_start() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock()
}

/// What plays.
struct Scene {
    script: Script,
    server: RunningServer,
    ledger: Ledger,
    next_message: Duration,
    /// Dropped last: the others use its namespace and its address.
    link: NetworkLink,
}

impl Drop for Scene {
    fn drop(&mut self) {
        // Also those that its script has started, and those that are stopped.
        self.link.signal(Signal::KILL);
    }
}

impl Scene {
    /// A client that follows the channel, on a link without a fault.
    fn set(cell: &Cell) -> Self {
        let _turn = turn_to_start();
        let link = NetworkLink::new();
        cell.condition.prepare(&link);
        let launch = Launch::listening_on(&SocketAddr::new(link.near_address(), 0).to_string());
        let launch =
            cell.settings.iter().fold(launch.argument("--insecure"), |launch, setting| launch.set(setting));
        let server = launch.start();
        let script = cell.client.start(&link, server.public);
        let _ = script.await_object(cell.client.ready(), 1);
        Self { script, server, ledger: Ledger::default(), next_message: Duration::ZERO, link }
    }

    fn hear(&mut self, began: Instant) {
        for (at, object) in self.script.take_heard() {
            self.ledger.hear(at.saturating_duration_since(began), &object);
        }
    }

    /// Does what is due: whether that was all.
    fn act(&mut self, now: Duration, cell: &Cell, instants: &mut Instants) -> bool {
        let (pace, condition, link) = (cell.pace, cell.condition, &self.link);
        let lasts = condition.lasts();
        if instants.fault.is_none() && now >= pace.healthy {
            condition.begin(link);
            instants.fault = Some(now);
        }
        let Some(fault) = instants.fault else {
            self.publish_in_turn(now, pace);
            return false;
        };
        if instants.mended.is_none() && lasts.is_some_and(|lasts| now >= fault + lasts) {
            condition.end(link);
            instants.mended = Some(now);
        }
        if instants.burst.is_none() && now >= fault + pace.until_burst {
            instants.burst = Some(now);
            (0..pace.burst).for_each(|_| self.publish(now, pace.burst_message));
        }
        let until = if lasts.is_some() {
            instants.mended.map(|at| at + pace.mended)
        } else {
            Some(fault + pace.lasting)
        };
        if until.is_some_and(|until| now >= until) {
            instants.silent.get_or_insert(now);
            return true;
        }
        self.publish_in_turn(now, pace);
        false
    }

    fn publish_in_turn(&mut self, now: Duration, pace: Pace) {
        if now >= self.next_message {
            self.next_message += pace.interval;
            self.publish(now, pace.message);
        }
    }

    fn publish(&mut self, now: Duration, length: usize) {
        let number = self.ledger.publish(now);
        let at = self.server.admin.publish(CHANNEL, json!({ "number": number, "text": "x".repeat(length) }));
        assert_eq!(at["offset"], number, "nobody else publishes");
    }
}
