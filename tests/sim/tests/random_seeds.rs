//! Runs the simulation with random seeds, which it prints.

use std::process::Command;

#[test]
fn every_invariant_holds() {
    // Shrinking would take minutes without optimisation, and can be done later by running the seed again.
    let campaign = ["--count", "12", "--jobs", "2", "--steps", "20000", "--no-shrinking"];
    let status = Command::new(env!("CARGO_BIN_EXE_encke-sim")).args(campaign).status();
    assert!(status.expect("the simulation starts").success());
}
