//! Command line, defined and checked with clap.

mod abuse;
mod channel;
mod churn;
mod load;
mod mix;
mod needs;
mod number;
mod plan;
mod restart;
mod sessions;
mod vacuous;
mod worker;

use clap::{Parser, Subcommand};
use strum::IntoStaticStr;

use crate::report::Compare;

pub(crate) use self::abuse::{AbuseOptions, Attack, FrameKind};
pub(crate) use self::channel::{ChannelLoad, FanoutOptions, PublishBy, ResumeOptions, SlowOptions};
pub(crate) use self::churn::{ChurnOptions, Lifetime};
pub(crate) use self::load::{ConnectionOptions, Load};
pub(crate) use self::mix::MixOptions;
pub(crate) use self::plan::{PhaseKind, PlannedPhase};
pub(crate) use self::restart::RestartOptions;
pub(crate) use self::sessions::{
    ExpireOptions, HoldOptions, Kill, LateOptions, MuteOptions, Omission, TakeoverOptions, VanishOptions,
};
pub(crate) use self::worker::WorkerId;

/// Loads a session server and breaks its sessions on purpose.
///
/// Exit code: 0 success, 1 the scenario could not run at all, 2 bad usage (including an assertion that names
/// no number of the result), 99 an assertion failed.
#[derive(Debug, Parser)]
#[command(name = "loadgen", version)]
pub(crate) struct LoadgenArgs {
    #[command(subcommand)]
    pub(crate) command: LoadgenCommand,
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
    /// Compare the results of several runs side by side, with ratios to the first
    #[command(
        after_help = "Example: loadgen compare before/result.json after/result.json --report difference"
    )]
    Compare(Compare),
}

#[derive(Clone, Debug, IntoStaticStr, Subcommand)]
#[strum(serialize_all = "lowercase")]
pub(crate) enum ScenarioOptions {
    /// Open connections at a given rate, answer pings and stay connected: how many idle connections can the
    /// server handle?
    #[command(after_help = "Example: loadgen hold ws://127.0.0.1:8000/ws --connections 10000 --rate 2000 \
                            --duration 60s --assert 'unexpected_closes==0'")]
    Hold(HoldOptions),
    /// Stop answering pings on a share of the connections: does the server notice every dead peer on time,
    /// and none too early?
    #[command(after_help = "Example: loadgen mute ws://127.0.0.1:8000/ws --connections 1000 --rate 1000 \
                            --duration 60s --share 0.5 --assert 'early==0' --assert 'lateness_ms.p99<50'")]
    Mute(MuteOptions),
    /// Answer pings just before and just after the deadline: do the former connections stay open, and are the
    /// latter closed?
    #[command(after_help = "Example: loadgen late ws://127.0.0.1:8000/ws --connections 1000 --rate 1000 \
                            --duration 60s --margin 50ms --assert 'closed_in_time==0' --assert 'forgiven==0'")]
    Late(LateOptions),
    /// Withhold what the server expects: do its other timeouts, such as idle and lifetime, close connections
    /// on time?
    #[command(after_help = "Example: loadgen expire ws://127.0.0.1:8000/ws --connections 1000 --rate 1000 \
                            --duration 90s --after 60s --code 4004 --assert 'early==0' --assert 'still_open==0'\n\
                            Example: loadgen expire ws://127.0.0.1:8000/ws --connections 1000 --rate 1000 \
                            --duration 20s --after 10s --without upgrade --assert 'lateness_ms.p99<50'")]
    Expire(ExpireOptions),
    /// Kill all sockets without a Close frame and reconnect: are sessions kept for the whole reconnect
    /// window, and no longer?
    #[command(after_help = "Example: loadgen vanish ws://127.0.0.1:8000/ws --connections 1000 --rate 1000 \
                            --duration 5s --kill rst --margin 250ms --assert 'early==0' --assert 'overdue==0'")]
    Vanish(VanishOptions),
    /// Resume sessions that are still connected: does the second connection take over, and does the first
    /// receive the right close code?
    #[command(
        after_help = "Example: loadgen takeover ws://127.0.0.1:8000/ws --connections 1000 --rate 1000 \
                            --duration 5s --assert 'replaced==1000' --assert 'unexpected_closes==0'"
    )]
    Takeover(TakeoverOptions),
    /// Drop all connections simultaneously and resume every session: how long until the last one has resumed?
    #[command(after_help = "Example: loadgen storm ws://127.0.0.1:8000/ws --connections 10000 --rate 2000 \
                            --duration 5s --assert 'resumed==10000'")]
    Storm(ConnectionOptions),
    /// Connect and disconnect at random: does the server keep up with a changing population?
    #[command(after_help = "Example: loadgen churn ws://127.0.0.1:8000/ws --rate 500 --duration 60s \
                            --lifetime exp:10s --assert 'errors==0' --assert 'connect_ms.p99<100'")]
    Churn(ChurnOptions),
    /// Publish to a channel that all connections subscribe to: does every subscriber receive every message,
    /// once and in order?
    #[command(after_help = "Example: loadgen fanout ws://127.0.0.1:8000/ws --connections 10000 --rate 2000 \
                            --messages 1000 --publish-rate 100 --cut-after 5s --assert 'lost==0' \
                            --assert 'resumed==10000'")]
    Fanout(FanoutOptions),
    /// Lose connections while messages are published: does every client that reconnects in time receive every
    /// message exactly once?
    #[command(
        after_help = "Example: loadgen resume ws://127.0.0.1:8000/ws --connections 1000 --messages 600 \
                            --publish-rate 10 --cuts 5 --away 2s --outside 0.1 --assert 'lost==0' \
                            --assert 'duplicated==0' --assert 'overdue==0'"
    )]
    Resume(ResumeOptions),
    /// Read slowly or not at all on a share of the connections: are they closed, and do the others stay
    /// unaffected?
    #[command(after_help = "Example: loadgen slow ws://127.0.0.1:8000/ws --connections 100 --messages 1000 \
                            --publish-rate 50 --size 60000 --share 0.1 --assert 'still_open==0' \
                            --assert 'lost==0'")]
    Slow(SlowOptions),
    /// Restart the server while messages are published: do all sessions resume, with all messages, and how
    /// soon?
    #[command(
        after_help = "Example: loadgen restart ws://127.0.0.1:8000/ws --connections 10000 --rate 2000 \
                            --messages 2000 --publish-rate 200 --assert 'resumed==10010' --assert 'lost==0' \
                            --assert 'duplicated==0' --assert 'refused==0' \
                            --start 'encke --set shutdown.snapshot=/tmp/encke/snapshot --set shutdown.drain=1s'\n\
                            Example: loadgen restart ws://127.0.0.1:8000/ws --restart 'systemctl restart encke'"
    )]
    Restart(RestartOptions),
    /// Attack the server while a well-behaved session is measured: what does an attack cost attacker and
    /// server, and does it harm that session?
    #[command(
        after_help = "Example: loadgen abuse ws://127.0.0.1:8000/ws --attack frames --pid $(pidof encke) \
                            --assert 'attacks.frames.healthy.attack_ms.p99<25' --assert 'lost==0'\n\
                            Example: loadgen abuse ws://127.0.0.1:8000/ws --attack all --pid $(pidof encke)"
    )]
    Abuse(AbuseOptions),
    /// Run several scenarios simultaneously, in phases planned by a TOML file: does the server cope with all
    /// of them together, over time?
    #[command(
        after_help = "Example: loadgen mix ws://127.0.0.1:8000/ws --plan plan.toml --assert 'lost==0' \
                            --assert 'early==0'\n\n\
                            Example of a plan:\n  \
                            [[phase]]\n  kind = \"ramp\"       # connections are opened evenly, and stay open to the end\n  \
                            duration = \"2m\"\n  run = [{ scenario = \"hold\", connections = 8000 }]\n  \
                            [[phase]]\n  kind = \"soak\"       # runs are repeated; hold: they run once; \
                            spike: once, all connections at once\n  duration = \"18m\"\n  \
                            run = [\n    { scenario = \"storm\", connections = 500, rate = 500, \
                            duration = \"20s\" },\n    { scenario = \"resume\", connections = 500, messages = 600, \
                            publish_rate = 10, outside = 0.1 },\n  ]\n\n\
                            The keys of a run are the options of its scenario."
    )]
    Mix(MixOptions),
}

