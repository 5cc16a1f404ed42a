use std::borrow::Cow;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use encke_base::tls::Tls;
use encke_base::trace::TraceSettings;
use encke_broker::channel::{LogLimits, Namespace};
use encke_broker::engine::RedisSettings;
use encke_core::session::SessionTimeouts;
use encke_timeouts::{TimerScheme, WheelSettings};
use serde::Deserialize;

use super::limits::Limits;
use super::units::{duration, limit};
use crate::auth::Auth;
use crate::backend::BackendSettings;
use crate::events::WebhookSettings;
use crate::http::proxies::Proxies;
use crate::http::public_url::PublicUrl;
use crate::issuer::IssuerSettings;
use crate::snapshot::SnapshotSettings;

/// The validated configuration.
#[derive(Clone, Debug)]
pub struct Config {
    /// Address of the public listener, which clients connect to.
    pub public: SocketAddr,
    /// Address of the admin listener.
    pub admin: SocketAddr,
    /// Length of the accept queue.
    pub backlog: i32,
    /// How long a starting server waits for an address that another process still uses.
    pub listen_wait: Duration,
    /// External URL of the public listener, if configured.
    pub(crate) public_url: Option<PublicUrl>,
    /// Proxies in front of the public listener.
    pub proxies: Proxies,
    pub timers: TimersConfig,
    pub session: SessionTimeouts,
    /// How long a session without a connection keeps its user online. `None`: until the session ends.
    pub offline_after: Option<Duration>,
    /// Capacity of a session's replay ring, in messages.
    pub max_unacked: usize,
    pub engine: EngineConfig,
    /// Whether the servers that share channels share their sessions, too.
    pub share_sessions: bool,
    pub channel: ChannelConfig,
    /// How long a client may read more slowly than [`Limits::slowest_reader`] allows.
    pub write_timeout: Duration,
    /// How long to wait for a client to close the connection after the server's Close frame.
    pub close_timeout: Duration,
    /// How long a connection must be silent before it is parked. `None`: connections are never parked.
    pub park_after: Option<Duration>,
    pub bayeux: BayeuxConfig,
    pub limits: Limits,
    /// How long clients have to disconnect when the server drains.
    pub drain: Duration,
    /// Where to save sessions and channels for the next process, if configured.
    pub snapshot: Option<SnapshotSettings>,
    /// Authentication of clients and of the admin API.
    pub auth: Arc<Auth>,
    /// Certificate of the public listener. `None`: no TLS.
    pub tls: Option<Arc<Tls>>,
    /// Whether the admin listener uses TLS as well.
    pub tls_for_admin: bool,
    /// Hooks of the backend, if configured.
    pub(crate) backend: Option<BackendSettings>,
    /// Where the token issuer publishes its key set, if configured.
    pub(crate) issuer: Option<IssuerSettings>,
    pub(crate) webhooks: Vec<WebhookSettings>,
    /// Where to export traces, if configured.
    pub(crate) trace: Option<TraceSettings>,
    pub log: LogConfig,
    /// Whether to allow listening beyond loopback without authentication.
    pub insecure: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::Display)]
#[strum(serialize_all = "lowercase")]
pub enum ListenerKind {
    /// Listener for clients.
    Public,
    /// Listener for the admin API.
    Admin,
}

/// Settings of the timing wheel and its workers.
#[derive(Clone, Debug, Deserialize)]
pub struct TimersConfig {
    /// Data structure of the wheel.
    pub scheme: TimerScheme,
    /// Resolution of the wheel.
    #[serde(deserialize_with = "duration")]
    pub tick: Duration,
    /// Number of worker threads.
    pub workers: usize,
    /// How late a ping may be sent, so that pings can be batched.
    #[serde(deserialize_with = "duration")]
    pub ping_slack: Duration,
    /// How late the wheel thread may wake before the delay counts as a stall.
    #[serde(deserialize_with = "duration")]
    pub stall_threshold: Duration,
    /// How long the wheel, an expiry or a poller may make no progress before `/healthz` fails.
    #[serde(deserialize_with = "duration")]
    pub watchdog: Duration,
}

/// Settings for CometD and Faye clients.
#[derive(Clone, Debug, Deserialize)]
pub struct BayeuxConfig {
    /// Path that these clients connect to. Empty: disabled.
    pub path: String,
    /// Maximum number of requests held per browser.
    #[serde(deserialize_with = "limit")]
    pub polls_per_browser: usize,
    /// Whether callback polling (by `<script>`) is allowed.
    pub callback_polling: bool,
}

