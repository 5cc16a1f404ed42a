//! Options of `abuse`: attacks on the server, each while one well-behaved session is measured.

use std::str::FromStr;
use std::time::Duration;

use clap::{Args as ClapArgs, ValueEnum};
use strum::{EnumIter, EnumString, IntoEnumIterator, IntoStaticStr};

use super::load::{Load, ServerOptions};
use super::number::{parse_interval, parse_rate};
use crate::target::Target;

#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct AbuseOptions {
    #[command(flatten)]
    server: ServerOptions,
    /// Attacks to run one after the other, separated by commas: frames, publishes, channels, suspended,
    /// headers, handshakes, resume, history, tokens, fragments, slowread, events; or all. Controls: none
    /// (sends nothing), burn (sends nothing, but spends CPU time in the attacker)
    #[arg(long, value_name = "NAMES")]
    attack: AttackSelection,
    /// Number of connections that the attacker keeps open simultaneously [default: depends on the attack,
    /// from 1 to 5000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    connections: Option<u32>,
    /// Duration of each attack
    #[arg(long, value_name = "D", default_value = "10s", value_parser = parse_interval)]
    pub(crate) duration: Duration,
    /// How long the healthy session is measured before each attack, and again after it
    #[arg(long, value_name = "D", default_value = "3s", value_parser = parse_interval)]
    pub(crate) quiet_for: Duration,
    /// Messages per second that the healthy session publishes; latency counts from the time at which each
    /// message is due
    #[arg(long, value_name = "R", default_value = "20", value_parser = parse_rate)]
    rate: f64,
    /// Kind of frame that the attack `frames` sends [default: each connection sends one kind, in rotation]
    #[arg(long, value_enum)]
    pub(crate) kind: Option<FrameKind>,
    /// Allow a server that is not on this machine: confirms that its owner has agreed to the attack
    #[arg(long)]
    pub(crate) authorized: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumIter, EnumString, IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub(crate) enum Attack {
    Frames,
    Publishes,
    Channels,
    Suspended,
    Headers,
    Handshakes,
    Resume,
    History,
    Tokens,
    Fragments,
    Slowread,
    Events,
    /// Control: does nothing.
    None,
    /// Control: sends nothing, but uses as much CPU time as it can get.
    Burn,
}

/// Frames that cost a client next to nothing to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumIter, IntoStaticStr, ValueEnum)]
#[strum(serialize_all = "lowercase")]
pub(crate) enum FrameKind {
    /// Acknowledgements of messages that were never sent
    Acks,
    /// Unsolicited pongs
    Pongs,
    /// Pings, each of which the server has to answer
    Pings,
    /// Empty fragments of a message that never ends
    Fragments,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum AttackSelection {
    All,
    These(Vec<Attack>),
}

impl FromStr for AttackSelection {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "all" {
            return Ok(Self::All);
        }
        let mut attacks = Vec::new();
        for name in text.split(',') {
            let attack = name.parse().map_err(|_| format!("unknown attack {name:?}"))?;
            if attacks.contains(&attack) {
                return Err(format!("{name:?} is listed twice"));
            }
            attacks.push(attack);
        }
        Ok(Self::These(attacks))
    }
}

impl Attack {
    pub(crate) fn name(self) -> &'static str {
        self.into()
    }

    fn is_control(self) -> bool {
        matches!(self, Self::None | Self::Burn)
    }

    /// Returns whether the attack speaks Encke's dialect. The others work against any WebSocket server.
    pub(super) fn speaks_encke(self) -> bool {
        match self {
            Self::Frames | Self::Headers | Self::Handshakes | Self::Fragments | Self::None | Self::Burn => {
                false
            }
            Self::Publishes
            | Self::Channels
            | Self::Suspended
            | Self::Resume
            | Self::History
            | Self::Tokens
            | Self::Slowread
            | Self::Events => true,
        }
    }

    /// Returns the default number of connections that are open simultaneously.
    fn default_connections(self) -> u32 {
        match self {
            Self::None | Self::Burn => 1,
            Self::History => 10,
            Self::Publishes | Self::Channels => 20,
            Self::Suspended | Self::Resume | Self::Tokens | Self::Events => 50,
            Self::Frames => 300,
            Self::Slowread => 500,
            Self::Fragments => 1_200,
            Self::Headers => 2_000,
            Self::Handshakes => 5_000,
        }
    }
}

