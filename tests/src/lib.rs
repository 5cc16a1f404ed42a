//! What the end-to-end tests drive the two binaries with: processes that end with the test, an admin client, a stock
//! WebSocket client, one of hand-made frames, browsers, a network to cut.
//!
//! The binaries must have been built before ([`binaries`]), schemathesis, aiocometd and the packages of `tests/browser` ([`script`])
//! installed. The machine must be Linux with iproute2, nftables, libfaketime, Python 3, curl, node, Chromium, nginx, HAProxy, systemd-socket-activate and Redis, the user root, and a process
//! allowed to open 10,500 descriptors: a test that lacks something fails and says so. `tests/run` sees to all of it.
//!
//! Everything blocks and nothing waits for ever: all waiting goes through [`waiting`].

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
pub use backend::{BackendRequest, Backend, BackendReply};
pub use client::{Client, Hello, ServerOutput};
pub use collector::{Collector, CollectedSpan};
pub use dashboard::Dashboard;
pub use events::EventStream;
pub use live::LiveStream;
pub use logs::Logs;
pub use metrics::Metrics;
pub use middlebox::{Middlebox, Upgrades};
pub use poll::PollClient;
pub use prometheus::Prometheus;
pub use raw::{ReceivedFrame, RawClient};
pub use relay::Relay;
pub use schemathesis::Schemathesis;
pub use script::Script;
pub use server::{Launch, RunningServer};
pub use stock::{Stock, StockClient};
pub use supervisor::FakeSupervisor;
pub use tls::{Certificate, TlsClient};
