//! One attack: a quiet time, the attack, a quiet time; the healthy session all along.

use std::rc::Rc;
use std::sync::Arc;

use serde::Serialize;
use tokio::time::{Duration, Instant, sleep_until};

use super::attacker::{Orders, attack};
use super::bill::Bill;
use super::healthy::{Healthy, HealthyOutcome, Stage};
use super::visitor::Visitor;
use super::{Lengths, Totals};
use crate::args::{Attack, FrameKind};
use crate::result::Group;
use crate::scenario::Setup;

/// When a visitor comes: after this share of the attack.
const VISIT: f64 = 0.75;

#[derive(Debug)]
pub(super) struct Trial {
    attack: Attack,
    connections: u32,
    kind: Option<FrameKind>,
    bill: Arc<Bill>,
    healthy: Rc<Healthy>,
    visitor: Visitor,
}

#[derive(Serialize)]
struct TrialOutcome {
    connections: u32,
    attacker: Group,
    healthy: HealthyOutcome,
    visitor: Group,
}

impl Trial {
    pub(super) fn new(attack: Attack, connections: u32, kind: Option<FrameKind>, totals: &Totals) -> Self {
        let (bill, visitor) = (Arc::default(), Visitor::default());
        Self { attack, connections, kind, bill, healthy: Rc::new(Healthy::new(totals)), visitor }
    }

    pub(super) fn name(&self) -> &'static str {
        self.attack.name()
    }

    /// The names of its phases, in their order.
    pub(super) fn phases(&self) -> [String; 3] {
        let name = self.name();
        [format!("{name}_before"), name.to_owned(), format!("{name}_after")]
    }

    pub(super) fn outcome(&self) -> Group {
        Group::of(&TrialOutcome {
            connections: self.connections,
            attacker: self.bill.outcome(),
            healthy: self.healthy.outcome(),
            visitor: self.visitor.outcome(),
        })
    }

    pub(super) fn answers(&self) -> Group {
        self.bill.answers()
    }

    pub(super) async fn run(&self, setup: &Rc<Setup>, lengths: Lengths) {
        let [before, during, after] = self.phases();
        setup.recorder.phase(&before);
        // Whoever cannot come in before the attack shows nothing of it.
        let Some(session) = self.healthy.open(setup).await else { return };
        let stages = async {
            let start = Instant::now();
            sleep_until(start + lengths.quiet).await;
            setup.recorder.phase(&during);
            self.healthy.enter(Stage::Attack);
            self.strike(setup, lengths.attack).await;
            setup.recorder.phase(&after);
            self.healthy.enter(Stage::After);
            let end = Instant::now() + lengths.quiet;
            self.visitor.ask_for_history(setup, &self.healthy).await;
            sleep_until(end).await;
            self.healthy.finish();
        };
        tokio::join!(self.healthy.clone().live(setup, session), stages);
    }

    async fn strike(&self, setup: &Setup, duration: Duration) {
        let start = Instant::now();
        let orders = Orders {
            attack: self.attack,
            connections: self.connections,
            kind: self.kind,
            server: setup.dialer.server(),
            dial: setup.load.server.dial_options(),
            duration,
        };
        let attacked = async {
            match attack(orders, self.bill.clone()) {
                Ok(attack) => attack.await,
                Err(error) => setup.failures.record(&error.into()),
            }
            sleep_until(start + duration).await;
        };
        let visit = async {
            sleep_until(start + duration.mul_f64(VISIT)).await;
            self.visitor.come(setup).await;
        };
        tokio::join!(attacked, visit);
    }
}
