use std::io;

use encke_core::Timestamp;
use encke_core::session::ConnectionInput;

/// Work that a parked connection leaves to its next task.
#[derive(Debug, Default)]
pub(crate) struct PendingWork {
    /// Bytes that were read but not parsed.
    pub(crate) read: Vec<u8>,
    /// Bytes that the kernel did not accept.
    pub(crate) unwritten: Vec<u8>,
    /// Publish time of the sampled message in `unwritten`, or in messages that were taken and that the task
    /// will send; see [`DeliveryBatch`](crate::session::DeliveryBatch).
    pub(crate) published_at: Option<Timestamp>,
    /// Seq of the ping at the end of `unwritten`, if there is one.
    pub(crate) ping: Option<u64>,
    /// Error that broke the connection. If there is one, the task sends nothing and only cleans up.
    pub(crate) lost: Option<io::Error>,
}

/// Result of reading a parked connection's socket.
#[derive(Debug)]
pub(crate) enum ReadOutcome {
    Nothing,
    /// The answer to a ping.
    Pong(ConnectionInput),
    /// Input that needs a task.
    NeedsTask(PendingWork),
    /// Nothing was read, because reading requires a task.
    Deferred,
    /// The peer is disconnected.
    Lost(io::Error),
}

/// Result of sending to a parked connection.
#[derive(Debug)]
pub(crate) enum DeliveryOutcome {
    Complete,
    /// Everything was sent, but the session's state machine must be notified.
    NeedsAcknowledgement,
    /// A task has to send the rest.
    Partial(PendingWork),
}
