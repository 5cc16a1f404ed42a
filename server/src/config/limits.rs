use std::time::Duration;

use super::ClientDescriptors;

/// What a client may use.
#[derive(Clone, Debug)]
pub struct Limits {
    /// How long a connection may take to become a session's.
    pub handshake_timeout: Duration,
    /// The longest message from a client, in bytes.
    pub max_message: usize,
    /// What may wait in the kernel to be read by a client, in bytes.
    pub send_buffer: usize,
    /// What may wait in the kernel to be read from a client, in bytes.
    pub receive_buffer: usize,
    /// What all clients together may have sent of messages that are not whole, in bytes.
    pub receive_total: usize,
    /// The slowest reader that is not cut, in bytes a second over `write_timeout`; 0: a byte is enough.
    pub slowest_reader: usize,
    /// Open connections.
    pub max_connections: usize,
    /// What they may have of the process's descriptors; see [`Config::fit_into`](super::Config::fit_into).
    pub descriptors: ClientDescriptors,
    /// Connections without a session.
    pub max_handshakes: usize,
    /// Sessions, suspended ones included.
    pub max_sessions: usize,
    /// Open connections from one address.
    pub max_connections_per_address: usize,
    /// Channels that one session may follow.
    pub max_subscriptions: usize,
    /// Channels in all.
    pub max_channels: usize,
    /// Channels that one user has made.
    pub max_channels_per_user: usize,
    /// Reminders that wait.
    pub max_reminders: usize,
    /// Commands from one client; 0 for any number.
    pub commands_per_second: u32,
    /// Frames of one session; 0 for any number.
    pub frames_per_second: u32,
    /// Commands of all sessions of one user; 0 for any number.
    pub user_commands_per_second: u32,
    /// Tokens with bad signatures from one address; 0 for any number.
    pub bad_signatures_per_second: u32,
    /// Connections to the admin listener.
    pub max_admin_connections: usize,
    /// New sessions from one address; 0 for any number.
    pub sessions_per_second_per_address: u32,
}

impl Limits {
    /// In so many slots sessions live: some may have ended and still have a task. Of those there are fewer than of the others.
    pub(crate) fn slots(&self) -> usize {
        self.max_sessions.saturating_mul(2)
    }
}
