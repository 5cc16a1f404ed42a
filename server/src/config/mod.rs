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

use crate::admin::PublicUrl;
use crate::auth::Auth;
use crate::backend::BackendSettings;
use crate::events::WebhookSettings;
use crate::issuer::IssuerSettings;
use crate::proxies::Proxies;
use crate::snapshot::SnapshotSettings;
use crate::timeouts::WheelSettings;
use crate::tls::Tls;
#[cfg(feature = "otlp")]
use crate::trace::TraceSettings;
use layers::Layers;

pub use crate::channel::{ChannelRules, LogLimits, Namespace};
pub use crate::engine::{RedisAddress, RedisPlace, RedisSettings, RedisTls, Sentinels};
pub use crate::timeouts::Scheme;
pub use descriptors::{ClientDescriptors, FEWEST_DESCRIPTORS};
pub use error::ConfigError;
pub use layers::{Source, default_file};
pub use limits::Limits;

/// Everything that can be set, checked.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where clients connect.
    pub public: SocketAddr,
    /// The admin listener.
    pub admin: SocketAddr,
    /// Connections that may wait to be accepted.
    pub backlog: i32,
    /// How long a start waits for an address that another process still has.
    pub listen_wait: Duration,
    /// Where pages reach the public listener from outside, if that is known.
    pub(crate) public_url: Option<PublicUrl>,
    /// What stands in front of the server.
    pub proxies: Proxies,
    /// The wheel and the workers.
    pub timers: TimersConfig,
    /// The timeouts of every session.
    pub session: SessionTimeouts,
    /// What a session remembers of what it was sent, in messages.
    pub max_unacked: usize,
    /// Where channels live.
    pub engine: EngineConfig,
    /// Channels and their logs.
    pub channel: ChannelConfig,
    /// How long a client may leave what is sent to it unread.
    pub write_timeout: Duration,
    /// How long to wait for a client to end a connection that we closed.
    pub close_timeout: Duration,
    /// How long a connection is silent before it gives its task up, if it ever does.
    pub rest_after: Option<Duration>,
    /// Clients of CometD and Faye.
    pub bayeux: BayeuxConfig,
    /// What a client may use.
    pub limits: Limits,
    /// How long clients have to leave.
    pub drain: Duration,
    /// Where sessions and channels wait for the next process, if they do.
    pub snapshot: Option<SnapshotSettings>,
    /// Who may connect, and who may use the admin API.
    pub auth: Arc<Auth>,
    /// The certificate of the public listener, if it has one.
    pub tls: Option<Arc<Tls>>,
    /// The admin listener has it, too.
    pub tls_for_admin: bool,
    /// The backend, if it is asked before something is done.
    pub(crate) backend: Option<BackendSettings>,
    /// Where the keys are that tokens may be signed with, beside those of `auth`.
    pub(crate) issuer: Option<IssuerSettings>,
    /// Backends that are told of events.
    pub(crate) webhooks: Vec<WebhookSettings>,
    /// Where traces go, if they go anywhere.
    #[cfg(feature = "otlp")]
    pub(crate) trace: Option<TraceSettings>,
    /// Logs.
    pub log: LogConfig,
    /// Whether listening beyond loopback without authentication is meant.
    pub insecure: bool,
}

/// One of the two listeners.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::Display)]
#[strum(serialize_all = "lowercase")]
pub enum ListenerKind {
    /// That of clients.
    Public,
    /// That of the admin API.
    Admin,
}

/// The wheel and the workers.
#[derive(Clone, Debug)]
pub struct TimersConfig {
    /// How the wheel keeps its timers.
    pub scheme: Scheme,
    /// The wheel's unit of time.
    pub tick: Duration,
    /// Threads that act on what expires.
    pub workers: usize,
    /// How much later than due a ping may leave.
    pub ping_slack: Duration,
    /// Waking later than planned by more than this is a stall.
    pub stall_threshold: Duration,
    /// When the wheel has not turned for this long, something is wrong.
    pub watchdog: Duration,
}

/// Clients of CometD and Faye.
#[derive(Clone, Debug, Default)]
pub struct BayeuxConfig {
    /// Where they connect; empty: nowhere.
    pub path: String,
    /// Requests that one browser may have held at a time.
    pub polls_per_browser: usize,
    /// Whether pages may ask by scripts.
    pub callback_polling: bool,
}

#[cfg(feature = "otlp")]
impl EngineConfig {
    /// As `engine.kind` has it.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Redis(_) => "redis",
        }
    }
}

/// Where channels live.
#[derive(Clone, Debug)]
pub enum EngineConfig {
    /// In this process.
    Memory,
    /// In a Redis.
    Redis(Box<RedisSettings>),
}

/// Channels and their logs.
#[derive(Clone, Debug)]
pub struct ChannelConfig {
    /// What logs may hold.
    pub log: LogLimits,
    /// Other rules, for channels whose names begin alike.
    pub namespaces: Vec<Namespace>,
    /// The longest name, in bytes.
    pub name_bytes: usize,
}

