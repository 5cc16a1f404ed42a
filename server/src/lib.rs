//! Encke: a session server for WebSocket clients, in which one timing wheel holds every timeout.
//!
//! # Threads, and what each owns
//!
//! ```text
//!    sockets              names to arm (crossbeam)        batches of expiries (crossbeam)
//!  ┌────────────┐        ┌───────────────┐               ┌──────────────┐
//!  │ tokio:     │ ─────▶ │ wheel thread  │ ────────────▶ │ worker pool  │
//!  │ accept,    │        │ owns the      │               │ N threads    │
//!  │ one task a │ ◀──┐   │ TimingWheel   │               │ lock session │
//!  │ connection │    │   └───────────────┘               │ act          │
//!  └────────────┘    └─────────── wake / write ◀─────────┴──────────────┘
//! ```
//!
//! - **tokio** (built without its timers): the accept loops, and one task a connection, which alone reads and
//!   writes its socket.
//! - **The wheel thread** (`timeouts/`): owns the wheel. It takes in names, turns, and sends what is due. It runs
//!   no session code and takes no session's lock.
//! - **The workers** (`timeouts/`): for each expiry they find the session, lock it, let it look at its deadlines,
//!   and carry out what comes back.
//!
//! Locks are taken in the order registry, session, and none is held across an await, a send or a hook. A session's
//! state machine is pure and lives in `encke-core`; `session/store.rs` is the one way to anything in it.

mod api;
pub mod auth;
pub mod banner;
mod channel;
mod clock;
pub mod config;
mod entropy;
mod executor;
mod http;
pub mod logging;
mod metrics;
mod registry;
mod server;
pub mod session;
mod shutdown;
mod timeouts;
pub mod tls;
mod transport;

pub use server::{LogLinesDropped, Server, StartError};
