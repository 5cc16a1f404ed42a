//! One attack: quiet time, attack, quiet time. The healthy session runs throughout.

use std::rc::Rc;
use std::sync::Arc;

use serde::Serialize;
use tokio::time::{Duration, Instant, sleep_until};

use super::attacker::{AttackParameters, attack};
use super::costs::AttackCosts;
use super::healthy::{Healthy, HealthyOutcome, TrialStage};
use super::visitor::AttackVisitor;
use super::{HealthyTotals, TrialDurations};
use crate::args::{Attack, FrameKind};
use crate::result::Group;
use crate::scenario::Setup;

/// Fraction of the attack after which the visitor connects.
const VISIT_AT: f64 = 0.75;

#[derive(Debug)]
pub(super) struct Trial {
    attack: Attack,
    connections: u32,
    kind: Option<FrameKind>,
    costs: Arc<AttackCosts>,
    healthy: Rc<Healthy>,
    visitor: AttackVisitor,
}

#[derive(Serialize)]
struct TrialOutcome {
    connections: u32,
    attacker: Group,
    healthy: HealthyOutcome,
    visitor: Group,
}

impl Trial {
    pub(super) fn new(
        attack: Attack,
        connections: u32,
        kind: Option<FrameKind>,
        totals: &HealthyTotals,
    ) -> Self {
        let (costs, visitor) = (Arc::default(), AttackVisitor::default());
        Self { attack, connections, kind, costs, healthy: Rc::new(Healthy::new(totals)), visitor }
    }

    pub(super) fn name(&self) -> &'static str {
        self.attack.name()
    }

    /// Returns the names of the trial's phases, in order.
    pub(super) fn phases(&self) -> [String; 3] {
        let name = self.name();
        [format!("{name}_before"), name.to_owned(), format!("{name}_after")]
    }

    pub(super) fn outcome(&self) -> Group {
        Group::of(&TrialOutcome {
            connections: self.connections,
            attacker: self.costs.outcome(),
            healthy: self.healthy.outcome(),
            visitor: self.visitor.outcome(),
        })
    }

    pub(super) fn answers(&self) -> Group {
        self.costs.answers()
    }

    pub(super) async fn run(&self, setup: &Rc<Setup>, lengths: TrialDurations) {
        let [before, during, after] = self.phases();
        setup.recorder.phase(&before);
        // Without a healthy session before the attack, there is nothing to measure.
        let Some(session) = self.healthy.open(setup).await else { return };
        let stages = async {
            let start = Instant::now();
            sleep_until(start + lengths.quiet).await;
            setup.recorder.phase(&during);
            self.healthy.enter(TrialStage::Attack);
            self.run_attack(setup, lengths.attack).await;
            setup.recorder.phase(&after);
            self.healthy.enter(TrialStage::After);
            let end = Instant::now() + lengths.quiet;
            self.visitor.fetch_history(setup, &self.healthy).await;
            sleep_until(end).await;
            self.healthy.finish();
        };
        tokio::join!(self.healthy.clone().run(setup, session), stages);
    }

    async fn run_attack(&self, setup: &Setup, duration: Duration) {
        let start = Instant::now();
        let parameters = AttackParameters {
            attack: self.attack,
            connections: self.connections,
            kind: self.kind,
            server: setup.dialer.server(),
            dial: setup.load.server.dial_options(),
            duration,
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
