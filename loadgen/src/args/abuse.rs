//! Options of `abuse`: attacks on the server, each while one well-behaved session is measured.

use std::str::FromStr;
use std::time::Duration;

use clap::{Args as ClapArgs, ValueEnum};
use encke_client::Target;
use strum::{EnumIter, EnumString, IntoEnumIterator, IntoStaticStr};

use super::load::{Load, ServerOptions};
use super::number::{parse_interval, parse_rate};

#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct AbuseOptions {
    #[command(flatten)]
    pub(super) server: ServerOptions,
    /// Attacks to run one after the other, separated by commas: frames, publishes, channels, suspended,
    /// headers, handshakes, resume, history, presence, joins, tokens, fragments, slowread, events; or
    /// all
    ///
    /// Controls: none (sends nothing), burn (sends nothing, but spends CPU time in the attacker).
    #[arg(long, value_name = "NAMES")]
    attack: AttackSelection,
    /// Number of connections of the attacker [default: depends on the attack, from 1 to 5000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    connections: Option<u32>,
    /// Duration of each attack
    #[arg(long, value_name = "D", default_value = "10s", value_parser = parse_interval)]
    pub(crate) duration: Duration,
    /// How long the healthy session is measured before each attack, and again after it
    #[arg(long, value_name = "D", default_value = "3s", value_parser = parse_interval, hide_short_help = true)]
    pub(crate) quiet_for: Duration,
    /// Messages per second that the healthy session publishes; latency counts from the time at which each
    /// message is due
    #[arg(long, value_name = "R", default_value = "20", value_parser = parse_rate, hide_short_help = true)]
    rate: f64,
    /// Kind of frame that the attack `frames` sends [default: each connection sends one kind, in rotation]
    #[arg(long, value_enum, hide_short_help = true)]
    pub(crate) kind: Option<FrameKind>,
    /// Confirm that the owner of a remote server has agreed to the attack
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
    Presence,
    Joins,
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

/// Selected attacks. Empty: all that the target understands.
#[derive(Clone, Debug)]
struct AttackSelection(Vec<Attack>);

impl FromStr for AttackSelection {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut attacks = Vec::new();
        for name in text.split(',').filter(|_| text != "all") {
            let attack = name.parse().map_err(|_| format!("unknown attack {name:?}"))?;
            if attacks.contains(&attack) {
                return Err(format!("{name:?} is listed twice"));
            }
            attacks.push(attack);
        }
        Ok(Self(attacks))
    }
}

impl Attack {
    pub(crate) fn name(self) -> &'static str {
        self.into()
    }

    /// Returns the default number of connections that are open simultaneously, and whether the attack speaks
    /// Encke's dialect. The others work against any WebSocket server.
    fn properties(self) -> (u32, bool) {
        match self {
            Self::None | Self::Burn => (1, false),
            Self::History => (10, true),
            Self::Publishes | Self::Channels => (20, true),
            Self::Suspended | Self::Resume | Self::Presence | Self::Joins | Self::Tokens | Self::Events => {
                (50, true)
            }
            Self::Frames => (300, false),
            Self::Slowread => (500, true),
            Self::Fragments => (1_200, false),
            Self::Headers => (2_000, false),
            Self::Handshakes => (5_000, false),
        }
    }

    pub(super) fn speaks_encke(self) -> bool {
        self.properties().1
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
        let AttackSelection(selected) = &self.attack;
        let is_encke = self.server.target == Target::Encke;
        let all = Attack::iter().filter(|attack| ![Attack::None, Attack::Burn].contains(attack));
        let all = all.filter(|attack| is_encke || !attack.speaks_encke());
        if selected.is_empty() { all.collect() } else { selected.clone() }
    }

    pub(crate) fn connections(&self, attack: Attack) -> u32 {
        self.connections.unwrap_or_else(|| attack.properties().0)
    }

    /// Returns the load of the attack with the most connections. The rate is the healthy session's message
    /// rate.
    pub(super) fn load(&self) -> Load {
        let connections = self.attacks().into_iter().map(|attack| self.connections(attack)).max();
        Load::new(&self.server, connections.unwrap_or(1), self.rate, self.duration)
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
    use super::*;
    use crate::args::ScenarioOptions;
    use crate::args::tests::scenario;

    #[test]
    fn attacks_have_names() {
        let attacks = |words| match scenario(&format!("abuse ws://h/ws --attack {words}")) {
            Ok(ScenarioOptions::Abuse(abuse)) => Some(abuse.attacks()),
            _ => None,
        };
        assert_eq!(attacks("frames,none"), Some(vec![Attack::Frames, Attack::None]));
        assert_eq!(attacks("all").map(|all| all.len()), Some(Attack::iter().len() - 2), "without controls");
        let any = vec![Attack::Frames, Attack::Headers, Attack::Handshakes, Attack::Fragments];
        assert_eq!(attacks("all --target plain"), Some(any));
        for bad in ["", "dance", "frames,frames", "frames --duration 0s"] {
            assert_eq!(attacks(bad), None, "{bad}");
        }
    }

    #[test]
    fn kinds_of_frames_take_turns() {
        let kinds = |target| [0, 1, 2, 3, 4].map(|index| <&str>::from(FrameKind::rotating(index, target)));
        assert_eq!(kinds(Target::Encke), ["acks", "pongs", "pings", "fragments", "acks"]);
        assert_eq!(kinds(Target::Plain), ["pongs", "pings", "fragments", "pongs", "pings"]);
    }
}