impl ScenarioOptions {
    pub(crate) fn name(&self) -> &'static str {
        self.into()
    }

    /// Returns why the scenario cannot be spread over several processes, if it cannot.
    pub(crate) fn needs_one_process(&self) -> Option<&'static str> {
        match self {
            Self::Restart(_) => {
                Some("it restarts the server once, and one process must see everything that arrives")
            }
            Self::Fanout(_) | Self::Resume(_) | Self::Slow(_) => {
                Some("one publisher serves all subscribers, and one process must see everything that arrives")
            }
            Self::Abuse(_) => Some("there is one attacker, and one session beside it"),
            Self::Mix(_) => Some("its plan runs as a whole"),
            Self::Churn(_) => Some("its arrivals are a single random sequence"),
            Self::Hold(_)
            | Self::Mute(_)
            | Self::Late(_)
            | Self::Expire(_)
            | Self::Vanish(_)
            | Self::Takeover(_)
            | Self::Storm(_) => None,
        }
    }

    pub(crate) fn load(&self) -> Load {
        match self {
            Self::Hold(hold) => hold.held.load(),
            Self::Storm(held) => held.load(),
            Self::Mute(mute) => mute.held.load(),
            Self::Late(late) => late.held.load(),
            Self::Expire(expire) => expire.held.load(),
            Self::Vanish(vanish) => vanish.held.load(),
            Self::Takeover(takeover) => takeover.held.load(),
            Self::Churn(churn) => churn.load(),
            Self::Fanout(fanout) => fanout.channel_load.load(),
            Self::Resume(resume) => resume.channel_load.load(),
            Self::Slow(slow) => slow.channel_load.load(),
            Self::Restart(restart) => restart.load(),
            Self::Abuse(abuse) => abuse.load(),
            Self::Mix(mix) => mix.load(),
        }
    }

    /// Returns the maximum number of sockets open simultaneously.
    pub(crate) fn sockets(&self) -> u32 {
        let connections = self.load().connections;
        match self {
            Self::Hold(_)
            | Self::Mute(_)
            | Self::Late(_)
            | Self::Expire(_)
            | Self::Vanish(_)
            | Self::Storm(_)
            | Self::Churn(_) => connections,
            Self::Takeover(_) => connections.saturating_mul(2),
            // Count one more for the publisher.
            Self::Fanout(_) | Self::Resume(_) | Self::Slow(_) => connections.saturating_add(1),
            // Count two more for the server's listeners.
            Self::Restart(restart) => connections.saturating_add(restart.publishers).saturating_add(2),
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

    #[test]
    fn clap_accepts_the_definition() {
        LoadgenArgs::command().debug_assert();
    }
}
