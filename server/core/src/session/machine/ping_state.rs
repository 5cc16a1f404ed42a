/// State of the ping on the current connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PingState {
    /// No ping is in progress. Traffic received after `Session::marked_at` postpones the next one.
    Idle,
    /// A ping was requested, but its bytes are not in the kernel yet.
    Writing,
    /// A ping was sent at `Session::marked_at` and has not been answered. `Deadline::Pong` is armed,
    /// unless a write is held.
    Outstanding,
    /// The answer to a sent ping is overdue, and the connection is checking what the kernel has received.
    Probing,
}
