use std::time::Duration;

use super::ClientDescriptors;

/// Limits on clients' resource use.
#[derive(Clone, Debug)]
pub struct Limits {
    /// How long a connection may be open before it belongs to a session.
    pub handshake_timeout: Duration,
    /// Maximum size of a message from a client, in bytes.
    pub max_message: usize,
    /// Size of the kernel's send buffer per connection, in bytes.
    pub send_buffer: usize,
    /// Size of the kernel's receive buffer per connection, in bytes.
    pub receive_buffer: usize,
    /// Maximum memory for partial messages of all clients together, in bytes.
    pub receive_total: usize,
    /// Minimum speed at which a client must read, in bytes per second, averaged over `write_timeout`; 0: any
    /// progress is enough.
    pub slowest_reader: usize,
    /// Maximum number of open connections.
    pub max_connections: usize,
    /// Clients' share of the process's file descriptors; see
    /// [`Config::fit_descriptors`](super::Config::fit_descriptors).
    pub descriptors: ClientDescriptors,
    /// Maximum number of connections without a session.
    pub max_handshakes: usize,
    /// Maximum number of sessions, including suspended ones.
    pub max_sessions: usize,
    /// Maximum number of open connections per address.
    pub max_connections_per_address: usize,
    /// Maximum number of subscriptions per session.
    pub max_subscriptions: usize,
    /// Maximum number of channels.
    pub max_channels: usize,
    /// Maximum number of channels created by one user.
    pub max_channels_per_user: usize,
    /// Maximum number of pending reminders.
    pub max_reminders: usize,
    /// Maximum number of commands per second and session; 0: no limit.
    pub commands_per_second: u32,
    /// Maximum number of frames per second and session; 0: no limit.
    pub frames_per_second: u32,
    /// Maximum number of commands per second of all sessions of a user; 0: no limit.
    pub user_commands_per_second: u32,
    /// Maximum number of invalid signatures per second from one address; 0: no limit.
    pub bad_signatures_per_second: u32,
    /// Maximum number of connections to the admin listener.
    pub max_admin_connections: usize,
    /// Maximum number of new sessions per second from one address; 0: no limit.
    pub sessions_per_second_per_address: u32,
}

impl Limits {
    /// Returns the number of session slots. Sessions that have ended may still have a task and then occupy a
    /// slot, but there are fewer of them than live sessions.
    pub(crate) fn session_slots(&self) -> usize {
        self.max_sessions.saturating_mul(2)
    }
}
