//! Runs the simulation for a minute, starting from a fixed seed.

use std::process::Command;

#[test]
fn every_invariant_holds() {
    // The number of steps is bounded, so that the last scenario exceeds the minute only slightly.
    let campaign = ["--minutes", "1", "--from", "20000", "--jobs", "2", "--steps", "100000"];
    let status = Command::new(env!("CARGO_BIN_EXE_encke-sim")).args(campaign).status();
    assert!(status.expect("the simulation starts").success());
}
