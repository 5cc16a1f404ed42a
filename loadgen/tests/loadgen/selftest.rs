//! Tests that `selftest` detects every fault of its own server.

use crate::run::loadgen;

#[tokio::test(flavor = "multi_thread")]
async fn every_fault_is_found_and_the_honest_server_is_clean() {
    let ended = loadgen("selftest").await;
    assert_eq!(ended.code, 0, "{}{}", ended.stdout, ended.stderr);
    assert_eq!(ended.stderr, "");
    for fault in ["loses a message", "never closes a mute peer", "forgets sessions within their window"] {
        let row = ended.stdout.lines().find(|line| line.contains(fault));
        assert!(row.is_some_and(|row| row.contains("found")), "{fault} in {}", ended.stdout);
    }
    assert!(!ended.stdout.contains("MISSED"), "{}", ended.stdout);
}
