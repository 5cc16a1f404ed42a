//! Command line, defined and checked with clap.

mod abuse;
mod channel;
mod churn;
mod load;
mod mix;
mod needs;
mod nodes;
mod number;
mod plan;
mod restart;
mod share;

use clap::{ArgAction, Parser, Subcommand};
use strum::IntoStaticStr;

pub(crate) use self::abuse::{AbuseOptions, Attack, FrameKind};
pub(crate) use self::channel::{ChannelLoad, FanoutOptions, PublishBy};
pub(crate) use self::churn::{ChurnOptions, Lifetime};
pub(crate) use self::load::{ConnectionOptions, HoldOptions, Load, MuteOptions, ServerOptions};
pub(crate) use self::mix::MixOptions;
pub(crate) use self::nodes::NodesOptions;
pub(crate) use self::plan::{PhaseKind, PlannedPhase};
pub(crate) use self::restart::RestartOptions;
pub(crate) use self::share::{MAX_SHARES, Share};

/// Loads a session server and breaks its sessions on purpose.
///
/// Exit code: 0 success, 1 the scenario could not run at all, 2 bad usage (including an assertion that names
/// no number of the result), 99 an assertion failed.
#[derive(Debug, Parser)]
#[command(name = "loadgen", version, disable_help_flag = true, disable_help_subcommand = true)]
pub(crate) struct LoadgenArgs {
    #[command(subcommand)]
    pub(crate) command: LoadgenCommand,
    /// Print the usual options
    #[arg(short, long, action = ArgAction::HelpShort, global = true)]
    help: Option<bool>,
    /// Print all options
    #[arg(long, action = ArgAction::HelpLong, global = true)]
    help_all: Option<bool>,
}

#[derive(Debug, Subcommand)]
#[expect(clippy::large_enum_variant, reason = "only one value exists")]
pub(crate) enum LoadgenCommand {
    #[command(flatten)]
    Run(ScenarioOptions),
    /// Run the scenarios against a small server that violates one guarantee at a time: is every fault
    /// reported?
    #[command(
        after_help = "Exit code: 0 every fault was reported and the honest server had none, 1 otherwise.\n\n\
                            Example: loadgen selftest"
    )]
    Selftest,
}

#[derive(Clone, Debug, IntoStaticStr, Subcommand)]
#[strum(serialize_all = "lowercase")]
pub(crate) enum ScenarioOptions {
    /// Open connections, answer pings and stay connected: how many idle connections can the server handle?
    #[command(after_help = "Example: loadgen hold ws://127.0.0.1:8000/ws --connections 10000 --rate 2000 \
                            --assert 'unexpected_closes==0'")]
    Hold(HoldOptions),
    /// Stop answering pings on a share of the connections: does the server notice every dead peer on time,
    /// and none too early?
    #[command(after_help = "Example: loadgen mute ws://127.0.0.1:8000/ws --duration 60s --share 0.5 \
                            --assert 'early==0' --assert 'lateness_ms.p99<50'")]
    Mute(MuteOptions),
    /// Drop all connections simultaneously and resume every session: how long until the last one has resumed?
    #[command(after_help = "Example: loadgen storm ws://127.0.0.1:8000/ws --connections 10000 --rate 2000 \
                            --duration 5s --assert 'resumed==10000'")]
    Storm(ConnectionOptions),
    /// Connect and disconnect at random: does the server keep up with a changing population?
    #[command(after_help = "Example: loadgen churn ws://127.0.0.1:8000/ws --rate 500 --lifetime exp:10s \
                            --assert 'errors==0' --assert 'connect_ms.p99<100'")]
    Churn(ChurnOptions),
    /// Publish to a channel that all connections subscribe to: does every subscriber receive every message,
    /// once and in order?
    #[command(after_help = "Example: loadgen fanout ws://127.0.0.1:8000/ws --connections 10000 --rate 2000 \
                            --publish-rate 100 --messages 1000 --cut-after 5s --assert 'lost==0'")]
    Fanout(FanoutOptions),
    /// Restart the server while messages are published: do all sessions resume, with all messages, and how
    /// soon?
    #[command(
        after_help = "Example: loadgen restart ws://127.0.0.1:8000/ws --restart 'systemctl restart encke' \
                            --assert 'lost==0' --assert 'refused==0'"
    )]
    Restart(RestartOptions),
    /// Move sessions between servers that share them, while messages are published: does each session receive
    /// every message once and in order, or a gap?
    #[command(
        after_help = "Example: loadgen nodes ws://127.0.0.1:8000/ws --other-nodes ws://127.0.0.1:8010/ws \
                            --hop 10s --assert 'lost==0' --assert 'duplicated==0' --assert 'not_recovered==0'"
    )]
    Nodes(NodesOptions),
    /// Attack the server while a well-behaved session is measured: what does an attack cost attacker and
    /// server, and does it harm that session?
    #[command(
        after_help = "Example: loadgen abuse ws://127.0.0.1:8000/ws --attack frames --pid $(pidof encke) \
                            --assert 'attacks.frames.healthy.attack_ms.p99<25' --assert 'lost==0'"
    )]
    Abuse(AbuseOptions),
    /// Run several scenarios simultaneously, in phases planned by a TOML file: does the server cope with all
    /// of them together, over time?
    #[command(
        after_help = "Example: loadgen mix ws://127.0.0.1:8000/ws --plan plan.toml --assert 'lost==0'",
        after_long_help = "Example: loadgen mix ws://127.0.0.1:8000/ws --plan plan.toml --assert 'lost==0'\n\n\
                            Example of a plan:\n  \
                            [[phase]]\n  kind = \"ramp\"       # connections are opened evenly, and stay open to the end\n  \
                            duration = \"2m\"\n  run = [{ scenario = \"hold\", connections = 8000 }]\n  \
                            [[phase]]\n  kind = \"soak\"       # runs are repeated; hold: they run once; \
                            spike: once, all connections at once\n  duration = \"18m\"\n  \
                            run = [\n    { scenario = \"storm\", connections = 500, rate = 500, \
                            duration = \"20s\" },\n    { scenario = \"fanout\", connections = 500, messages = 600, \
                            publish_rate = 10 },\n  ]\n\n\
                            The keys of a run are the options of its scenario."
    )]
    Mix(MixOptions),
}

