//! Connections that arrive at random and leave at random: an open population.

use std::rc::Rc;
use std::time::Duration;

use rand::SeedableRng;
use rand::rngs::SmallRng;
use rand_distr::{Distribution, Exp};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use super::answering::Answering;
use super::connects::Connects;
use super::{Attempt, OpenedConnection, Setup, open};
use crate::args::{ChurnOptions, Lifetime};
use crate::record::{Counter, Highest, Metrics};

#[derive(Debug)]
pub(crate) struct Churn {
    lifetime: Lifetime,
    seed: u64,
    arrived: Counter,
    /// Number of arrivals beyond the maximum number of open connections.
    skipped: Counter,
    connects: Connects,
    /// Number of connections that closed after their lifetime.
    left: Counter,
    answering: Rc<Answering>,
    peak: Highest,
}

impl Churn {
    pub(super) fn new(options: &ChurnOptions, metrics: &Metrics) -> Self {
        // Apply Little's law, if lifetimes have a mean.
        let expected = options.lifetime.mean().map(|mean| mean * options.rate);
        metrics.value("expected_open", expected);
        let churn = Self {
            lifetime: options.lifetime,
            seed: options.seed,
            arrived: metrics.counter("arrived"),
            skipped: metrics.counter("skipped"),
            connects: Connects::new(metrics),
            left: metrics.counter("left"),
            answering: Answering::new(metrics),
            peak: metrics.highest("peak_open"),
        };
        let arrived = churn.arrived.clone();
        let settled = [churn.skipped.clone(), metrics.counter("errors"), churn.connects.connected.clone()];
        metrics.computed("connecting_at_end", move || rest(&arrived, &settled));
        let (connected, ended) = (churn.connects.connected.clone(), churn.ended());
        metrics.computed("open_at_end", move || rest(&connected, &ended));
        churn
    }

    /// Returns the counters of connections that are no longer open.
    fn ended(&self) -> [Counter; 2] {
        [self.left.clone(), self.answering.unexpected_closes.clone()]
    }

    /// Opens connections until the duration is over. Connections that are still open at the end are dropped
    /// and counted as open; what the server does with them later is not observed.
    pub(super) async fn run(self: Rc<Self>, setup: Rc<Setup>) {
        let Ok(between) = Exp::new(setup.load.rate) else { return };
        let mut rng = SmallRng::seed_from_u64(self.seed);
        setup.enter_phase("churn");
        let start = Instant::now();
        let mut present = JoinSet::new();
        let mut due = start;
        loop {
            due += Duration::from_secs_f64(between.sample(&mut rng));
            if due > start + setup.load.duration {
                break;
            }
            sleep_until(due).await;
            while present.try_join_next().is_some() {}
            self.arrived.increment();
            let lifetime = self.lifetime.sample(&mut rng);
            if present.len() >= setup.load.connections as usize {
                self.skipped.increment();
            } else {
                present.spawn_local(self.clone().run_connection(setup.clone(), due, lifetime));
            }
        }
        sleep_until(start + setup.load.duration).await;
        present.shutdown().await;
    }

    /// Opens a connection, keeps it open for its lifetime, and closes it with a Close frame.
    async fn run_connection(self: Rc<Self>, setup: Rc<Setup>, due: Instant, lifetime: Duration) {
        let opened = match open(setup.clone(), Attempt { index: 0, due, resume: None }).await {
            Ok(opened) => opened,
            Err(failure) => return setup.failures.record(&failure),
        };
        self.connects.record(&opened);
        #[expect(clippy::cast_precision_loss, reason = "no count comes near 2^53")]
        self.peak.record(rest(&self.connects.connected, &self.ended()) as f64);
        let OpenedConnection { mut connection, at, .. } = opened;
        tokio::select! {
            biased;
            () = self.answering.answer(&mut connection, |_| {}) => return,
            () = sleep_until(at + lifetime) => {}
        }
        connection.close().await;
        self.left.increment();
    }
}

/// Returns `whole` minus the sum of `parts`. Reads the parts first: if counters grow in between, the result is
/// too large, never negative.
fn rest(whole: &Counter, parts: &[Counter]) -> u64 {
    let parts = parts.iter().map(Counter::get).sum();
    whole.get().saturating_sub(parts)
}
