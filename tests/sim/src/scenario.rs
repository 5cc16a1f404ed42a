//! A scenario, drawn from its seed: the server's configuration, the clients, and the possible faults.

use std::time::Duration;

use encke_server::config::{Config, Settings};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use crate::fault::{Fault, Faults};
use crate::truth::{LOGS, MAX_CHANNELS};
use crate::wire::Buffers;

pub(crate) const SECOND: u64 = 1_000_000_000;
pub(crate) const MILLI: u64 = 1_000_000;

/// Upper bound of `parking.after`.
const MAX_PARK_AFTER_MS: u64 = 60_000;

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

/// All parameters of a run.
#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    pub(crate) seed: u64,
    pub(crate) kind: ScenarioKind,
    pub(crate) clients: u32,
    pub(crate) channels: u8,
    /// Fraction of the clients that speak Bayeux.
    pub(crate) bayeux: f64,
    /// Whether the channels are in Redis, where other servers publish as well.
    pub(crate) redis: bool,
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
    /// Number of tasks that share the sweep of a channel.
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
    /// Returns the scenario of a seed.
    pub(crate) fn of(seed: u64) -> Self {
        Self::of_one_server(seed).with_restarts().with_redis().with_parking().with_sweeps()
    }

    fn of_one_server(seed: u64) -> Self {
        let mut rng = SmallRng::seed_from_u64(seed);
        let kind = match rng.random_range(0..20) {
            0..16 => ScenarioKind::Dense,
            16..19 => ScenarioKind::Sparse,
            _ => ScenarioKind::Still,
        };
        let config = config(kind, &mut rng);
        let mut faults = Faults::default();
        let share = rng.random_range(0.1..0.9);
        for fault in Fault::OF_ONE_SERVER {
            if rng.random_bool(share) {
                faults = faults.with(*fault);
            }
        }
        if kind != ScenarioKind::Dense {
            // Over days, these faults would take too many steps.
            for fault in [Fault::SlowSteps, Fault::Pieces] {
                faults = faults.without(fault);
            }
        }
        let stall = nanos(config.timers.stall_threshold);
        let max_message_bytes = if rng.random_bool(0.2) { 30_000 } else { 400 };
        let (clients, length, pause, publish_pause) = match kind {
            ScenarioKind::Dense => {
                let pause = rng.random_range(20..3_000) * MILLI;
                (rng.random_range(1..16), rng.random_range(20..300) * SECOND, pause, pause)
            }
            ScenarioKind::Sparse => {
                (rng.random_range(20..120), 48 * 3600 * SECOND, 12 * 3600 * SECOND, 3600 * SECOND)
            }
            ScenarioKind::Still => {
                (rng.random_range(200..400), 5_000 * 3600 * SECOND, 4_000 * 3600 * SECOND, 48 * 3600 * SECOND)
            }
        };
        let bayeux = match kind {
            ScenarioKind::Dense if rng.random_bool(0.2) => 0.9,
            ScenarioKind::Dense => 0.3,
            // Over days, polling clients would cause too many events.
            ScenarioKind::Sparse | ScenarioKind::Still => 0.05,
        };
        Self {
            seed,
            kind,
            clients,
            bayeux,
            channels: rng.random_range(1..=MAX_CHANNELS),
            redis: false,
            patterns: rng.random_bool(0.5),
            faults,
            calm_after_steps: u64::MAX,
            length,
            pause,
            publish_pause,
            dispatch_batches: if rng.random_bool(0.3) { 1 } else { rng.random_range(2..256) },
            io_threads: 1,
            buffers: Buffers {
                server_send: rng.random_range(256..20_000),
                server_receive: rng.random_range(256..20_000),
                client_send: rng.random_range(256..20_000),
                client_receive: rng.random_range(256..20_000),
            },
            late_per_mille: rng.random_range(1..100),
            latest: rng.random_range(1..stall * 9 / 10),
            max_message_bytes: rng.random_range(40..max_message_bytes),
            config,
        }
    }

    /// Lets connections park in three of four scenarios: as soon as possible, or after a time without
    /// traffic. The rest of the scenario stays the same.
    fn with_parking(mut self) -> Self {
        let mut rng = self.rng(7);
        self.config.park_after = match rng.random_range(0..4) {
            0 => None,
            1 => Some(Duration::ZERO),
            2 => Some(Duration::from_millis(200)),
            _ => Some(Duration::from_millis(rng.random_range(1..MAX_PARK_AFTER_MS))),
        };
        self
    }

    /// Lets tasks share each sweep of a channel, one subscriber at a time, in half of the scenarios. The rest
    /// of the scenario stays the same.
    fn with_sweeps(mut self) -> Self {
        let mut rng = self.rng(8);
        self.io_threads = if rng.random_bool(0.5) { 1 } else { rng.random_range(2..=4) };
        self
    }

    /// Adds restarts to some scenarios. The rest of the scenario stays the same.
    fn with_restarts(mut self) -> Self {
        let mut rng = self.rng(3);
        for fault in [Fault::Restart, Fault::Kill] {
            if rng.random_bool(0.3) {
                self.faults = self.faults.with(fault);
            }
        }
        self
    }

    /// Moves the channels of some scenarios to Redis.
    fn with_redis(mut self) -> Self {
        let mut rng = self.rng(5);
        self.redis = self.kind == ScenarioKind::Dense && rng.random_bool(0.3);
        if !self.redis {
            return self;
        }
        // Sessions of a snapshot cannot continue with logs that other servers have appended to.
        self.faults = self.faults.without(Fault::Restart);
        // The server does not support patterns with Redis yet.
        self.patterns = false;
        let share = rng.random_range(0.1..0.9);
        for fault in Fault::OF_REDIS {
            if rng.random_bool(share) {
                self.faults = self.faults.with(*fault);
            }
        }
        self
    }

    /// Returns a random channel or pattern to subscribe to.
    pub(crate) fn any_log(&self, rng: &mut SmallRng) -> u8 {
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

/// Creates a valid configuration with limits low enough to be reached.
fn config(kind: ScenarioKind, rng: &mut SmallRng) -> Config {
    let mut flags = Vec::new();
    let mut set = |key: &str, value: String| flags.push(format!("{key}={value}"));
    let tick = match kind {
        ScenarioKind::Dense => rng.random_range(1..50),
        ScenarioKind::Sparse => 100,
        ScenarioKind::Still => 1000,
    };
    let stall = match kind {
        ScenarioKind::Dense => tick * rng.random_range(4..400),
        ScenarioKind::Sparse => 30_000,
        ScenarioKind::Still => 600_000,
    };
    let ping = match kind {
        ScenarioKind::Dense => rng.random_range(20 * tick..60_000),
        ScenarioKind::Sparse => rng.random_range(60_000..600_000),
        ScenarioKind::Still => rng.random_range(3_600_000..72_000_000),
    };
    let millis = |value: u64| format!("{value}ms");
    set("timers.tick", millis(tick));
    set("timers.stall_threshold", millis(stall));
    set("timers.watchdog", millis(stall * 10));
    set("timers.ping_slack", millis(rng.random_range(0..ping / 4)));
    let exact = ["hierarchical-lists", "simple", "hashed-sorted", "calendar-queue", "binary-heap", "lawn"];
    if kind == ScenarioKind::Dense && rng.random_bool(0.2) {
        set("timers.scheme", exact[rng.random_range(0..exact.len())].to_owned());
    }
    set("session.ping_interval", millis(ping));
    set("session.pong_timeout", millis(rng.random_range(2 * tick..ping)));
    let window = if kind == ScenarioKind::Dense { 2 * tick..60_000 } else { ping / 2..4 * ping };
    let window = rng.random_range(window.start + 2 * tick..window.end + 2 * tick);
    set("session.reconnect_window", millis(window));
    set("session.poll_gap", millis(rng.random_range(2 * tick..window)));
    set(
        "session.poll_hold",
        // Hold polls for a short time in dense scenarios only: over days, there would be few other events.
        millis(match rng.random_bool(0.1) && kind == ScenarioKind::Dense {
            true => 2 * tick,
            false => rng.random_range(ping / 4..ping * 2),
        }),
    );
    let lifetime = match kind {
        ScenarioKind::Dense if rng.random_bool(0.5) => millis(rng.random_range(1_000..300_000)),
        ScenarioKind::Sparse if rng.random_bool(0.5) => "24h".to_owned(),
        _ => "off".to_owned(),
    };
    set("session.lifetime", lifetime);
    if kind == ScenarioKind::Dense && rng.random_bool(0.3) {
        set("session.idle", millis(rng.random_range(5_000..120_000)));
    }
    set("session.write_timeout", millis(rng.random_range(2 * tick..30_000)));
    set("limits.slowest_reader", format!("{}B", [0, 1, 256, 4_096][rng.random_range(0..4)]));
    set("session.close_timeout", millis(rng.random_range(2 * tick..5_000)));
    set("channel.history_messages", rng.random_range(1..60).to_string());
    set("limits.max_message", "32KiB".to_owned());
    set("channel.history_bytes", "32KiB".to_owned());
    set("channel.history_total_bytes", rng.random_range(32_768..100_000).to_string());
    let age = if kind == ScenarioKind::Dense { rng.random_range(2 * tick..120_000) } else { ping };
    set("channel.history_age", if rng.random_bool(0.7) { millis(age) } else { "off".to_owned() });
    set("limits.max_subscriptions", rng.random_range(1..5).to_string());
    set("limits.max_channels", rng.random_range(1..8).to_string());
    // Refuse clients in dense scenarios only: they reconnect soon, and over days, there would be few other
    // events.
    let refuses = |rng: &mut SmallRng| kind == ScenarioKind::Dense && rng.random_bool(0.3);
    if refuses(rng) {
        set("limits.max_connections", rng.random_range(1..20).to_string());
    }
    if refuses(rng) {
        set("limits.max_sessions", rng.random_range(1..20).to_string());
    }
    if refuses(rng) {
        set("limits.max_connections_per_address", rng.random_range(1..6).to_string());
    }
    set("limits.commands_per_second", rng.random_range(0..30).to_string());
    // The same holds for pages that are advised to pause because of other pages of their browser. 0: no
    // limit.
    let polls_per_browser = if kind == ScenarioKind::Dense { rng.random_range(0..3) } else { 0 };
    set("bayeux.polls_per_browser", polls_per_browser.to_string());
    set("session.max_unacked", rng.random_range(16..200).to_string());
    let settings = Settings { flags, ..Settings::default() };
    let mut config = settings.resolve().expect("the scenario's settings are valid");
    if rng.random_bool(0.5) {
        // Set a value lower than the server accepts, so that rings are full more often.
        config.max_unacked = rng.random_range(1..16);
    }
    config
}
