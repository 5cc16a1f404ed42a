//! Runs one cell of the table in a few seconds.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use encke_faults::{FaultCell, FaultClient, LinkCondition, TrafficPlan};

#[test]
fn a_disconnected_client_recovers_everything() {
    let cell = FaultCell {
        condition: LinkCondition::Cut(Duration::from_secs(1)),
        client: FaultClient::Json,
        pace: TrafficPlan::quick(),
        settings: TrafficPlan::QUICK_SETTINGS.map(str::to_owned).into(),
    };
    let outcome = cell.run(&AtomicBool::new(false)).expect("the cell is not interrupted");
    assert!(outcome.is_exact(), "{outcome:?}");
    assert_eq!(
        (outcome.delivered, outcome.covered, outcome.sessions),
        (outcome.published, 0, 1),
        "{outcome:?}"
    );
    assert!(outcome.back_s.is_some() && outcome.burst_s.is_some(), "{outcome:?}");
}
