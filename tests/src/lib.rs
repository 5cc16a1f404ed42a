//! Harness of the end-to-end tests. Every child process is a [`process::Process`], which is killed when the test
//! ends; every client that reads and writes bytes is a [`Connection`]; every wait is in [`waiting`]. The other
//! modules start the programs and speak the protocols. A helper that only one test module needs is in that
//! module.
//!
//! Tests may run several times at once on a machine: ports, names of namespaces, directories and addresses are
//! chosen at random or reserved, and none is fixed.
//!
//! The binaries must have been built ([`binaries`]), and schemathesis, aiocometd and the packages of
//! `tests/browser` ([`script`]) installed. The tests need Linux with iproute2, nftables, libfaketime, Python
//! 3, curl, node, Chromium, nginx, HAProxy, systemd-socket-activate and Redis, root privileges, and a limit
//! of at least 10,500 open descriptors. A test that lacks one of these fails and names it. `tests/run`
//! installs and checks all of it.
//!
//! All calls block, and every wait has a time limit. A call panics, and so fails its test, if
//! what it waits for or requires does not happen.

pub mod admin;
pub mod authority;
pub mod backend;
pub mod bayeux;
pub mod binaries;
pub mod client;
pub mod collector;
pub mod connection;
pub mod crowd;
pub mod dashboard;
pub mod events;
pub mod http;
pub mod live;
pub mod loadgen;
pub mod logs;
pub mod metrics;
pub mod network;
pub mod poll;
pub mod port;
pub mod process;
pub mod prometheus;
pub mod proxy;
pub mod raw;
pub mod redis;
pub mod relay;
pub mod script;
pub mod server;
pub mod stock;
pub mod supervisor;
pub mod tls;
pub mod tokens;
pub mod waiting;

pub use admin::Admin;
pub use authority::Certificate;
pub use backend::{Backend, BackendReply, BackendRequest};
pub use client::{Client, Hello, ServerOutput};
pub use collector::{CollectedSpan, Collector};
pub use connection::Connection;
pub use dashboard::Dashboard;
pub use events::EventStream;
pub use http::HttpResponse;
pub use live::LiveStream;
pub use logs::Logs;
pub use metrics::Metrics;
pub use poll::PollClient;
pub use prometheus::Prometheus;
pub use raw::{RawClient, ReceivedFrame};
pub use relay::Relay;
pub use script::Script;
pub use server::{Launch, RunningServer};
pub use stock::{BayeuxLibrary, StockClient};
pub use supervisor::FakeSupervisor;
pub use tls::TlsClient;
