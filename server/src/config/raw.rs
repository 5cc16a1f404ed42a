//! Raw settings as deserialized, and the checks that convert them to a [`Config`].

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use encke_core::session::SessionTimeouts;
use encke_timeouts::{MAX_WORKERS, TimerScheme};
use serde::Deserialize;

use super::auth::{RawAuth, RawTls};
use super::backend::RawBackend;
use super::channels::{RawChannel, RawNamespace};
use super::engine::RawEngine;
use super::layers::{Layers, SettingSource};
use super::listen::RawForwarded;
use super::log::RawLog;
use super::memory::sessions_that_fit;
use super::trace::RawTrace;
use super::units::{DurationOrOff, DurationSetting, SizeSetting, unless_zero};
use super::webhook::RawWebhook;
use super::{
    AdminListener, BayeuxConfig, ClientDescriptors, Config, ConfigError, EngineConfig, Limits, LogConfig,
    TimersConfig,
};
use crate::auth::Auth;
use crate::proxies::Proxies;
use crate::snapshot::SnapshotSettings;
use crate::tls::Tls;

#[derive(Deserialize)]
struct RawConfig {
    listen: RawListen,
    timers: RawTimers,
    session: RawSession,
    parking: RawParking,
    engine: RawEngine,
    channel: RawChannel,
    bayeux: RawBayeux,
    limits: RawLimits,
    shutdown: RawShutdown,
    auth: RawAuth,
    tls: RawTls,
    webhook: Vec<RawWebhook>,
    backend: RawBackend,
    trace: RawTrace,
    log: RawLog,
    namespace: Vec<RawNamespace>,
}

#[derive(Deserialize)]
pub(super) struct RawListen {
    pub(super) public: SocketAddr,
    pub(super) admin: SocketAddr,
    pub(super) backlog: u16,
    wait: DurationOrOff,
    public_url: String,
    hosts: Vec<String>,
    pub(super) trusted_proxies: Vec<String>,
    pub(super) forwarded: RawForwarded,
    pub(super) proxy_protocol: bool,
}

#[derive(Deserialize)]
struct RawTimers {
    tick: DurationSetting,
    scheme: TimerScheme,
    workers: usize,
    ping_slack: DurationSetting,
    stall_threshold: DurationSetting,
    watchdog: DurationSetting,
}

#[derive(Deserialize)]
struct RawSession {
    ping_interval: DurationSetting,
    pong_timeout: DurationSetting,
    poll_hold: DurationSetting,
    poll_gap: DurationSetting,
    reconnect_window: DurationSetting,
    lifetime: DurationOrOff,
    idle: DurationOrOff,
    write_timeout: DurationSetting,
    close_timeout: DurationSetting,
    max_unacked: usize,
}

#[derive(Deserialize)]
struct RawParking {
    after: DurationOrOff,
}

#[derive(Deserialize)]
struct RawBayeux {
    path: String,
    polls_per_browser: usize,
    callback_polling: bool,
}

#[derive(Deserialize)]
struct RawLimits {
    handshake_timeout: DurationSetting,
    max_message: SizeSetting,
    send_buffer: SizeSetting,
    receive_buffer: SizeSetting,
    receive_total: SizeSetting,
    slowest_reader: SizeSetting,
    max_connections: usize,
    max_handshakes: usize,
    max_sessions: usize,
    max_connections_per_address: usize,
    max_subscriptions: usize,
    max_channels: usize,
    max_channels_per_user: usize,
    max_reminders: usize,
    commands_per_second: u32,
    frames_per_second: u32,
    user_commands_per_second: u32,
    bad_signatures_per_second: u32,
    max_admin_connections: usize,
    sessions_per_second_per_address: u32,
}

#[derive(Deserialize)]
struct RawShutdown {
    drain: DurationSetting,
    snapshot: PathBuf,
    snapshot_max_age: DurationSetting,
}

