//! Options of `nodes`: sessions that move between servers.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args as ClapArgs;
use encke_client::ServerUrl;

use super::channel::{MAX_SIZE, MIN_SIZE};
use super::load::{Load, ServerOptions};
use super::number::{parse_duration, parse_interval, parse_rate};

#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct NodesOptions {
    #[command(flatten)]
    pub(crate) server: ServerOptions,
    /// URLs of the other servers that share their sessions with the first one, separated by commas
    #[arg(long, value_name = "URL", value_delimiter = ',', required = true)]
    pub(crate) other_nodes: Vec<ServerUrl>,
    /// Number of sessions to open, distributed over the servers in turn
    #[arg(long, value_name = "N", default_value = "1000", value_parser = clap::value_parser!(u32).range(1..))]
    connections: u32,
    /// Sessions to open per second
    #[arg(long, value_name = "R", default_value = "1000", value_parser = parse_rate)]
    rate: f64,
    /// Length of time during which messages are published, like "5m"
    #[arg(long, value_name = "D", default_value = "30s", value_parser = parse_interval)]
    duration: Duration,
    /// Messages to publish per second, to all channels together
    #[arg(long, value_name = "R", default_value = "200", value_parser = parse_rate)]
    pub(crate) publish_rate: f64,
    /// Average time after which each session moves to the next server, at random. For half of these moves, the
    /// client closes its old connection first; otherwise, the new connection replaces the old one [default:
    /// only when a connection ends]
    #[arg(long, value_name = "D", value_parser = parse_interval)]
    pub(crate) hop: Option<Duration>,
    /// Average time without data after which a client reconnects to the next server. Each client has its own
    /// time, between half and one and a half of this one [default: the sum of the ping interval and the pong
    /// timeout that the server announces, for all clients]
    #[arg(long, value_name = "D", value_parser = parse_interval)]
    pub(crate) read_timeout: Option<Duration>,
    /// Number of channels; --channel is the prefix of their names. Every fourth session subscribes to two of
    /// them, the others to one
    #[arg(long, value_name = "N", default_value = "10", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) channels: u32,
    /// Prefix of the channel names
    #[arg(long, value_name = "NAME", default_value = "loadgen", hide_short_help = true)]
    channel: String,
    /// Number of publishers, each for its share of the channels. Each message has a key, and is published
    /// again, on the next server after a failure, until a server confirms it
    #[arg(long, value_name = "N", default_value = "10", value_parser = clap::value_parser!(u32).range(1..=1000), hide_short_help = true)]
    publishers: u32,
    /// Length of a message's data as JSON text, in bytes
    #[arg(long, value_name = "BYTES", default_value = "100",
          value_parser = clap::value_parser!(u32).range(MIN_SIZE..=MAX_SIZE), hide_short_help = true)]
    pub(crate) size: u32,
    /// Acknowledge every N-th message, in addition to answering pings; 0: never
    #[arg(long, value_name = "N", default_value = "0", hide_short_help = true)]
    pub(crate) ack_every: u32,
    /// How long to wait for missing messages while nothing arrives
    #[arg(long, value_name = "D", default_value = "20s", value_parser = parse_duration, hide_short_help = true)]
    pub(crate) grace: Duration,
    /// File for the details of faults, as lines of JSON: the session, the channel, and the latest events of the
    /// session
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    pub(crate) fault_log: Option<PathBuf>,
}

impl NodesOptions {
    pub(super) fn load(&self) -> Load {
        Load::new(&self.server, self.connections, self.rate, self.duration)
    }

    /// Returns why the run is impossible, or could show nothing.
    pub(super) fn contradiction(&self) -> Option<String> {
        let first = &self.server.url;
        let is_other = |url: &&ServerUrl| url.scheme() != first.scheme() || url.is_tls != first.is_tls;
        if let Some(url) = self.other_nodes.iter().find(is_other) {
            return Some(format!("--other-nodes {}: the scheme differs from that of {}", url.uri, first.uri));
        }
        let is_silent = self.messages() == 0;
        is_silent.then(|| {
            format!(
                "--publish-rate {}: some of the {} channels would have no message",
                self.publish_rate, self.channels
            )
        })
    }

    /// Returns the number of messages to each channel.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the result is small")]
    pub(crate) fn messages(&self) -> u32 {
        (self.publish_rate * self.duration.as_secs_f64() / f64::from(self.channels)) as u32
    }

    pub(crate) fn publishers(&self) -> u32 {
        self.publishers.min(self.channels)
    }

    /// Returns the name of the channel with this index.
    pub(crate) fn channel(&self, index: u32) -> String {
        format!("{}-{index}", self.channel)
    }
}
