//! Connections of clients: everything that is the same for all transports.
//!
//! A transport is a [`Protocol`]: it decodes input and encodes output, but performs no I/O. One of two
//! drivers moves the bytes between the protocol and its socket, carries out the session's signals, and
//! detects dead and slow peers:
//!
//! - [`task`]: a tokio task, for a connection that is active.
//! - [`parked`]: no task at all, for a connection that is idle. The thread that holds the session's lock acts
//!   for it.
//!
//! A connection moves between the drivers with its protocol unchanged.

mod active;
mod closing;
mod counted_socket;
mod inbox;
mod park_timer;
mod parked;
mod pending_subscriptions;
mod pending_write;
mod progress;
mod protocol;
mod socket;
mod task;
mod tcp;
pub(crate) mod transport;

pub(crate) use active::{Connection, Parkable};
pub(crate) use closing::{close_socket, end_stream};
#[cfg(test)]
pub(crate) use parked::parked_size;
pub(crate) use pending_subscriptions::{PendingSubscriptions, RefusedChannel, RequestedChannel};
pub(crate) use pending_write::PendingWrite;
pub(crate) use protocol::{End, Ending, Handled, Link, Protocol};
#[cfg(feature = "simulation")]
pub(crate) use socket::ParkedSocket;
pub(crate) use socket::{Socket, poll_read_with_time};
pub(crate) use task::drive;
#[cfg(test)]
pub(crate) use tcp::connected_sockets;
pub(crate) use tcp::{TcpSocket, accept, poll_readable};
