//! Options of the scenarios that publish messages.

use std::time::Duration;

use clap::{Args as ClapArgs, ValueEnum};
use encke_client::Target;
use strum::IntoStaticStr;

use super::load::{Load, ServerOptions};
use super::number::{parse_duration, parse_rate};

/// Subscribers of one channel, and the messages that are published to it.
#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct ChannelLoad {
    #[command(flatten)]
    pub(crate) server: ServerOptions,
    /// Number of subscribers to connect
    #[arg(long, value_name = "N", default_value = "1000", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) connections: u32,
    /// Subscribers to connect per second
    #[arg(long, value_name = "R", default_value = "1000", value_parser = parse_rate)]
    rate: f64,
    /// Channel to subscribe and publish to
    #[arg(long, value_name = "NAME", default_value = "loadgen", hide_short_help = true)]
    channel: String,
    /// Number of messages to publish
    #[arg(long, value_name = "COUNT", default_value = "100", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) messages: u32,
    /// Messages to publish per second; latency counts from the time at which each message is due
    #[arg(long, value_name = "R", default_value = "2", value_parser = parse_rate)]
    pub(crate) publish_rate: f64,
    /// Length of a message's data as JSON text, in bytes
    #[arg(long, value_name = "BYTES", default_value = "100",
          value_parser = clap::value_parser!(u32).range(MIN_SIZE..=MAX_SIZE), hide_short_help = true)]
    pub(crate) size: u32,
    /// How to publish: with commands on an additional connection, or with POST /api/publish on the admin
    /// listener
    #[arg(long, value_enum, default_value_t = PublishBy::Ws, requires_if("admin", "admin"), hide_short_help = true)]
    pub(crate) publisher: PublishBy,
    /// Acknowledge every N-th message, in addition to answering pings; 0: never
    #[arg(long, value_name = "N", default_value = "0", hide_short_help = true)]
    pub(crate) ack_every: u32,
    /// How long to wait for missing messages while nothing arrives
    #[arg(long, value_name = "D", default_value = "5s", value_parser = parse_duration, hide_short_help = true)]
    pub(crate) grace: Duration,
}

/// Minimum size of a message's data, which contains a number and a timestamp of up to 30 bytes together.
pub(super) const MIN_SIZE: i64 = 32;
/// Maximum size of a message's data. The whole message stays below the longest message that a client reads.
pub(super) const MAX_SIZE: i64 = 1_000_000;

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
    #[arg(long, value_name = "D", value_parser = parse_duration)]
    pub(crate) cut_after: Option<Duration>,
}

impl ChannelLoad {
    /// Returns the options shared with the other scenarios. The duration is zero: these scenarios end when
    /// all messages have arrived.
    pub(crate) fn load(&self) -> Load {
        let mut server = self.server.clone();
        server.cost.admin_is_for_publishing = self.publisher == PublishBy::Admin;
        Load::new(&server, self.connections, self.rate, Duration::ZERO)
    }

    /// Returns the name of the channel. In Bayeux it begins with a slash.
    pub(crate) fn channel(&self) -> String {
        let is_short = self.server.target == Target::Bayeux && !self.channel.starts_with('/');
        if is_short { format!("/{}", self.channel) } else { self.channel.clone() }
    }
}
