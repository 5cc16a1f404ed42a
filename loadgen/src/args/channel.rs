//! Options of the scenarios that publish messages.

use std::time::Duration;

use clap::{Args as ClapArgs, ValueEnum};
use strum::IntoStaticStr;

use super::load::{Load, ServerOptions};
use super::number::{parse_bytes_per_second, parse_interval, parse_rate, parse_share, parse_share_or_zero};
use crate::result::{Group, seconds};
use crate::target::Target;

/// Subscribers of one channel, and the messages that are published to it.
#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct ChannelLoad {
    #[command(flatten)]
    pub(crate) server: ServerOptions,
    /// Number of subscribers to connect
    #[arg(long, value_name = "N", default_value = "1000", value_parser = clap::value_parser!(u32).range(1..))]
    connections: u32,
    /// Subscribers to connect per second
    #[arg(long, value_name = "R", default_value = "1000", value_parser = parse_rate)]
    rate: f64,
    /// Channel to subscribe and publish to
    #[arg(long, value_name = "NAME", default_value = "loadgen")]
    channel: String,
    /// Number of messages to publish
    #[arg(long, value_name = "COUNT", default_value = "100", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) messages: u32,
    /// Messages to publish per second; latency counts from the time at which each message is due
    #[arg(long, value_name = "R", default_value = "2", value_parser = parse_rate)]
    pub(crate) publish_rate: f64,
    /// Length of a message's data as JSON text, in bytes
    #[arg(long, value_name = "BYTES", default_value = "100",
          value_parser = clap::value_parser!(u32).range(MIN_SIZE..=MAX_SIZE))]
    pub(crate) size: u32,
    /// How to publish: with commands on an additional connection, or with POST /api/publish on the admin
    /// listener
    #[arg(long, value_enum, default_value_t = PublishBy::Ws, requires_if("admin", "admin"))]
    pub(crate) publisher: PublishBy,
    /// Acknowledge every N-th message, in addition to answering pings; 0: never
    #[arg(long, value_name = "N", default_value = "0")]
    pub(crate) ack_every: u32,
    /// How long to wait for missing messages while nothing arrives
    #[arg(long, value_name = "D", default_value = "5s", value_parser = humantime::parse_duration)]
    pub(crate) grace: Duration,
}

/// Minimum size of a message's data, which contains a number and a timestamp of up to 30 bytes together.
const MIN_SIZE: i64 = 32;
/// Maximum size of a message's data. The whole message stays below the longest message that a client reads.
const MAX_SIZE: i64 = 1_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr, ValueEnum)]
#[strum(serialize_all = "lowercase")]
pub(crate) enum PublishBy {
    Ws,
    Admin,
}

#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct FanoutOptions {
    #[command(flatten)]
    pub(crate) channel_load: ChannelLoad,
    /// Drop every subscriber's connection this long after the first message is due; all of them reconnect and
    /// resume [default: never]
    #[arg(long, value_name = "D", value_parser = humantime::parse_duration)]
    pub(crate) cut_after: Option<Duration>,
}

#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct ResumeOptions {
    #[command(flatten)]
    pub(crate) channel_load: ChannelLoad,
    /// Number of times each subscriber loses its connection while messages are published
    #[arg(long, value_name = "N", default_value = "3", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) cuts: u32,
    /// Maximum time that a subscriber stays disconnected if it is to resume within the reconnect window
    #[arg(long, value_name = "D", default_value = "1s", value_parser = humantime::parse_duration)]
    pub(crate) away: Duration,
    /// Share of the subscribers, from 0 to 1, that are disconnected once and reconnect after the reconnect
    /// window has ended
    #[arg(long, value_name = "S", default_value = "0", value_parser = parse_share_or_zero)]
    pub(crate) outside: f64,
    /// How long after the end of the reconnect window those subscribers reconnect
    #[arg(long, value_name = "D", default_value = "250ms", value_parser = humantime::parse_duration)]
    pub(crate) margin: Duration,
    /// Seed for the random times of disconnects and the random delays before reconnecting
    #[arg(long, value_name = "N", default_value = "1")]
    pub(crate) seed: u64,
}

#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct SlowOptions {
    #[command(flatten)]
    pub(crate) channel_load: ChannelLoad,
    /// Share of the subscribers, above 0 and up to 1, that read slowly
    #[arg(long, value_name = "S", default_value = "0.1", value_parser = parse_share)]
    pub(crate) share: f64,
    /// Rate at which a slow subscriber reads, like a client on a slow link: "6KB/s", "48kbit/s", or a number
    /// of bytes per second; 0: it does not read
    #[arg(long, value_name = "RATE", default_value = "0", value_parser = parse_bytes_per_second)]
    pub(crate) read_rate: u32,
    /// Interval at which a slow subscriber reads. If the interval is just shorter than the server's timeout
    /// for slow consumers, the server should keep the connection
    #[arg(long, value_name = "D", default_value = "100ms", value_parser = parse_interval)]
    pub(crate) read_every: Duration,
    /// How long slow subscribers stay slow after the last message is due; after that they read everything
    /// that is pending
    #[arg(long = "slow-for", value_name = "D", default_value = "15s", value_parser = humantime::parse_duration)]
    pub(crate) slow_for: Duration,
}

impl ChannelLoad {
    /// Returns the options shared with the other scenarios. The duration is zero: these scenarios end when
    /// all messages have arrived.
    pub(crate) fn load(&self) -> Load {
        let mut server = self.server.clone();
        server.cost.admin_is_for_publishing = self.publisher == PublishBy::Admin;
        Load {
            server,
            connections: self.connections,
            rate: self.rate,
            duration: Duration::ZERO,
            first_due: Duration::ZERO,
        }
    }

    /// Returns the name of the channel. In Bayeux it begins with a slash.
    pub(crate) fn channel(&self) -> String {
        let is_short = self.server.target == Target::Bayeux && !self.channel.starts_with('/');
        if is_short { format!("/{}", self.channel) } else { self.channel.clone() }
    }

    /// Returns the options as shown at the beginning of the result.
    pub(crate) fn settings(&self) -> Group {
        Group::default()
            .with("channel", self.channel().as_str())
            .with("messages", u64::from(self.messages))
            .with("publish_rate", self.publish_rate)
            .with("size", u64::from(self.size))
            .with("publisher", <&str>::from(self.publisher))
            .with("ack_every", u64::from(self.ack_every))
            .with("grace_seconds", seconds(self.grace))
            .with("connect_timeout_seconds", seconds(self.server.connect_timeout))
    }
}