const MIN_TICK: Duration = Duration::from_millis(1);
const MAX_TICK: Duration = Duration::from_secs(1);
const MAX_PARK_DELAY: Duration = Duration::from_secs(60);
/// Minimum of `session.max_unacked`. A smaller replay ring would fill up and stop the stream in every round
/// trip.
const MIN_UNACKED: usize = 16;
const MAX_SESSIONS: &str = "limits.max_sessions";
const POLL_GAP: &str = "session.poll_gap";
/// Maximum of `session.max_unacked`. Each entry of the replay ring takes 24 bytes in every session.
const MAX_UNACKED: usize = 65_536;
/// Minimum size of messages and buffers. Control frames and the server's own hello must fit.
const MIN_BUFFER: usize = 1024;

pub(super) fn admin_listener(layers: &Layers) -> Result<AdminListener, ConfigError> {
    let raw: RawConfig = layers.read()?;
    Ok(AdminListener { address: raw.listen.admin, has_tls: raw.tls.admin })
}

pub(super) fn resolve(layers: &Layers, insecure: bool) -> Result<Config, ConfigError> {
    let raw: RawConfig = layers.read()?;
    let checks = Validator(layers);
    let mut auth = checks.auth(&raw.auth, &raw.listen.hosts)?;
    let (issuer, key_set) = checks.issuer(&raw.auth, raw.limits.handshake_timeout.0)?.unzip();
    auth.key_set = key_set;
    let tls = checks.tls(&raw.tls)?;
    let backend = checks.backend(&raw.backend, raw.limits.handshake_timeout.0)?;
    checks.listen(&raw.listen, &auth, backend.as_ref(), insecure)?;
    let proxies = checks.proxies(&raw.listen)?;
    let public_url = checks.public_url(&raw.listen.public_url)?;
    checks.timers(&raw.timers)?;
    checks.session(&raw.session)?;
    checks.parking(&raw.parking)?;
    checks.channel(&raw.channel, raw.limits.max_message.0)?;
    checks.bayeux(&raw.bayeux)?;
    checks.limits(&raw.limits)?;
    checks.log(&raw.log)?;
    checks.shutdown(&raw.shutdown)?;
    let engine = checks.engine(&raw.engine, &raw.channel)?;
    checks.namespaces(&raw.namespace, &raw.channel, raw.limits.max_message.0, &engine)?;
    let webhooks = checks.webhooks(&raw.webhook)?;
    let trace = checks.trace(&raw.trace)?;
    let config = raw.into_config(engine, auth, tls, proxies, insecure);
    let mut config = Config { webhooks, backend, issuer, public_url, trace, ..config };
    if checks.is_default(MAX_SESSIONS) {
        config.limits.max_sessions = config.limits.max_sessions.min(sessions_that_fit());
    }
    if checks.is_default(POLL_GAP) {
        // Shorten the default to fit the window: an operator who sets a short window need not know about
        // polls.
        let longest = (config.session.reconnect_window / 2).max(2 * config.timers.tick);
        config.session.poll_gap = config.session.poll_gap.min(longest);
    }
    checks.at_least_two_ticks(&config)?;
    Ok(config)
}

