//! A scenario, drawn from its seed: the server's configuration, the clients, and the possible faults.

use std::ops::Range;
use std::time::Duration;

use encke_server::config::{Config, Settings};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use crate::backend::draw_hooks;
use crate::fault::{Fault, Faults};
use crate::namespaces;
use crate::truth::{LOGS, MAX_CHANNELS};
use crate::wire::Buffers;

pub(crate) const SECOND: u64 = 1_000_000_000;
pub(crate) const MILLI: u64 = 1_000_000;
const HOUR: u64 = 3600 * SECOND;

/// How many events a scenario has, and over which period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScenarioKind {
    /// Many events within minutes.
    Dense,
    /// Days with little more than heartbeats.
    Sparse,
    /// Years of sessions that hardly change.
    Still,
}

/// Backend hooks that the server calls.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hooks {
    pub(crate) subscribe: bool,
    pub(crate) publish: bool,
    pub(crate) call: bool,
}

/// All parameters of a run.
#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    pub(crate) seed: u64,
    pub(crate) kind: ScenarioKind,
    pub(crate) clients: usize,
    pub(crate) channels: usize,
    /// Fraction of the clients that speak Bayeux.
    pub(crate) bayeux: f64,
    /// Whether the channels are in Redis, where other servers publish as well.
    pub(crate) redis: bool,
    pub(crate) hooks: Hooks,
    pub(crate) hook_timeout: Duration,
    /// Whether clients also subscribe to patterns.
    pub(crate) patterns: bool,
    pub(crate) faults: Faults,
    /// Number of steps after which faults stop.
    pub(crate) calm_after_steps: u64,
    /// Time after which faults stop and the final checks begin, in nanoseconds.
    pub(crate) length: u64,
    /// Maximum pause between actions of a client, in nanoseconds.
    pub(crate) pause: u64,
    /// Maximum pause between publishes through the API, in nanoseconds.
    pub(crate) publish_pause: u64,
    pub(crate) dispatch_batches: usize,
    /// Number of tasks that share the sweep of a channel, one subscriber at a time.
    pub(crate) io_threads: usize,
    pub(crate) buffers: Buffers,
    /// Number of server actions per thousand that are delayed, by at most `latest` nanoseconds.
    pub(crate) late_per_mille: u32,
    pub(crate) latest: u64,
    /// Maximum size of a message, in bytes.
    pub(crate) max_message_bytes: usize,
    pub(crate) config: Config,
}

impl Scenario {
    pub(crate) fn of(seed: u64) -> Self {
        let mut rng = SmallRng::seed_from_u64(seed);
        let kind = match rng.random_range(0..20) {
            0..16 => ScenarioKind::Dense,
            16..19 => ScenarioKind::Sparse,
            _ => ScenarioKind::Still,
        };
        let is_dense = kind == ScenarioKind::Dense;
        let redis = is_dense && rng.random_bool(0.3);
        let hooks = draw_hooks(&mut rng);
        let hook_timeout = Duration::from_millis(rng.random_range(2_000..5_000));
        let config = config(kind, redis, (hooks, hook_timeout), &mut rng);
        let (clients, length, pause, publish_pause) = match kind {
            ScenarioKind::Dense => {
                let pause = rng.random_range(20..3_000) * MILLI;
                (rng.random_range(1..16), rng.random_range(20..300) * SECOND, pause, pause)
            }
            ScenarioKind::Sparse => (rng.random_range(20..120), 48 * HOUR, 12 * HOUR, HOUR),
            ScenarioKind::Still => (rng.random_range(200..400), 5_000 * HOUR, 4_000 * HOUR, 48 * HOUR),
        };
        let bayeux = match kind {
            ScenarioKind::Dense if rng.random_bool(0.2) => 0.9,
            ScenarioKind::Dense => 0.3,
            // Over days, polling clients would cause too many events.
            ScenarioKind::Sparse | ScenarioKind::Still => 0.05,
        };
        let longest_message = if rng.random_bool(0.2) { 30_000 } else { 400 };
        Self {
            seed,
            kind,
            clients,
            bayeux,
            channels: rng.random_range(1..=MAX_CHANNELS),
            redis,
            hooks,
            hook_timeout,
            // The server does not support patterns with Redis yet.
            patterns: rng.random_bool(0.5) && !redis,
            faults: faults(is_dense, redis, &mut rng),
            calm_after_steps: u64::MAX,
            length,
            pause,
            publish_pause,
            dispatch_batches: if rng.random_bool(0.3) { 1 } else { rng.random_range(2..256) },
            io_threads: if rng.random_bool(0.5) { 1 } else { rng.random_range(2..=4) },
            buffers: Buffers {
                server_send: rng.random_range(256..20_000),
                server_receive: rng.random_range(256..20_000),
                client_send: rng.random_range(256..20_000),
                client_receive: rng.random_range(256..20_000),
            },
            late_per_mille: rng.random_range(1..100),
            latest: rng.random_range(1..nanos(config.timers.stall_threshold) * 9 / 10),
            max_message_bytes: rng.random_range(40..longest_message),
            config,
        }
    }

