//! Raw settings as deserialized, and the checks that convert them to a [`Config`].

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use encke_core::session::SessionTimeouts;
use encke_timeouts::MAX_WORKERS;
use humantime::format_duration;
use serde::Deserialize;

use super::auth::{RawAuth, RawTls};
use super::backend::RawBackend;
use super::channels::{RawChannel, RawNamespace};
use super::engine::RawEngine;
use super::error::ConfigErrors;
use super::layers::Layers;
use super::limits::Limits;
use super::listen::RawListen;
use super::memory::sessions_that_fit;
use super::trace::RawTrace;
use super::types::{BayeuxConfig, Config, EngineConfig, LogConfig, TimersConfig};
use super::units::{DurationOrOff, DurationSetting, optional};
use super::validator::Validator;
use super::webhook::RawWebhook;
use crate::snapshot::{SnapshotSettings, location_problem};

#[derive(Deserialize)]
pub(super) struct RawConfig {
    pub(super) listen: RawListen,
    timers: TimersConfig,
    session: RawSession,
    parking: RawParking,
    engine: RawEngine,
    channel: RawChannel,
    bayeux: BayeuxConfig,
    limits: Limits,
    shutdown: RawShutdown,
    auth: RawAuth,
    pub(super) tls: RawTls,
    webhook: Vec<RawWebhook>,
    backend: RawBackend,
    trace: RawTrace,
    log: LogConfig,
    namespace: Vec<RawNamespace>,
}

#[derive(Deserialize)]
struct RawSession {
    ping_interval: DurationSetting,
    pong_timeout: DurationSetting,
    poll_hold: DurationSetting,
    poll_gap: DurationSetting,
    reconnect_window: DurationSetting,
    offline_after: DurationOrOff,
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
struct RawShutdown {
    drain: DurationSetting,
    #[serde(deserialize_with = "optional")]
    snapshot: Option<PathBuf>,
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

pub(super) fn resolve(mut layers: Layers, insecure: bool) -> Result<Config, ConfigErrors> {
    let raw: RawConfig = layers.read()?;
    let checks = Validator::new(&layers);
    let (max_message, handshake_timeout) = (raw.limits.max_message, raw.limits.handshake_timeout);
    let auth = checks.auth(&raw.auth, &raw.listen.hosts);
    let issuer = checks.issuer(&raw.auth, handshake_timeout);
    let tls = checks.tls(&raw.tls);
    let backend = checks.backend(raw.backend, handshake_timeout);
    checks.listen(&raw.listen);
    let proxies = checks.proxies(&raw.listen);
    checks.timers(&raw.timers);
    checks.session(&raw.session);
    checks.parking(&raw.parking);
    checks.channel(&raw.channel, max_message);
    checks.bayeux(&raw.bayeux);
    checks.limits(&raw.limits);
    checks.log(&raw.log);
    checks.shutdown(&raw.shutdown);
    let is_moved_once = raw.shutdown.snapshot.is_none() || !raw.engine.share_sessions;
    checks.require(
        is_moved_once,
        "engine.share_sessions",
        "cannot be combined with shutdown.snapshot: the other servers continue the sessions",
    );
    let engine = checks.engine(&raw.engine, &raw.channel, &raw.namespace, max_message);
    checks.namespaces(&raw.namespace, &raw.channel, max_message, raw.engine.kind);
    let webhooks = checks.webhooks(raw.webhook);
    let trace = checks.trace(&raw.trace);
    // If the authentication settings are invalid, it is unknown whether a listener requires authentication.
    let has_valid_guards = auth.is_ok() && issuer.is_ok() && backend.is_ok();
    // From here on, invalid sections have placeholder values: `finish` returns their errors.
    let (issuer, key_set) = issuer.unwrap_or_default().unzip();
    let mut auth = auth.unwrap_or_default();
    auth.key_set = key_set;
    let max_age = raw.shutdown.snapshot_max_age.0;
    let mut config = Config {
        public: raw.listen.public,
        admin: raw.listen.admin,
        backlog: i32::from(raw.listen.backlog),
        listen_wait: raw.listen.wait.0.unwrap_or_default(),
        public_url: raw.listen.public_url,
        proxies,
        timers: raw.timers,
        session: SessionTimeouts {
            ping_interval: raw.session.ping_interval.0,
            pong_timeout: raw.session.pong_timeout.0,
            poll_hold: raw.session.poll_hold.0,
            poll_gap: raw.session.poll_gap.0,
            reconnect_window: raw.session.reconnect_window.0,
            idle: raw.session.idle.0,
            lifetime: raw.session.lifetime.0,
        },
        offline_after: raw.session.offline_after.0,
        max_unacked: raw.session.max_unacked,
        engine: engine.unwrap_or(EngineConfig::Memory),
        share_sessions: raw.engine.share_sessions,
        channel: raw.channel.resolve(&raw.namespace),
        bayeux: raw.bayeux,
        park_after: raw.parking.after.0,
        write_timeout: raw.session.write_timeout.0,
        close_timeout: raw.session.close_timeout.0,
        limits: raw.limits,
        drain: raw.shutdown.drain.0,
        snapshot: raw.shutdown.snapshot.map(|path| SnapshotSettings { path, max_age }),
        auth: Arc::new(auth),
        tls: tls.unwrap_or_default(),
        tls_for_admin: raw.tls.admin,
        webhooks,
        trace: trace.unwrap_or_default(),
        backend: backend.unwrap_or_default(),
        issuer,
        log: raw.log,
        insecure,
    };
    if checks.is_default(MAX_SESSIONS) {
        config.limits.max_sessions = config.limits.max_sessions.min(sessions_that_fit());
    }
    if checks.is_default(POLL_GAP) {
        // Shorten the default to fit the window: an operator who sets a short window need not know about
        // polls.
        let longest = (config.session.reconnect_window / 2).max(config.timers.tick.saturating_mul(2));
        config.session.poll_gap = config.session.poll_gap.min(longest);
    }
    checks.at_least_two_ticks(&config);
    if has_valid_guards {
        checks.guards(&config);
    }
    checks.finish()?;
    Ok(config)
}

impl Validator<'_> {
    /// Validates `[shutdown]`. A maximum age of 0 is rejected, because it would not mean "no limit": every
    /// snapshot would be too old.
    fn shutdown(&self, shutdown: &RawShutdown) {
        let is_some = !shutdown.snapshot_max_age.0.is_zero();
        self.require(
            is_some,
            "shutdown.snapshot_max_age",
            "must be longer than 0: no snapshot would be read",
        );
        self.report("shutdown.snapshot", shutdown.snapshot.as_deref().and_then(location_problem));
    }

