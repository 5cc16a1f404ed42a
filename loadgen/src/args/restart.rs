//! Options of `restart`: the server restarts while messages are published.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args as ClapArgs};

use super::channel::ChannelLoad;
use super::load::Load;
use super::number::parse_duration;

#[derive(Clone, Debug, ClapArgs)]
#[command(group = ArgGroup::new("operator").args(["start", "restart"]).required(true))]
pub(crate) struct RestartOptions {
    #[command(flatten)]
    pub(crate) channel_load: ChannelLoad,
    /// Command that starts the server; loadgen is its supervisor
    ///
    /// It opens the listeners of the URL and of --admin, passes them to the server as systemd would, and keeps
    /// them open across the restart.
    #[arg(long, value_name = "COMMAND")]
    pub(crate) start: Option<String>,
    /// Shell command that restarts a running server
    #[arg(long, value_name = "COMMAND")]
    pub(crate) restart: Option<String>,
    /// Time of the restart, from when the first message is due
    #[arg(long, value_name = "D", default_value = "3s", value_parser = parse_duration)]
    pub(crate) restart_after: Duration,
    /// Maximum number of channels over which subscribers and messages are spread; --channel is the prefix of
    /// their names. Every channel has a subscriber and a message
    #[arg(long, value_name = "N", default_value = "100", value_parser = clap::value_parser!(u32).range(1..=10_000), hide_short_help = true)]
    channels: u32,
    /// Number of publishers, each for its share of the channels. Each message has a key, and is published
    /// again until the server confirms it
    #[arg(long, value_name = "N", default_value = "10", value_parser = clap::value_parser!(u32).range(1..=1000), hide_short_help = true)]
    pub(crate) publishers: u32,
    /// File for the server's output with --start, or for the output of the --restart command [default:
    /// discarded]
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    pub(crate) server_log: Option<PathBuf>,
}

impl RestartOptions {
    pub(super) fn load(&self) -> Load {
        let mut load = self.channel_load.load();
        // A server that is started later, or restarted, cannot report its timers at the beginning of the run.
        load.server.cost.admin_is_for_publishing = true;
        load
    }

    /// Returns why the run could show nothing: all messages are published before the restart.
    pub(super) fn contradiction(&self) -> Option<String> {
        let ChannelLoad { messages, publish_rate, .. } = self.channel_load;
        let published = Duration::from_secs_f64(f64::from(messages) / publish_rate);
        (published <= self.restart_after).then(|| {
            format!(
                "--restart-after {}: all messages have been published after {}",
                humantime::format_duration(self.restart_after),
                humantime::format_duration(published)
            )
        })
    }

    pub(crate) fn channels(&self) -> u32 {
        self.channels.min(self.channel_load.connections).min(self.channel_load.messages)
    }

    /// Returns the name of the channel with this index.
    pub(crate) fn channel(&self, index: u32) -> String {
        format!("{}-{index}", self.channel_load.channel())
    }
}