impl FrameKind {
    /// Returns the kind of frame that connection `index` of the attacker sends when the kinds rotate over the
    /// connections.
    pub(crate) fn rotating(index: u32, target: Target) -> Self {
        let kinds = Self::iter().filter(|kind| kind.is_supported_by(target));
        let kinds: Vec<_> = kinds.collect();
        kinds[index as usize % kinds.len()]
    }

    pub(super) fn is_supported_by(self, target: Target) -> bool {
        target == Target::Encke || self != Self::Acks
    }
}

impl AbuseOptions {
    /// Returns the attacks to run. `all` stands for every attack that the target understands.
    pub(crate) fn attacks(&self) -> Vec<Attack> {
        let target = self.server.target;
        let all = || Attack::iter().filter(|attack| !attack.is_control());
        match &self.attack {
            AttackSelection::All => {
                all().filter(|it| target == Target::Encke || !it.speaks_encke()).collect()
            }
            AttackSelection::These(attacks) => attacks.clone(),
        }
    }

    pub(crate) fn connections(&self, attack: Attack) -> u32 {
        self.connections.unwrap_or_else(|| attack.default_connections())
    }

    /// Returns the load of the attack with the most connections. The rate is the healthy session's message
    /// rate.
    pub(super) fn load(&self) -> Load {
        let connections = self.attacks().into_iter().map(|attack| self.connections(attack)).max();
        Load {
            server: self.server.clone(),
            connections: connections.unwrap_or(1),
            rate: self.rate,
            duration: self.duration,
            first_due: Duration::ZERO,
        }
    }

    /// Returns why `--kind` does not fit the attacks or the target, if it does not.
    pub(super) fn contradiction(&self) -> Option<String> {
        let (target, attacks) = (self.server.target, self.attacks());
        match self.kind {
            Some(_) if !attacks.contains(&Attack::Frames) => {
                Some("--kind only applies to the attack frames".to_owned())
            }
            Some(kind) if !kind.is_supported_by(target) => {
                Some(format!("--kind {}: not available with --target {}", <&str>::from(kind), target.name()))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::{LoadgenArgs, LoadgenCommand, ScenarioOptions};

    fn abuse(words: &str) -> Result<AbuseOptions, clap::Error> {
        let words = format!("loadgen abuse ws://127.0.0.1:1/ws {words}");
        match LoadgenArgs::try_parse_from(words.split(' '))?.command {
            LoadgenCommand::Run(ScenarioOptions::Abuse(abuse)) => Ok(abuse),
            _ => panic!("expected the subcommand abuse"),
        }
    }

    #[test]
    fn attacks_have_names() {
        let attacks = |words| abuse(words).expect("the arguments are valid").attacks();
        assert_eq!(attacks("--attack frames,none"), [Attack::Frames, Attack::None]);
        assert_eq!(attacks("--attack all").len(), Attack::iter().len() - 2, "without controls");
        let any = [Attack::Frames, Attack::Headers, Attack::Handshakes, Attack::Fragments];
        assert_eq!(attacks("--attack all --target plain"), any);
        for bad in
            ["", "--attack", "--attack dance", "--attack frames,frames", "--attack frames --duration 0s"]
        {
            assert!(abuse(bad.trim()).is_err(), "{bad}");
        }
    }

    #[test]
    fn attacks_that_a_target_does_not_support_are_refused() {
        for (words, is_refused) in [
            ("--attack history", false),
            ("--attack history --target plain", true),
            ("--attack frames,history --target plain", true),
            ("--attack headers --target plain", false),
            ("--attack frames --kind pings --target plain", false),
            ("--attack frames --kind acks --target plain", true),
            ("--attack headers --kind acks", true),
        ] {
            let scenario = ScenarioOptions::Abuse(abuse(words).expect("the arguments are valid"));
            assert_eq!(!scenario.problems().is_empty(), is_refused, "{words}");
        }
    }

    #[test]
    fn kinds_of_frames_take_turns() {
        let kinds = |target| [0, 1, 2, 3, 4].map(|index| <&str>::from(FrameKind::rotating(index, target)));
        assert_eq!(kinds(Target::Encke), ["acks", "pongs", "pings", "fragments", "acks"]);
        assert_eq!(kinds(Target::Plain), ["pongs", "pings", "fragments", "pongs", "pings"]);
    }
}
