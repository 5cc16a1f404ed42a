//! Tests that put load on the machine or depend on its timing. They run one at a time, serialised by
//! [`heavy_test_lock`](encke_tests::waiting::heavy_test_lock). `tests/run` runs them in a separate process,
//! in parallel with all other tests: in a shared process, tests that wait for the lock would occupy threads
//! that other tests could use.

// Attacks, each alongside a well-behaved session.
mod abuse;
// Hooks that block a worker.
mod hooks;
// The load generator against a server that requires tokens.
mod loadgen_tokens;
// Report pages of the load generator, in a browser.
mod report;
// Scenarios of the load generator that no other test covers.
mod scenarios;
// Server costs as measured by the load generator.
mod server_cost;
// A server that is frozen for a while.
mod stall;
// Two rounds of ten thousand simultaneous clients.
mod storm;
// Suspended sessions on a busy channel.
mod suspended;
// The load generator against servers other than Encke.
mod targets;
// The load generator on each transport.
mod transports;
