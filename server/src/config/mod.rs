//! Configuration: raw settings in layers, resolved into a validated [`Config`].

mod auth;
mod backend;
mod channels;
mod descriptors;
mod engine;
mod error;
mod issuer;
mod layers;
mod limits;
mod listen;
mod log;
mod memory;
mod outbound;
mod raw;
#[cfg(test)]
mod secrets_tests;
#[cfg(test)]
mod tests;
mod trace;
mod units;
mod warnings;
mod webhook;
#[cfg(test)]
mod webhook_tests;

use std::borrow::Cow;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use encke_core::session::SessionTimeouts;
use encke_timeouts::{TimerScheme, WheelSettings};

use crate::admin::PublicUrl;
use crate::auth::Auth;
use crate::backend::BackendSettings;
use crate::events::WebhookSettings;
use crate::issuer::IssuerSettings;
use crate::proxies::Proxies;
use crate::snapshot::SnapshotSettings;
use crate::tls::Tls;
use crate::trace::TraceSettings;
use layers::Layers;

pub use crate::channel::{ChannelRules, LogLimits, Namespace};
pub use crate::engine::{RedisAddress, RedisLocation, RedisSettings, RedisTls, Sentinels};
pub use descriptors::{ClientDescriptors, MIN_DESCRIPTORS};
pub use error::ConfigError;
pub use layers::{SettingSource, default_file};
pub use limits::Limits;

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
    /// Capacity of a session's replay ring, in messages.
    pub max_unacked: usize,
    pub engine: EngineConfig,
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
#[derive(Clone, Debug)]
pub struct TimersConfig {
    /// Data structure of the wheel.
    pub scheme: TimerScheme,
    /// Resolution of the wheel.
    pub tick: Duration,
    /// Number of worker threads.
    pub workers: usize,
    /// How late a ping may be sent, so that pings can be batched.
    pub ping_slack: Duration,
    /// How late the wheel thread may wake before the delay counts as a stall.
    pub stall_threshold: Duration,
    /// How long the wheel, an expiry or a poller may make no progress before `/healthz` fails.
    pub watchdog: Duration,
}

/// Settings for CometD and Faye clients.
#[derive(Clone, Debug, Default)]
pub struct BayeuxConfig {
    /// Path that these clients connect to. Empty: disabled.
    pub path: String,
    /// Maximum number of requests held per browser.
    pub polls_per_browser: usize,
    /// Whether callback polling (by `<script>`) is allowed.
    pub callback_polling: bool,
}

impl EngineConfig {
    /// Returns the value of `engine.kind`.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Redis(_) => "redis",
        }
    }
}

/// Where channels are stored.
#[derive(Clone, Debug)]
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
#[derive(Clone, Debug)]
pub struct LogConfig {
    /// Filter for `tracing-subscriber`.
    pub level: String,
    pub format: LogFormat,
}

/// Format of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// Pretty on a terminal, JSON otherwise.
    Auto,
    /// Human-readable.
    Pretty,
    /// One JSON object per line.
    Json,
}

/// Sources of the configuration, in addition to the defaults.
#[derive(Clone, Default)]
#[expect(missing_debug_implementations, reason = "the variables and flags may contain secrets")]
pub struct Settings {
    /// Configuration file.
    pub file: Option<PathBuf>,
    /// Environment variables, usually [`std::env::vars`].
    pub environment: Vec<(String, String)>,
    /// `key=value` pairs from the command line.
    pub flags: Vec<String>,
    /// Whether to allow listening beyond loopback without authentication.
    pub insecure: bool,
}

/// How to reach the admin listener of a configured server.
#[derive(Clone, Copy, Debug)]
pub struct AdminListener {
    pub address: SocketAddr,
    /// Whether the listener uses TLS.
    pub has_tls: bool,
}

impl Settings {
    /// Creates settings from a file alone, to check the file.
    #[must_use]
    pub fn from_file(file: &Path) -> Self {
        Self { file: Some(file.to_owned()), ..Self::default() }
    }

    /// Resolves and validates the settings.
    ///
    /// # Errors
    /// Returns the first problem found, with the key and where it was set.
    pub fn resolve(&self) -> Result<Config, ConfigError> {
        raw::resolve(&self.layers()?, self.insecure)
    }

    /// Returns how to reach the admin listener, for use by another process. Files that the settings refer to
    /// are not read: the running server may have read an earlier version of them, or may have read them as
    /// another user.
    ///
    /// # Errors
    /// Returns the first unknown key or invalid value, and where it was set.
    pub fn admin_listener(&self) -> Result<AdminListener, ConfigError> {
        raw::admin_listener(&self.layers()?)
    }

    fn layers(&self) -> Result<Layers, ConfigError> {
        let mut layers = Layers::defaults();
        if let Some(file) = &self.file {
            layers.add_file(file)?;
        }
        layers.add_environment(self.environment.iter().cloned())?;
        for flag in &self.flags {
            // Keep only the key for messages: the rest of the flag may be a secret.
            let flag = flag.trim_start();
            let is_key = |c: char| c.is_ascii_alphanumeric() || ".-_[]".contains(c);
            let (key, rest) = flag.split_at(flag.find(|c| !is_key(c)).unwrap_or(flag.len()));
            let value = rest.trim_start().strip_prefix('=');
            let value = value.ok_or_else(|| ConfigError::NotAnAssignment(key.to_owned()))?;
            let source = SettingSource::Flag(format!("--set {key}"));
            layers.set_text(key.to_owned(), value.trim(), source)?;
        }
        Ok(layers)
    }
}

impl ListenerKind {
    /// Checks that a listener beyond loopback requires a token or an API key, unless the operator has allowed
    /// listening without authentication.
    fn may_listen(
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

    /// Returns every timeout that is enabled, with its key.
    fn timeouts(&self) -> impl Iterator<Item = (Cow<'static, str>, Duration)> {
        let session = &self.session;
        let timeouts = [
            ("session.ping_interval", Some(session.ping_interval)),
            ("session.pong_timeout", Some(session.pong_timeout)),
            ("session.poll_hold", Some(session.poll_hold)),
            ("session.reconnect_window", Some(session.reconnect_window)),
            ("session.poll_gap", Some(session.poll_gap)),
            ("session.lifetime", session.lifetime),
            ("session.idle", session.idle),
            ("session.write_timeout", Some(self.write_timeout)),
            ("session.close_timeout", Some(self.close_timeout)),
            ("channel.history_age", self.channel.log.age),
            ("limits.handshake_timeout", Some(self.limits.handshake_timeout)),
            ("shutdown.drain", Some(self.drain)),
        ];
        let ages = self.channel.namespaces.iter().enumerate().map(|(index, namespace)| {
            (Cow::Owned(channels::namespace_key(index, "history_age")), namespace.rules.log.age)
        });
        let timeouts = timeouts.into_iter().map(|(key, timeout)| (Cow::Borrowed(key), timeout));
        timeouts.chain(ages).filter_map(|(key, timeout)| Some((key, timeout?)))
    }
}