/// Where channels are stored. The names of the variants are the values of `engine.kind`.
#[derive(Clone, Debug, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum EngineConfig {
    /// In this process.
    Memory,
    /// In Redis, shared by several servers.
    Redis(Box<RedisSettings>),
}

/// Settings of channels and their logs.
#[derive(Clone, Debug)]
pub struct ChannelConfig {
    pub log: LogLimits,
    /// Settings for channels whose names begin with a prefix.
    pub namespaces: Vec<Namespace>,
    /// Maximum length of a channel name, in bytes.
    pub name_bytes: usize,
}

/// Settings of the server's log.
#[derive(Clone, Debug, Deserialize)]
pub struct LogConfig {
    /// Filter for `tracing-subscriber`.
    pub level: String,
    pub format: LogFormat,
}

/// Format of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// Pretty on a terminal, JSON otherwise.
    Auto,
    /// Human-readable.
    Pretty,
    /// One JSON object per line.
    Json,
}

impl ListenerKind {
    /// Checks that a listener beyond loopback requires a token or an API key, unless the operator has allowed
    /// listening without authentication.
    pub(super) fn may_listen(
        self,
        address: SocketAddr,
        auth: &Auth,
        backend: Option<&BackendSettings>,
        insecure: bool,
    ) -> Result<(), String> {
        let (is_guarded, guards) = match self {
            Self::Public => {
                let asks = backend.is_some_and(BackendSettings::authenticates_clients);
                (asks || auth.needs_token(), "auth.secret, auth.keys, auth.jwks or backend.connect")
            }
            Self::Admin => (!auth.api_keys.is_empty(), "auth.api_keys"),
        };
        if insecure || is_guarded || address.ip().is_loopback() {
            return Ok(());
        }
        Err(format!(
            "refusing to listen beyond loopback without authentication: set {guards}, or allow it with --insecure"
        ))
    }
}

impl Config {
    /// Returns the address of a listener.
    #[must_use]
    pub fn address(&self, kind: ListenerKind) -> SocketAddr {
        match kind {
            ListenerKind::Public => self.public,
            ListenerKind::Admin => self.admin,
        }
    }

    /// Checks whether a listener may use an address that is not in the configuration, namely the address of
    /// an inherited socket.
    ///
    /// # Errors
    /// Returns the reason if the listener may not use the address.
    pub fn may_listen(&self, kind: ListenerKind, address: SocketAddr) -> Result<(), String> {
        kind.may_listen(address, &self.auth, self.backend.as_ref(), self.insecure)
    }

    pub(crate) fn wheel_settings(&self) -> WheelSettings {
        let TimersConfig { scheme, tick, stall_threshold, .. } = self.timers;
        WheelSettings { scheme, tick, stall_threshold, rearm_delay: self.session.pong_timeout }
    }

    /// Returns every timeout that is enabled, with its key, except that of idle connections, which may be late.
    pub(super) fn timeouts(&self) -> impl Iterator<Item = (Cow<'static, str>, Duration)> {
        let session = &self.session;
        let timeouts = [
            ("session.ping_interval", Some(session.ping_interval)),
            ("session.pong_timeout", Some(session.pong_timeout)),
            ("session.poll_hold", Some(session.poll_hold)),
            ("session.reconnect_window", Some(session.reconnect_window)),
            ("session.poll_gap", Some(session.poll_gap)),
            ("session.offline_after", self.offline_after),
            ("session.lifetime", session.lifetime),
            ("session.idle", session.idle),
            ("session.write_timeout", Some(self.write_timeout)),
            ("session.close_timeout", Some(self.close_timeout)),
            ("channel.history_age", self.channel.log.age),
            ("limits.handshake_timeout", Some(self.limits.handshake_timeout)),
            ("shutdown.drain", Some(self.drain)),
        ];
        let ages = self.channel.namespaces.iter().enumerate().map(|(index, namespace)| {
            (Cow::Owned(format!("namespace[{index}].history_age")), namespace.rules.log.age)
        });
        let timeouts = timeouts.into_iter().map(|(key, timeout)| (Cow::Borrowed(key), timeout));
        timeouts.chain(ages).filter_map(|(key, timeout)| Some((key, timeout?)))
    }
}
