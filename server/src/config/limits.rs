use std::time::Duration;

use serde::Deserialize;

use super::units::{duration, limit, size, size_limit};

/// Limits on clients' resource use.
#[derive(Clone, Debug, Deserialize)]
pub struct Limits {
    /// How long a connection may be open before it belongs to a session.
    #[serde(deserialize_with = "duration")]
    pub handshake_timeout: Duration,
    /// How long an open connection may wait for its next request.
    #[serde(deserialize_with = "duration")]
    pub keep_alive_timeout: Duration,
    /// Maximum size of a message from a client, in bytes.
    #[serde(deserialize_with = "size")]
    pub max_message: usize,
    /// Size of the kernel's send buffer per connection, in bytes.
    #[serde(deserialize_with = "size")]
    pub send_buffer: usize,
    /// Size of the kernel's receive buffer per connection, in bytes.
    #[serde(deserialize_with = "size")]
    pub receive_buffer: usize,
    /// Maximum memory for partial messages of all clients together, in bytes.
    #[serde(deserialize_with = "size_limit")]
    pub receive_total: usize,
    /// Minimum speed at which a client must read, in bytes per second, averaged over `write_timeout`; 0: any
    /// progress is enough.
    #[serde(deserialize_with = "size")]
    pub slowest_reader: usize,
    /// Maximum number of open connections.
    #[serde(deserialize_with = "limit")]
    pub max_connections: usize,
    /// Clients' share of the process's file descriptors; see
    /// [`Config::fit_descriptors`](super::Config::fit_descriptors).
    #[serde(skip)]
    pub descriptors: ClientDescriptors,
    /// Maximum number of connections without a session.
    #[serde(deserialize_with = "limit")]
    pub max_handshakes: usize,
    /// Maximum number of sessions, including suspended ones.
    #[serde(deserialize_with = "limit")]
    pub max_sessions: usize,
    /// Maximum number of open connections per address.
    #[serde(deserialize_with = "limit")]
    pub max_connections_per_address: usize,
    /// Maximum number of subscriptions per session.
    #[serde(deserialize_with = "limit")]
    pub max_subscriptions: usize,
    /// Maximum number of channels.
    #[serde(deserialize_with = "limit")]
    pub max_channels: usize,
    /// Maximum number of channels created by one user.
    #[serde(deserialize_with = "limit")]
    pub max_channels_per_user: usize,
    /// Maximum number of pending reminders.
    #[serde(deserialize_with = "limit")]
    pub max_reminders: usize,
    /// Maximum number of commands per second and session; 0: no limit.
    pub commands_per_second: u32,
    /// Maximum number of frames per second and session; 0: no limit.
    pub frames_per_second: u32,
    /// Maximum number of commands per second of all sessions of a user; 0: no limit.
    pub user_commands_per_second: u32,
    /// Maximum number of commands per second of all anonymous clients of an address.
    pub anonymous_commands_per_second_per_address: u32,
    /// Maximum number of joins that are announced per minute, channel and user or anonymous address; 0: no limit.
    pub joins_per_minute: u32,
    /// Maximum number of invalid signatures per second from one address; 0: no limit.
    pub bad_signatures_per_second: u32,
    /// Maximum number of connections to the admin listener.
    #[serde(deserialize_with = "limit")]
    pub max_admin_connections: usize,
    /// Maximum number of new sessions per second from one address; 0: no limit.
    pub sessions_per_second_per_address: u32,
}

/// Clients' share of the descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientDescriptors {
    /// Maximum number of admitted connections. Additional connections are refused as if
    /// `limits.max_connections` were reached.
    pub connections: usize,
    /// Upper bound (exclusive) for the descriptor numbers of clients' sockets. The kernel always assigns the
    /// lowest free number. If that number is not below this bound, new connections are not accepted yet.
    pub below: usize,
}

/// Unlimited descriptors, used when their number is unknown.
impl Default for ClientDescriptors {
    fn default() -> Self {
        Self { connections: usize::MAX, below: usize::MAX }
    }
}

impl Limits {
    /// Returns the number of session slots. Sessions that have ended may still have a task and then occupy a
    /// slot, but there are fewer of them than live sessions.
    pub(crate) fn session_slots(&self) -> usize {
        self.max_sessions.saturating_mul(2)
    }
}
