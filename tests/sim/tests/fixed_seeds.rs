//! Runs the simulation with fixed seeds.

use std::process::Command;

#[test]
fn every_invariant_holds() {
    let campaign = ["--count", "12", "--from", "20000", "--jobs", "2", "--steps", "20000"];
    let status = Command::new(env!("CARGO_BIN_EXE_encke-sim")).args(campaign).status();
    assert!(status.expect("the simulation starts").success());
}
