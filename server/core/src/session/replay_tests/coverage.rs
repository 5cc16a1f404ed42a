//! Checks that the model still encounters the situations it is meant to test.

use std::collections::BTreeMap;

/// How often each situation was encountered.
#[derive(Debug, Default)]
pub(super) struct Coverage(BTreeMap<&'static str, u32>);

/// Situations that all runs together must encounter.
const EXPECTED: [&str; 42] = [
    "ack of a seq not sent on this connection",
    "answer failed",
    "answer lost",
    "answer lost late",
    "answer that may be lost",
    "at most once, without any gap allowed",
    "cursor fell off the log",
    "duplicate",
    "frame pong",
    "full ring stopped",
    "gap for messages sent by others",
    "gap resent",
    "input of a replaced connection",
    "late poll",
    "late poll older than the ring",
    "late pong",
    "message pong",
    "message to be resent was trimmed",
    "old seq",
    "page lost messages that its machine had acknowledged",
    "pending gap",
    "poll answered",
    "poll answered empty",
    "poll replaced while being answered",
    "poll superseded",
    "skipped",
    "skipped message sent by an ended subscription",
    "pong timeout",
    "refused future seq",
    "request between polls",
    "restart",
    "resume without a seq",
    "ring wrapped",
    "stream goes back",
    "stream's request answered",
    "lost answer became a gap",
    "take-over",
    "notice of a beginning",
    "notice of an end",
    "trimmed while suspended",
    "waited for another subscription",
    "without any gap allowed",
];

impl Coverage {
    pub(super) fn record(&mut self, what: &'static str) {
        assert!(EXPECTED.contains(&what), "{what:?} is not in the list of expected situations");
        *self.0.entry(what).or_default() += 1;
    }

    pub(super) fn check(&self) {
        println!("{self:#?}");
        for what in EXPECTED {
            assert!(self.0.contains_key(what), "no run encountered this: {what}");
        }
    }
}
