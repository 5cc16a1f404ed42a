//! Runs the simulation with fixed seeds. Random seeds are for campaigns: they still find failures.

use std::process::Command;

#[test]
fn every_invariant_holds() {
    // Shrinking would take minutes without optimisation, and can be done later by running the seed again.
    let campaign = ["--count", "12", "--from", "1", "--jobs", "2", "--steps", "20000", "--no-shrinking"];
    let status = Command::new(env!("CARGO_BIN_EXE_encke-sim")).args(campaign).status();
    assert!(status.expect("the simulation starts").success());
}