    fn timers(&self, timers: &TimersConfig) {
        let tick = timers.tick;
        let fits = (MIN_TICK..=MAX_TICK).contains(&tick);
        self.require(fits, "timers.tick", "must be from 1ms to 1s");
        let fits = (1..=MAX_WORKERS).contains(&timers.workers);
        self.require(fits, "timers.workers", format!("must be from 1 to {MAX_WORKERS}"));
        let threshold = timers.stall_threshold;
        self.require(
            threshold >= tick.saturating_mul(4),
            "timers.stall_threshold",
            "must be at least four ticks (timers.tick)",
        );
        self.require(
            timers.watchdog > threshold,
            "timers.watchdog",
            "must be longer than timers.stall_threshold",
        );
    }

    fn parking(&self, parking: &RawParking) {
        // Limit the delay, which bounds how long an entry stays in the idle queue.
        let fits = parking.after.0.is_none_or(|after| after <= MAX_PARK_DELAY);
        self.require(fits, "parking.after", "must be at most 1m, or off");
    }

    fn at_least_two_ticks(&self, config: &Config) {
        for (key, timeout) in config.timeouts() {
            let long_enough = timeout >= config.timers.tick.saturating_mul(2);
            self.require(long_enough, &key, "must be at least two ticks (timers.tick)");
        }
        let slack_fits = config.timers.ping_slack < config.session.ping_interval;
        self.require(slack_fits, "timers.ping_slack", "must be shorter than session.ping_interval");
    }

    fn session(&self, session: &RawSession) {
        let (timeout, interval) = (session.pong_timeout.0, session.ping_interval.0);
        let message = format!(
            "is {}, but must not be longer than session.ping_interval, which is {} (set by {}): set both",
            format_duration(timeout),
            format_duration(interval),
            self.source("session.ping_interval"),
        );
        self.require(timeout <= interval, "session.pong_timeout", message);
        if let Some(after) = session.offline_after.0 {
            let window = session.reconnect_window.0;
            let message = format!(
                "is {}, but must not be longer than session.reconnect_window, which is {} (set by {})",
                format_duration(after),
                format_duration(window),
                self.source("session.reconnect_window"),
            );
            self.require(after <= window, "session.offline_after", message);
        }
        let fits = self.is_default(POLL_GAP) || session.poll_gap.0 < session.reconnect_window.0;
        self.require(fits, POLL_GAP, "must be shorter than session.reconnect_window");
        let fits = (MIN_UNACKED..=MAX_UNACKED).contains(&session.max_unacked);
        let message = format!("must be from {MIN_UNACKED} to {MAX_UNACKED}");
        self.require(fits, "session.max_unacked", message);
    }

    fn bayeux(&self, bayeux: &BayeuxConfig) {
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
        );
    }

    fn limits(&self, limits: &Limits) {
        for (key, size) in [
            ("limits.max_message", limits.max_message),
            ("limits.send_buffer", limits.send_buffer),
            ("limits.receive_buffer", limits.receive_buffer),
        ] {
            self.require(size >= MIN_BUFFER, key, "must be at least 1KiB");
            self.require(size <= 1 << 30, key, "must be at most 1GiB");
        }
        let fits = limits.receive_total >= limits.max_message;
        self.require(fits, "limits.receive_total", "must not be less than limits.max_message");
    }
}