impl ScenarioOptions {
    pub(crate) fn name(&self) -> &'static str {
        self.into()
    }

    /// Whether several threads or processes can share the connections. The other scenarios need to see
    /// everything that arrives.
    pub(crate) fn runs_on_threads(&self) -> bool {
        matches!(self, Self::Hold(_) | Self::Mute(_) | Self::Storm(_))
    }

    /// Returns the number of threads that open connections.
    pub(crate) fn threads(&self) -> u32 {
        let load = self.load();
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let default = u32::try_from(cores / 2).unwrap_or(u32::MAX).clamp(1, 64);
        if self.runs_on_threads() { load.server.threads.unwrap_or(default).min(load.connections) } else { 1 }
    }

    /// Returns the progress bars. Each names the count that it shows and the count that is its total. An empty
    /// total is the number of connections.
    pub(crate) fn bars(&self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Hold(_) => &[("connected", "")],
            Self::Mute(_) => &[("connected", ""), ("closed", "muted")],
            Self::Storm(_) => &[("connected", ""), ("resumed", "dropped")],
            Self::Churn(_) => &[("left", "connected")],
            Self::Fanout(_) => &[("subscribed", ""), ("received", "expected"), ("resumed", "dropped")],
            Self::Restart(_) => &[("subscribed", ""), ("received", "expected"), ("resumed", "moved")],
            Self::Nodes(_) => &[("subscribed", "subscriptions"), ("received", "expected")],
            Self::Abuse(_) => &[("received", "sent")],
            Self::Mix(_) => &[("connected", "connects")],
        }
    }

    pub(crate) fn load(&self) -> Load {
        match self {
            Self::Hold(hold) => hold.held.load(),
            Self::Storm(held) => held.load(),
            Self::Mute(mute) => mute.held.load(),
            Self::Churn(churn) => churn.load(),
            Self::Fanout(fanout) => fanout.channel_load.load(),
            Self::Restart(restart) => restart.load(),
            Self::Nodes(nodes) => nodes.load(),
            Self::Abuse(abuse) => abuse.load(),
            Self::Mix(mix) => mix.load(),
        }
    }

    pub(crate) fn server_mut(&mut self) -> &mut ServerOptions {
        match self {
            Self::Hold(HoldOptions { held, .. })
            | Self::Mute(MuteOptions { held, .. })
            | Self::Storm(held) => &mut held.server,
            Self::Churn(churn) => &mut churn.server,
            Self::Fanout(FanoutOptions { channel_load, .. })
            | Self::Restart(RestartOptions { channel_load, .. }) => &mut channel_load.server,
            Self::Nodes(nodes) => &mut nodes.server,
            Self::Abuse(abuse) => &mut abuse.server,
            Self::Mix(mix) => &mut mix.server,
        }
    }

    /// Returns the maximum number of sockets open simultaneously.
    pub(crate) fn sockets(&self) -> u32 {
        let connections = self.load().connections;
        match self {
            Self::Hold(_) | Self::Mute(_) | Self::Storm(_) | Self::Churn(_) => connections,
            // Count one more for the publisher.
            Self::Fanout(_) => connections.saturating_add(1),
            // Count two more for the server's listeners.
            Self::Restart(restart) => connections.saturating_add(restart.publishers).saturating_add(2),
            // A session that moves may have two connections.
            Self::Nodes(nodes) => connections.saturating_mul(2).saturating_add(nodes.publishers()),
            // The attack `resume` opens two sockets per connection. Count two more for the healthy session
            // and the visitor.
            Self::Abuse(_) => connections.saturating_mul(2).saturating_add(2),
            Self::Mix(mix) => mix.sockets(),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    /// Parses a scenario and its options, separated by spaces.
    pub(super) fn scenario(words: &str) -> Result<ScenarioOptions, clap::Error> {
        match LoadgenArgs::try_parse_from(["loadgen"].into_iter().chain(words.split(' ')))?.command {
            LoadgenCommand::Run(scenario) => Ok(scenario),
            LoadgenCommand::Selftest => panic!("expected a scenario"),
        }
    }

    #[test]
    fn clap_accepts_the_definition() {
        LoadgenArgs::command().debug_assert();
    }
}