/// Logs.
#[derive(Clone, Debug)]
pub struct LogConfig {
    /// A filter of `tracing-subscriber`.
    pub level: String,
    /// How lines look.
    pub format: LogFormat,
}

/// How log lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// Pretty on a terminal, JSON elsewhere.
    Auto,
    /// For people.
    Pretty,
    /// For programs.
    Json,
}

/// Where settings come from, besides the defaults.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// The configuration file.
    pub file: Option<PathBuf>,
    /// The environment; [`std::env::vars`] as a rule.
    pub environment: Vec<(String, String)>,
    /// `key=value` from the command line.
    pub flags: Vec<String>,
    /// Whether listening beyond loopback without authentication is meant.
    pub insecure: bool,
}

/// The admin listener, as those see it who ask it.
#[derive(Clone, Copy, Debug)]
pub struct AdminListener {
    /// Where it is.
    pub address: SocketAddr,
    /// Whether it speaks TLS.
    pub has_tls: bool,
}

impl Settings {
    /// Only the file, for checking it.
    #[must_use]
    pub fn of_file(file: &Path) -> Self {
        Self { file: Some(file.to_owned()), ..Self::default() }
    }

    /// Resolves the settings.
    ///
    /// # Errors
    /// The first thing that is wrong, naming the key and where it was set.
    pub fn resolve(&self) -> Result<Config, ConfigError> {
        raw::resolve(&self.layers()?, self.insecure)
    }

    /// Where the admin listener is, for others to ask it. The files that settings name are not read: a server that runs may have read them
    /// when they were good, or as another user.
    ///
    /// # Errors
    /// A key or a value that cannot be, naming the key and where it was set.
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
            let (key, value) = flag
                .split_once('=')
                .ok_or_else(|| ConfigError::NotAnAssignment(without_secret(flag).to_owned()))?;
            let source = Source::Flag(format!("--set {}", without_secret(flag)));
            layers.set_text(key.trim().to_owned(), value.trim(), source)?;
        }
        Ok(layers)
    }
}

/// A `key=value` as it may be shown: of sections with secrets, the key alone.
fn without_secret(flag: &str) -> &str {
    let begins_with = |section: &str| {
        flag.trim_start().get(..section.len()).is_some_and(|start| start.eq_ignore_ascii_case(section))
    };
    if !layers::SECRETS.iter().any(|section| begins_with(section)) {
        return flag;
    }
    let is_key = |c: char| c.is_ascii_alphanumeric() || ".-_ []".contains(c);
    flag.split(|c| !is_key(c)).next().unwrap_or_default().trim_end()
}

impl ListenerKind {
    /// Beyond loopback, whoever comes needs a token or a key, unless the contrary is meant.
    fn may_listen(
        self,
        address: SocketAddr,
        auth: &Auth,
        backend: Option<&BackendSettings>,
        insecure: bool,
    ) -> Result<(), String> {
        let (is_guarded, guards) = match self {
            Self::Public => {
                let asks = backend.is_some_and(BackendSettings::decides_who_comes);
                (asks || auth.needs_token(), "auth.secret, auth.keys, auth.jwks or backend.connect")
            }
            Self::Admin => (!auth.api_keys.is_empty(), "auth.api_keys"),
        };
        if insecure || is_guarded || address.ip().is_loopback() {
            return Ok(());
        }
        Err(format!(
            "refusing to listen beyond loopback without authentication: set {guards}; --insecure allows it"
        ))
    }
}

impl Config {
    /// The address of this listener.
    #[must_use]
    pub fn address(&self, kind: ListenerKind) -> SocketAddr {
        match kind {
            ListenerKind::Public => self.public,
            ListenerKind::Admin => self.admin,
        }
    }

    /// Whether this listener may be on an address that the configuration does not name: that of a socket that was inherited.
    ///
    /// # Errors
    /// What speaks against it.
    pub fn may_listen(&self, kind: ListenerKind, address: SocketAddr) -> Result<(), String> {
        kind.may_listen(address, &self.auth, self.backend.as_ref(), self.insecure)
    }

    /// For the wheel thread.
    pub(crate) fn wheel(&self) -> WheelSettings {
        let TimersConfig { scheme, tick, stall_threshold, .. } = self.timers;
        WheelSettings { scheme, tick, stall_threshold, armed_again_after: self.session.pong_timeout }
    }

    /// Every timeout that is set, with its key.
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
            (Cow::Owned(channels::key_of(index, "history_age")), namespace.rules.log.age)
        });
        let timeouts = timeouts.into_iter().map(|(key, timeout)| (Cow::Borrowed(key), timeout));
        timeouts.chain(ages).filter_map(|(key, timeout)| Some((key, timeout?)))
    }
}
