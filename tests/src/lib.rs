//! Harness of the end-to-end tests: child processes that are killed when the test ends, an admin client, a
//! stock WebSocket client, a client that sends hand-made frames, browsers, and network links that can be cut.
//!
//! The binaries must have been built ([`binaries`]), and schemathesis, aiocometd and the packages of
//! `tests/browser` ([`script`]) installed. The tests need Linux with iproute2, nftables, libfaketime, Python
//! 3, curl, node, Chromium, nginx, HAProxy, systemd-socket-activate and Redis, root privileges, and a limit
//! of at least 10,500 open descriptors. A test that lacks one of these fails and names it. `tests/run`
//! installs and checks all of it.
//!
//! All calls block, and every wait has a time limit: see [`waiting`].

pub mod admin;
pub mod authority;
pub mod backend;
pub mod bayeux;
pub mod binaries;
pub mod client;
pub mod collector;
pub mod crowd;
pub mod dashboard;
pub mod events;
pub mod live;
pub mod loadgen;
pub mod logs;
pub mod metrics;
pub mod middlebox;
pub mod network;
pub mod poll;
pub mod process;
pub mod prometheus;
pub mod proxy;
pub mod raw;
pub mod redis;
pub mod relay;
pub mod schemathesis;
pub mod script;
pub mod sentinels;
pub mod server;
pub mod stock;
pub mod supervisor;
pub mod tls;
pub mod tokens;
pub mod waiting;

pub use admin::{Admin, HttpResponse};
pub use backend::{Backend, BackendReply, BackendRequest};
pub use client::{Client, Hello, ServerOutput};
pub use collector::{CollectedSpan, Collector};
pub use dashboard::Dashboard;
pub use events::EventStream;
pub use live::LiveStream;
pub use logs::Logs;
pub use metrics::Metrics;
pub use middlebox::{Middlebox, Upgrades};
pub use poll::PollClient;
pub use prometheus::Prometheus;
pub use raw::{RawClient, ReceivedFrame};
pub use relay::Relay;
pub use schemathesis::Schemathesis;
pub use script::Script;
pub use server::{Launch, RunningServer};
pub use stock::{BayeuxLibrary, StockClient};
pub use supervisor::FakeSupervisor;
pub use tls::{Certificate, TlsClient};