impl RawConfig {
    fn into_config(
        self,
        engine: EngineConfig,
        auth: Auth,
        tls: Option<Arc<Tls>>,
        proxies: Proxies,
        insecure: bool,
    ) -> Config {
        Config {
            public: self.listen.public,
            admin: self.listen.admin,
            backlog: i32::from(self.listen.backlog),
            listen_wait: self.listen.wait.0.unwrap_or_default(),
            proxies,
            timers: TimersConfig {
                scheme: self.timers.scheme,
                tick: self.timers.tick.0,
                workers: self.timers.workers,
                ping_slack: self.timers.ping_slack.0,
                stall_threshold: self.timers.stall_threshold.0,
                watchdog: self.timers.watchdog.0,
            },
            session: SessionTimeouts {
                ping_interval: self.session.ping_interval.0,
                pong_timeout: self.session.pong_timeout.0,
                poll_hold: self.session.poll_hold.0,
                poll_gap: self.session.poll_gap.0,
                reconnect_window: self.session.reconnect_window.0,
                idle: self.session.idle.0,
                lifetime: self.session.lifetime.0,
            },
            max_unacked: self.session.max_unacked,
            engine,
            channel: self.channel.resolve(&self.namespace),
            bayeux: BayeuxConfig {
                path: self.bayeux.path,
                polls_per_browser: unless_zero(self.bayeux.polls_per_browser),
                callback_polling: self.bayeux.callback_polling,
            },
            park_after: self.parking.after.0,
            write_timeout: self.session.write_timeout.0,
            close_timeout: self.session.close_timeout.0,
            limits: Limits {
                handshake_timeout: self.limits.handshake_timeout.0,
                max_message: self.limits.max_message.0,
                send_buffer: self.limits.send_buffer.0,
                receive_buffer: self.limits.receive_buffer.0,
                receive_total: unless_zero(self.limits.receive_total.0),
                slowest_reader: self.limits.slowest_reader.0,
                max_connections: unless_zero(self.limits.max_connections),
                descriptors: ClientDescriptors::default(),
                max_handshakes: unless_zero(self.limits.max_handshakes),
                max_sessions: unless_zero(self.limits.max_sessions),
                max_connections_per_address: unless_zero(self.limits.max_connections_per_address),
                max_subscriptions: unless_zero(self.limits.max_subscriptions),
                max_channels: unless_zero(self.limits.max_channels),
                max_channels_per_user: unless_zero(self.limits.max_channels_per_user),
                max_reminders: unless_zero(self.limits.max_reminders),
                commands_per_second: self.limits.commands_per_second,
                frames_per_second: self.limits.frames_per_second,
                user_commands_per_second: self.limits.user_commands_per_second,
                bad_signatures_per_second: self.limits.bad_signatures_per_second,
                max_admin_connections: unless_zero(self.limits.max_admin_connections),
                sessions_per_second_per_address: self.limits.sessions_per_second_per_address,
            },
            drain: self.shutdown.drain.0,
            snapshot: (!self.shutdown.snapshot.as_os_str().is_empty()).then_some(SnapshotSettings {
                path: self.shutdown.snapshot,
                max_age: self.shutdown.snapshot_max_age.0,
            }),
            auth: Arc::new(auth),
            tls,
            tls_for_admin: self.tls.admin,
            webhooks: Vec::new(),
            trace: None,
            backend: None,
            issuer: None,
            public_url: None,
            log: LogConfig { level: self.log.level, format: self.log.format },
            insecure,
        }
    }
}

/// Checks of individual settings and of combinations of settings.
pub(super) struct Validator<'a>(&'a Layers);

