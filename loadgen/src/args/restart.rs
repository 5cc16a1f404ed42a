//! The server is restarted while messages are published.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args as ClapArgs};

use super::channel::ChannelLoad;
use super::load::Load;
use crate::result::{Group, seconds};

#[derive(Clone, Debug, ClapArgs)]
#[command(group = ArgGroup::new("operator").args(["start", "restart"]).required(true))]
pub(crate) struct Restart {
    #[command(flatten)]
    pub(crate) channel_load: ChannelLoad,
    /// The server's command, with its arguments. loadgen is its supervisor: it opens the listeners (that of the URL, and that of
    /// --admin), which the server inherits as from systemd, and which stay open while it is restarted
    #[arg(long, value_name = "COMMAND")]
    pub(crate) start: Option<String>,
    /// A command of the shell that has the running server restarted, like "systemctl restart encke"
    #[arg(long, value_name = "COMMAND")]
    pub(crate) restart: Option<String>,
    /// How long after the first message was due
    #[arg(long, value_name = "D", default_value = "3s", value_parser = humantime::parse_duration)]
    pub(crate) restart_after: Duration,
    /// Over how many channels subscribers and messages are spread; --channel is how their names begin
    #[arg(long, value_name = "N", default_value = "100", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) channels: u32,
    /// How many publishers there are, each for its share of the channels. Each message has a key, and is published again until the
    /// server confirms it
    #[arg(long, value_name = "N", default_value = "10", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) publishers: u32,
    /// Where what the server says goes, with --start; what --restart says, too
    #[arg(long, value_name = "FILE")]
    pub(crate) server_log: Option<PathBuf>,
}

impl Restart {
    pub(super) fn load(&self) -> Load {
        let mut load = self.channel_load.load();
        // A server that is started later, or restarted, says nothing of its timers at first.
        load.server.cost.admin_is_for_publishing = true;
        load
    }

    /// Why it could show nothing, if so.
    pub(super) fn contradiction(&self) -> Option<String> {
        let ChannelLoad { messages, publish_rate, .. } = self.channel_load;
        let published = Duration::from_secs_f64(f64::from(messages) / publish_rate);
        (published <= self.restart_after).then(|| {
            format!(
                "--restart-after {}: all messages are published after {}",
                humantime::format_duration(self.restart_after),
                humantime::format_duration(published)
            )
        })
    }

    /// The name of a channel.
    pub(crate) fn channel(&self, index: u32) -> String {
        format!("{}-{index}", self.channel_load.channel())
    }

    /// The options, for the beginning of the result.
    pub(crate) fn settings(&self) -> Group {
        self.channel_load
            .settings()
            .with("channels", u64::from(self.channels))
            .with("publishers", u64::from(self.publishers))
            .with("restart_after_seconds", seconds(self.restart_after))
    }
}
