//! Tests that load the machine or measure time on it: they take turns, by [`heavy`](encke_tests::waiting::heavy). `tests/run` runs them
//! in a process of their own, beside all others: in one process, tests that wait for their turn would keep threads from tests that could run.

// Attacks, each beside a session that does nothing wrong.
mod abuse;
// The load generator as a crowd of Bayeux clients.
mod bayeux;
// The chat of tests/example, and a thousand who come to it.
mod example;
// A hook that blocks a worker.
mod hooks;
// The load generator against the server.
mod loadgen;
mod loadgen_tokens;
// The load generator as a crowd of pollers.
mod polls;
// The pages of the load generator, in a browser.
mod report;
// Each scenario of the load generator that nothing else runs.
mod scenarios;
// What the load generator says the server takes.
mod server_cost;
// A server that was stopped for a while.
mod stall;
// Ten thousand clients at once, three times.
mod storm;
mod suspended;
// The load generator as it speaks to servers that are not Encke.
mod targets;
