//! Whether the model still meets what it is there for.

use std::collections::BTreeMap;

/// How often each thing was met.
#[derive(Debug, Default)]
pub(super) struct Coverage(BTreeMap<&'static str, u32>);

/// What all runs together must meet.
const EXPECTED: [&str; 42] = [
    "ack of what was not sent on this connection",
    "answer failed",
    "answer lost",
    "answer lost late",
    "answer that may be swallowed",
    "at most once, without any gap allowed",
    "cursor fell off the log",
    "duplicate",
    "frame pong",
    "full ring stopped",
    "gap for what others sent",
    "gap resent",
    "input of a replaced connection",
    "late poll",
    "late poll older than the ring",
    "late pong",
    "message pong",
    "message to be resent was trimmed",
    "old seq",
    "page lost what its machine had answered for",
    "pending gap",
    "poll answered",
    "poll answered empty",
    "poll overtaken while it is answered",
    "poll superseded",
    "passed over",
    "passed over what one had sent that has ended",
    "pong timeout",
    "refused future",
    "request between polls",
    "restart",
    "resume without a seq",
    "ring wrapped",
    "stream goes back",
    "stream's request answered",
    "swallowed",
    "take-over",
    "told of a beginning",
    "told of an end",
    "trimmed while suspended",
    "waited for another",
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
