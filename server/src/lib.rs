//! Encke: a session server for WebSocket, server-sent events and long polling, in which one timing wheel
//! holds every timeout.
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
//! - **tokio** (built without its timers): the accept loops, and one task for each active connection. Only
//!   that task reads and writes the connection's socket.
//! - **The pollers** (`parking/` of encke-base): threads that poll the sockets of parked connections, which
//!   have no task.
//! - **The wheel thread** (crate `encke-timeouts`): owns the wheel. It receives timers to arm, advances the
//!   wheel, and dispatches expiries. It runs no session code and takes no session lock.
//! - **The workers** (crate `encke-timeouts`): for each expiry, a worker finds the session, locks it, lets it
//!   handle its deadlines, and carries out the resulting actions.
//!
//! A session's state machine is pure and lives in `encke-core`; all changes to it go through
//! `session/lifecycle/step.rs`. For the order of modules, see ARCHITECTURE.md; for the order of locks,
//! `locks/level.rs` of encke-base.

#![cfg_attr(test, allow(clippy::disallowed_types, reason = "locks of tests need no order"))]

mod admin;
mod admission;
pub mod auth;
mod backend;
pub mod cli;
mod client;
mod commands;
pub mod config;
mod connection;
pub mod events;
mod http;
mod issuer;
mod public;
mod reminders;
mod server;
mod session;
pub mod snapshot;
#[cfg(any(feature = "fuzzing", feature = "simulation"))]
pub mod testing;

pub use admin::LogLinesDropped;
pub use encke_base::process::systemd;
pub use encke_base::tls;
pub use encke_broker::engine::EvictsKeys;
pub use http::proxies;
#[doc(hidden)]
pub use server::documented;
pub use server::{ListenError, Listeners, Server, StartError};
pub use session::SessionId;
