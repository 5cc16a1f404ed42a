//! One attack: quiet time, attack, quiet time. The healthy session runs throughout.

use std::sync::Arc;

use tokio::time::{Instant, sleep_until};

use super::attacker::{AttackParameters, attack};
use super::costs::AttackCosts;
use super::healthy::Healthy;
use super::visitor::AttackVisitor;
use crate::args::{AbuseOptions, Attack};
use crate::record::Metrics;
use crate::scenario::Setup;

/// Fraction of the attack after which the visitor connects.
const VISIT_AT: f64 = 0.75;

#[derive(Debug)]
pub(super) struct Trial {
    attack: Attack,
    costs: Arc<AttackCosts>,
    healthy: Healthy,
    visitor: AttackVisitor,
}

impl Trial {
    pub(super) fn new(attack: Attack, options: &AbuseOptions, metrics: &Metrics) -> Self {
        let metrics = metrics.below(&format!("attacks.{}", attack.name()));
        metrics.value("connections", options.connections(attack));
        Self {
            attack,
            costs: Arc::new(AttackCosts::new(&metrics)),
            healthy: Healthy::new(&metrics),
            visitor: AttackVisitor::new(&metrics),
        }
    }

    pub(super) async fn run(&self, setup: &Setup, options: &AbuseOptions) {
        let name = self.attack.name();
        setup.enter_phase(&format!("{name}_before"));
        // Without a healthy session before the attack, there is nothing to measure.
        let Some(session) = self.healthy.open(setup).await else { return };
        let stages = async {
            let start = Instant::now();
            sleep_until(start + options.quiet_for).await;
            setup.enter_phase(name);
            self.healthy.enter_next_stage();
            self.run_attack(setup, options).await;
            setup.enter_phase(&format!("{name}_after"));
            self.healthy.enter_next_stage();
            let end = Instant::now() + options.quiet_for;
            self.visitor.fetch_history(setup, &self.healthy).await;
            sleep_until(end).await;
            self.healthy.finish();
        };
        tokio::join!(self.healthy.run(setup, session), stages);
    }

    async fn run_attack(&self, setup: &Setup, options: &AbuseOptions) {
        let (start, duration) = (Instant::now(), options.duration);
        let parameters = AttackParameters {
            attack: self.attack,
            options: options.clone(),
            server: setup.dialer.server(),
            dial: setup.load.server.dial_options(),
        };
        let attacked = async {
            match attack(parameters, self.costs.clone()) {
                Ok(attack) => attack.await,
                Err(error) => setup.failures.record(&error.into()),
            }
            sleep_until(start + duration).await;
        };
        let visit = async {
            sleep_until(start + duration.mul_f64(VISIT_AT)).await;
            self.visitor.connect(setup).await;
        };
        tokio::join!(attacked, visit);
    }
}