impl Validator<'_> {
    pub(super) fn require(
        &self,
        holds: bool,
        key: &str,
        message: impl Into<String>,
    ) -> Result<(), ConfigError> {
        if holds { Ok(()) } else { self.refuse(key, message) }
    }

    pub(super) fn refuse<T>(&self, key: &str, message: impl Into<String>) -> Result<T, ConfigError> {
        Err(ConfigError::Invalid { key: key.into(), origin: self.0.source(key), message: message.into() })
    }

    /// Converts the error of a check to a [`ConfigError`] for this key.
    pub(super) fn require_ok<T, E: ToString>(
        &self,
        key: &str,
        result: Result<T, E>,
    ) -> Result<T, ConfigError> {
        result.or_else(|error| self.refuse(key, error.to_string()))
    }

    fn is_default(&self, key: &str) -> bool {
        self.0.source(key) == SettingSource::Default
    }

    /// Validates `[shutdown]`. A maximum age of 0 is rejected, because it would not mean "no limit": every
    /// snapshot would be too old.
    fn shutdown(&self, shutdown: &RawShutdown) -> Result<(), ConfigError> {
        let is_some = !shutdown.snapshot_max_age.0.is_zero();
        self.require(is_some, "shutdown.snapshot_max_age", "must be longer than 0: no snapshot would be read")
    }

    fn timers(&self, timers: &RawTimers) -> Result<(), ConfigError> {
        let tick = timers.tick.0;
        let fits = (MIN_TICK..=MAX_TICK).contains(&tick);
        self.require(fits, "timers.tick", "must be from 1ms to 1s")?;
        let fits = (1..=MAX_WORKERS).contains(&timers.workers);
        self.require(fits, "timers.workers", format!("must be from 1 to {MAX_WORKERS}"))?;
        let threshold = timers.stall_threshold.0;
        self.require(threshold >= 4 * tick, "timers.stall_threshold", "must be at least four ticks")?;
        self.require(
            timers.watchdog.0 > threshold,
            "timers.watchdog",
            "must be longer than timers.stall_threshold",
        )
    }

    fn parking(&self, parking: &RawParking) -> Result<(), ConfigError> {
        // Limit the delay, which bounds how long an entry stays in the idle queue.
        let fits = parking.after.0.is_none_or(|after| after <= MAX_PARK_DELAY);
        self.require(fits, "parking.after", "must be at most 1m, or off")
    }

    fn at_least_two_ticks(&self, config: &Config) -> Result<(), ConfigError> {
        for (key, timeout) in config.timeouts() {
            let long_enough = timeout >= 2 * config.timers.tick;
            self.require(long_enough, &key, "must be at least two ticks (timers.tick)")?;
        }
        let slack_fits = config.timers.ping_slack < config.session.ping_interval;
        self.require(slack_fits, "timers.ping_slack", "must be shorter than session.ping_interval")
    }

    fn session(&self, session: &RawSession) -> Result<(), ConfigError> {
        let fits = session.pong_timeout.0 <= session.ping_interval.0;
        self.require(fits, "session.pong_timeout", "must not be longer than session.ping_interval")?;
        let fits = self.is_default(POLL_GAP) || session.poll_gap.0 < session.reconnect_window.0;
        self.require(fits, POLL_GAP, "must be shorter than session.reconnect_window")?;
        let fits = (MIN_UNACKED..=MAX_UNACKED).contains(&session.max_unacked);
        let message = format!("must be from {MIN_UNACKED} to {MAX_UNACKED}");
        self.require(fits, "session.max_unacked", message)
    }

    fn bayeux(&self, bayeux: &RawBayeux) -> Result<(), ConfigError> {
        let is_path = |path: &str| {
            path.starts_with('/')
                && !path.ends_with('/')
                && path.bytes().all(|byte| byte.is_ascii_graphic() && !b"?#%".contains(&byte))
        };
        let path = &*bayeux.path;
        let is_taken = ["/ws", "/events", "/poll"].contains(&path);
        self.require(
            path.is_empty() || (is_path(path) && !is_taken),
            "bayeux.path",
            "must be empty, or a URL path that begins with a slash, does not end with one, contains no spaces, ?, # or %, and is not /ws, /events or /poll",
        )
    }

    fn limits(&self, limits: &RawLimits) -> Result<(), ConfigError> {
        for (key, size) in [
            ("limits.max_message", limits.max_message.0),
            ("limits.send_buffer", limits.send_buffer.0),
            ("limits.receive_buffer", limits.receive_buffer.0),
        ] {
            self.require(size >= MIN_BUFFER, key, "must be at least 1KiB")?;
            self.require(size <= 1 << 30, key, "must be at most 1GiB")?;
        }
        let fits = unless_zero(limits.receive_total.0) >= limits.max_message.0;
        self.require(fits, "limits.receive_total", "must not be less than limits.max_message")
    }
}