    /// Returns a random channel or pattern to subscribe to.
    pub(crate) fn any_log(&self, rng: &mut SmallRng) -> usize {
        let is_pattern = self.patterns && rng.random_bool(0.4);
        rng.random_range(if is_pattern { MAX_CHANNELS..LOGS } else { 0..self.channels })
    }

    /// Creates a random number generator for one part of the run, independent of the other parts.
    pub(crate) fn rng(&self, part: u64) -> SmallRng {
        SmallRng::seed_from_u64(self.seed.rotate_left(17) ^ part.wrapping_mul(0x9E37_79B9_7F4A_7C15))
    }

    pub(crate) fn tick(&self) -> u64 {
        nanos(self.config.timers.tick)
    }
}

pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).expect("a duration of less than 584 years")
}

fn faults(is_dense: bool, has_redis: bool, rng: &mut SmallRng) -> Faults {
    let mut faults = Faults::default();
    let (share, share_of_redis) = (rng.random_range(0.1..0.9), rng.random_range(0.1..0.9));
    let mut add = |classes: &[Fault], share: f64| {
        for fault in classes {
            if rng.random_bool(share) {
                faults = faults.with(*fault);
            }
        }
    };
    add(Fault::OF_ONE_SERVER, share);
    add(&[Fault::Kill], 0.3);
    if has_redis {
        add(Fault::OF_REDIS, share_of_redis);
        add(&[Fault::Roam, Fault::RedisRestarted], 0.7);
    } else {
        // Sessions of a snapshot cannot continue with logs in Redis that other servers have appended to.
        add(&[Fault::Restart], 0.3);
        add(&[Fault::SnapshotFails], 0.5);
    }
    if !is_dense {
        // Over days, these faults would take too many steps.
        faults = faults.without(Fault::SlowSteps).without(Fault::Pieces);
    }
    faults
}

