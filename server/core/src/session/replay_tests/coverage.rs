//! Whether the model still meets what it is there for.

use std::collections::BTreeMap;

/// How often each thing was met.
#[derive(Debug, Default)]
pub(super) struct Coverage(BTreeMap<&'static str, u32>);

/// What all runs together must meet.
const EXPECTED: [&str; 20] = [
    "ack of what was not sent on this connection",
    "cursor fell off the log",
    "duplicate",
    "frame pong",
    "full ring stopped",
    "pending gap",
    "gap resent",
    "input of a replaced connection",
    "late pong",
    "message pong",
    "message to be resent was trimmed",
    "old seq",
    "page lost what its machine had answered for",
    "pong timeout",
    "refused future",
    "resume without a seq",
    "ring wrapped",
    "take-over",
    "trimmed while suspended",
    "without any gap allowed",
];

impl Coverage {
    pub(super) fn met(&mut self, what: &'static str) {
        assert!(EXPECTED.contains(&what), "{what:?} is not in the list");
        *self.0.entry(what).or_default() += 1;
    }

    pub(super) fn check(&self) {
        println!("{self:#?}");
        for what in EXPECTED {
            assert!(self.0.contains_key(what), "no run met this: {what}");
        }
    }
}
