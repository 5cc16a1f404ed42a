//! Scenarios about what is published.

use std::time::Duration;

use clap::{Args as ClapArgs, ValueEnum};
use strum::IntoStaticStr;

use super::load::{Load, Server};
use super::number::{parse_bytes_per_second, parse_interval, parse_rate, parse_share, parse_share_or_none};
use crate::result::{Group, seconds};
use crate::target::Target;

/// Subscribers of one channel, and what is published to it.
#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct ChannelLoad {
    #[command(flatten)]
    pub(crate) server: Server,
    /// How many subscribers to connect
    #[arg(long, value_name = "N", default_value = "1000", value_parser = clap::value_parser!(u32).range(1..))]
    connections: u32,
    /// How many of them to connect a second
    #[arg(long, value_name = "R", default_value = "1000", value_parser = parse_rate)]
    rate: f64,
    /// The channel to subscribe and publish to
    #[arg(long, value_name = "NAME", default_value = "loadgen")]
    channel: String,
    /// How many messages to publish
    #[arg(long, value_name = "COUNT", default_value = "100", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) messages: u32,
    /// How many of them to publish a second; latencies count from the instant at which each was due
    #[arg(long, value_name = "R", default_value = "2", value_parser = parse_rate)]
    pub(crate) publish_rate: f64,
    /// How long the JSON text of a message's data is
    #[arg(long, value_name = "BYTES", default_value = "100",
          value_parser = clap::value_parser!(u32).range(MIN_SIZE..=MAX_SIZE))]
    pub(crate) size: u32,
    /// How to publish: by commands of one more connection like the others, or POST /api/publish at the admin listener
    #[arg(long, value_enum, default_value_t = PublishBy::Ws, requires_if("admin", "admin"))]
    pub(crate) publisher: PublishBy,
    /// Acknowledge every N-th message, beside answering pings; 0: never
    #[arg(long, value_name = "N", default_value = "0")]
    pub(crate) ack_every: u32,
    /// How long to wait for what is missing while nothing arrives
    #[arg(long, value_name = "D", default_value = "5s", value_parser = humantime::parse_duration)]
    pub(crate) grace: Duration,
}

/// A message says its number and its time, which takes up to 30 bytes.
const MIN_SIZE: i64 = 32;
/// What fits into the longest message that a client reads, with room for the rest of it.
const MAX_SIZE: i64 = 1_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr, ValueEnum)]
#[strum(serialize_all = "lowercase")]
pub(crate) enum PublishBy {
    Ws,
    Admin,
}

#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct Fanout {
    #[command(flatten)]
    pub(crate) channel_load: ChannelLoad,
    /// Cut every subscriber's connection this long after the first message was due; all come back and resume
    #[arg(long, value_name = "D", value_parser = humantime::parse_duration)]
    pub(crate) cut_after: Option<Duration>,
}

#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct Resume {
    #[command(flatten)]
    pub(crate) channel_load: ChannelLoad,
    /// How often each subscriber loses its connection while messages are published
    #[arg(long, value_name = "N", default_value = "3", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) cuts: u32,
    /// The longest time that a subscriber stays away within the reconnect window
    #[arg(long, value_name = "D", default_value = "1s", value_parser = humantime::parse_duration)]
    pub(crate) away: Duration,
    /// The share of the subscribers that is cut once, and comes back after the window
    #[arg(long, value_name = "S", default_value = "0", value_parser = parse_share_or_none)]
    pub(crate) outside: f64,
    /// How long after the window that is
    #[arg(long, value_name = "D", default_value = "250ms", value_parser = humantime::parse_duration)]
    pub(crate) margin: Duration,
    /// Of the instants at which connections are cut, and of how long they stay away
    #[arg(long, value_name = "N", default_value = "1")]
    pub(crate) seed: u64,
}

#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct Slow {
    #[command(flatten)]
    pub(crate) channel_load: ChannelLoad,
    /// The share of the subscribers that is slow
    #[arg(long, value_name = "S", default_value = "0.1", value_parser = parse_share)]
    pub(crate) share: f64,
    /// How many bytes a second a slow subscriber reads, as through a slow link: "6KB/s", "48kbit/s", or a number; 0: none
    #[arg(long, value_name = "RATE", default_value = "0", value_parser = parse_bytes_per_second)]
    pub(crate) read_rate: u32,
    /// How often it reads, with pauses between: with a pause just short of the server's timeout for who does not read, it
    /// should be left alone
    #[arg(long, value_name = "D", default_value = "100ms", value_parser = parse_interval)]
    pub(crate) read_every: Duration,
    /// How long slow subscribers stay slow after the last message was due; then they read what there is
    #[arg(long = "slow-for", value_name = "D", default_value = "15s", value_parser = humantime::parse_duration)]
    pub(crate) slow_for: Duration,
}

impl ChannelLoad {
    /// What these scenarios have in common with the others. They end when all has arrived, not after a time.
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

    /// Its name. Those of Bayeux begin with a slash.
    pub(crate) fn channel(&self) -> String {
        let is_short = self.server.target == Target::Bayeux && !self.channel.starts_with('/');
        if is_short { format!("/{}", self.channel) } else { self.channel.clone() }
    }

    /// The options, for the beginning of the result.
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
