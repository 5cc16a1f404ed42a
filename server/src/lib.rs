//! Encke: a session server for WebSocket clients, in which one timing wheel holds every timeout.
//!
//! # Threads, and what each owns
//!
//! ```text
//!    sockets              timers to arm (crossbeam)       batches of expiries (crossbeam)
//!  ┌────────────┐        ┌───────────────┐               ┌──────────────┐
//!  │ tokio:     │ ─────▶ │ wheel thread  │ ────────────▶ │ worker pool  │
//!  │ accept,    │        │ owns the      │               │ N threads    │
//!  │ one task a │ ◀──┐   │ Owners        │               │ lock session │
//!  │ connection │    │   └───────────────┘               │ act          │
//!  └────────────┘    └─────────── wake / write ◀─────────┴──────────────┘
//! ```
//!
//! - **tokio** (built without its timers): the accept loops, and one task for each connection that is awake, which alone reads and
//!   writes its socket.
//! - **The thread of connections at rest** (`rest/`): looks whether those without a task have anything to read.
//! - **The wheel thread** (`timeouts/`): owns the wheel. It receives timers, turns, and sends what is due. It runs
//!   no session code and takes no session's lock.
//! - **The workers** (`timeouts/`): for each expiry they find the session, lock it, let it look at its deadlines,
//!   and carry out what comes back.
//!
//! A session's state machine is pure and lives in `encke-core`; `session/step.rs` is the one way to change it. The order of
//! rooms and of locks: ARCHITECTURE.md.

mod abort_on_panic;
mod accepting;
mod admin;
mod admission;
mod arena;
pub mod auth;
mod backend;
pub mod banner;
mod channel;
mod client;
pub mod clock;
pub mod config;
mod context;
mod engine;
mod entropy;
pub mod events;
mod executor;
mod expiry;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod http;
mod issuer;
mod listeners;
pub mod logging;
mod metrics;
mod outbound;
pub mod proxies;
mod public;
mod reference;
mod reminders;
mod rest;
mod resting;
mod retry;
#[cfg(test)]
mod seeds;
mod server;
mod session;
#[cfg(feature = "simulation")]
pub mod simulation;
pub mod snapshot;
pub mod systemd;
mod timeouts;
pub mod tls;
mod trace;
mod transport;
mod watchdog;

pub use admin::LogLinesDropped;
pub use engine::EvictsKeys;
pub use listeners::{ListenError, Listeners};
pub use reference::reference;
pub use server::{Server, StartError};
pub use session::SessionId;