/// Creates a valid configuration with limits low enough to be reached.
fn config(
    kind: ScenarioKind,
    redis: bool,
    (hooks, hook_timeout): (Hooks, Duration),
    rng: &mut SmallRng,
) -> Config {
    let is_dense = kind == ScenarioKind::Dense;
    let mut flags = Vec::new();
    let mut set = |key: &str, value: String| flags.push(format!("{key}={value}"));
    let ms = |value: u64| format!("{value}ms");
    let any_ms = |rng: &mut SmallRng, range: Range<u64>| ms(rng.random_range(range));
    let any = |rng: &mut SmallRng, range: Range<u32>| rng.random_range(range).to_string();
    let (tick, stall, ping) = match kind {
        ScenarioKind::Dense => {
            let tick = rng.random_range(1..50);
            (tick, tick * rng.random_range(4..400), rng.random_range(20 * tick..60_000))
        }
        ScenarioKind::Sparse => (100, 30_000, rng.random_range(60_000..600_000)),
        ScenarioKind::Still => (1000, 600_000, rng.random_range(3_600_000..72_000_000)),
    };
    set("timers.tick", ms(tick));
    set("timers.stall_threshold", ms(stall));
    set("timers.watchdog", ms(stall * 10));
    set("timers.ping_slack", any_ms(rng, 0..ping / 4));
    let exact = ["hierarchical-lists", "simple", "hashed-sorted", "calendar-queue", "binary-heap", "lawn"];
    if is_dense && rng.random_bool(0.2) {
        set("timers.scheme", exact[rng.random_range(0..exact.len())].to_owned());
    }
    set("session.ping_interval", ms(ping));
    set("session.pong_timeout", any_ms(rng, 2 * tick..ping));
    let window = if is_dense { 2 * tick..60_000 } else { ping / 2..4 * ping };
    let window = rng.random_range(window.start + 2 * tick..window.end + 2 * tick);
    set("session.reconnect_window", ms(window));
    set("session.poll_gap", any_ms(rng, 2 * tick..window));
    // Hold polls for a short time in dense scenarios only: over days, there would be few other events.
    let holds_shortly = rng.random_bool(0.1) && is_dense;
    let poll_hold = if holds_shortly { 2 * tick } else { rng.random_range(ping / 4..ping * 2) };
    set("session.poll_hold", ms(poll_hold));
    let lifetime = match kind {
        ScenarioKind::Dense if rng.random_bool(0.5) => any_ms(rng, 1_000..300_000),
        ScenarioKind::Sparse if rng.random_bool(0.5) => "24h".to_owned(),
        _ => "off".to_owned(),
    };
    set("session.lifetime", lifetime);
    if is_dense && rng.random_bool(0.3) {
        set("session.idle", any_ms(rng, 5_000..120_000));
    }
    set("session.write_timeout", any_ms(rng, 2 * tick..30_000));
    set("limits.slowest_reader", format!("{}B", [0, 1, 256, 4_096][rng.random_range(0..4)]));
    set("session.close_timeout", any_ms(rng, 2 * tick..5_000));
    set("channel.history_messages", any(rng, 1..60));
    set("limits.max_message", "32KiB".to_owned());
    set("channel.history_bytes", "32KiB".to_owned());
    let total_bytes = rng.random_range(32_768..100_000);
    set("channel.history_total_bytes", total_bytes.to_string());
    let any_age = |rng: &mut SmallRng| {
        let age = if is_dense { rng.random_range(2 * tick..120_000) } else { ping };
        if rng.random_bool(0.7) { ms(age) } else { "off".to_owned() }
    };
    set("channel.history_age", any_age(rng));
    // The simulated Redis has the same limits for all logs.
    if !redis && rng.random_bool(0.7) {
        // Over years, hundreds of sessions would join and leave too often.
        let join_leave = if kind == ScenarioKind::Still { 0.0 } else { 0.5 };
        set("namespace", namespaces::draw(rng, join_leave, 32_768..=total_bytes, any_age));
    }
    set("limits.max_subscriptions", any(rng, 1..5));
    set("limits.max_channels", any(rng, 1..8));
    // Refuse clients in dense scenarios only: they reconnect soon, and over days, there would be few other
    // events.
    for (key, range) in [
        ("limits.max_connections", 1..20),
        ("limits.max_sessions", 1..20),
        ("limits.max_connections_per_address", 1..6),
    ] {
        if is_dense && rng.random_bool(0.3) {
            set(key, any(rng, range));
        }
    }
    set("limits.commands_per_second", any(rng, 0..30));
    set("limits.joins_per_minute", any(rng, 0..4));
    // The same holds for pages that are advised to pause because of other pages of their browser. 0: no
    // limit.
    set("bayeux.polls_per_browser", if is_dense { any(rng, 0..3) } else { "0".to_owned() });
    set("session.max_unacked", any(rng, 16..200));
    for (hook, is_set) in [("subscribe", hooks.subscribe), ("publish", hooks.publish), ("call", hooks.call)] {
        if is_set {
            set(&format!("backend.{hook}"), format!("http://backend/{hook}"));
        }
    }
    set("backend.timeout", format!("{}ms", hook_timeout.as_millis()));
    // Reach these limits in some scenarios.
    set("backend.max_in_flight", any(rng, 4..100));
    set("backend.max_in_flight_per_session", any(rng, 1..20));
    let mut config = Settings { flags, ..Settings::default() }.resolve().expect("the settings are valid");
    if rng.random_bool(0.5) {
        // Set a value lower than the server accepts, so that rings are full more often.
        config.max_unacked = rng.random_range(1..16);
    }
    config.park_after = match rng.random_range(0..4) {
        0 => None,
        1 => Some(Duration::ZERO),
        2 => Some(Duration::from_millis(200)),
        _ => Some(Duration::from_millis(rng.random_range(1..60_000))),
    };
    config
}
