//! Attacks on the server, each beside one session that does nothing wrong.

use std::str::FromStr;
use std::time::Duration;

use clap::{Args as ClapArgs, ValueEnum};
use strum::{EnumIter, EnumString, IntoEnumIterator, IntoStaticStr};

use super::load::{Load, Server};
use super::number::{parse_interval, parse_rate};
use crate::target::Target;

#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct Abuse {
    #[command(flatten)]
    server: Server,
    /// The attacks, one after the other, with commas between: frames, publishes, channels, suspended, headers, handshakes, resume,
    /// history, tokens, fragments, slowread, events; all of these; or none, or burn (nothing is sent; the attacker spends CPU time)
    #[arg(long, value_name = "NAMES")]
    attack: AttackNames,
    /// How many connections the attacker has at once; by default what suits the attack
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    connections: Option<u32>,
    /// How long each attack takes
    #[arg(long, value_name = "D", default_value = "10s", value_parser = parse_interval)]
    pub(crate) duration: Duration,
    /// How long the healthy session is measured before the attack, and, as long again, after it
    #[arg(long, value_name = "D", default_value = "3s", value_parser = parse_interval)]
    pub(crate) quiet_for: Duration,
    /// How many messages the healthy session publishes a second; latencies count from the instant at which each was due
    #[arg(long, value_name = "R", default_value = "20", value_parser = parse_rate)]
    rate: f64,
    /// Which frames the attack of this name sends; without it each connection sends one kind in turn
    #[arg(long, value_enum)]
    pub(crate) kind: Option<FrameKind>,
    /// The server is not on this machine, and its owner agrees
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
    /// Nothing is done: a control.
    None,
    /// Nothing is sent, but as much CPU time is spent as there is: another control.
    Burn,
}

/// Frames that ask a server for next to nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumIter, IntoStaticStr, ValueEnum)]
#[strum(serialize_all = "lowercase")]
pub(crate) enum FrameKind {
    /// Acknowledgements of nothing
    Acks,
    /// Answers to pings that never came
    Pongs,
    /// Pings, each of which the server has to answer
    Pings,
    /// Empty pieces of a message that never ends
    Fragments,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum AttackNames {
    All,
    These(Vec<Attack>),
}

impl FromStr for AttackNames {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "all" {
            return Ok(Self::All);
        }
        let mut attacks = Vec::new();
        for name in text.split(',') {
            let attack = name.parse().map_err(|_| format!("there is no attack {name:?}"))?;
            if attacks.contains(&attack) {
                return Err(format!("{name:?} is there twice"));
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

    /// Whether it speaks Encke's dialect. The others are for any server of WebSockets.
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

    /// How many connections it has at once, if nobody says so.
    fn usual_connections(self) -> u32 {
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
    /// The kind that this connection of the attacker sends, where it sends one kind in turn.
    pub(crate) fn in_turn(index: u32, target: Target) -> Self {
        let kinds = Self::iter().filter(|kind| kind.is_for(target));
        let kinds: Vec<_> = kinds.collect();
        kinds[index as usize % kinds.len()]
    }

    pub(super) fn is_for(self, target: Target) -> bool {
        target == Target::Encke || self != Self::Acks
    }
}

impl Abuse {
    /// Those that were asked for; all are those that the target understands.
    pub(crate) fn attacks(&self) -> Vec<Attack> {
        let target = self.server.target;
        let all = || Attack::iter().filter(|attack| !attack.is_control());
        match &self.attack {
            AttackNames::All => all().filter(|it| target == Target::Encke || !it.speaks_encke()).collect(),
            AttackNames::These(attacks) => attacks.clone(),
        }
    }

    pub(crate) fn connections(&self, attack: Attack) -> u32 {
        self.connections.unwrap_or_else(|| attack.usual_connections())
    }

    /// The connections of the largest attack. The rate is that of the healthy session's messages.
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

    /// What is asked for and makes no sense.
    pub(super) fn contradiction(&self) -> Option<String> {
        let (target, attacks) = (self.server.target, self.attacks());
        match self.kind {
            Some(_) if !attacks.contains(&Attack::Frames) => {
                Some("--kind is for the attack frames".to_owned())
            }
            Some(kind) if !kind.is_for(target) => {
                Some(format!("--kind {}: --target {} has no such frames", <&str>::from(kind), target.name()))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::{Args, Command, Scenario};

    fn abuse(words: &str) -> Result<Abuse, clap::Error> {
        let words = format!("loadgen abuse ws://127.0.0.1:1/ws {words}");
        match Args::try_parse_from(words.split(' '))?.command {
            Command::Run(Scenario::Abuse(abuse)) => Ok(abuse),
            _ => panic!("it is abuse"),
        }
    }

    #[test]
    fn attacks_have_names() {
        let attacks = |words| abuse(words).expect("the words are good").attacks();
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
    fn what_a_target_does_not_know_is_refused() {
        for (words, is_refused) in [
            ("--attack history", false),
            ("--attack history --target plain", true),
            ("--attack frames,history --target plain", true),
            ("--attack headers --target plain", false),
            ("--attack frames --kind pings --target plain", false),
            ("--attack frames --kind acks --target plain", true),
            ("--attack headers --kind acks", true),
        ] {
            let scenario = Scenario::Abuse(abuse(words).expect("the words are good"));
            assert_eq!(!scenario.unsupported().is_empty(), is_refused, "{words}");
        }
    }

    #[test]
    fn kinds_of_frames_take_turns() {
        let kinds = |target| [0, 1, 2, 3, 4].map(|index| <&str>::from(FrameKind::in_turn(index, target)));
        assert_eq!(kinds(Target::Encke), ["acks", "pongs", "pings", "fragments", "acks"]);
        assert_eq!(kinds(Target::Plain), ["pongs", "pings", "fragments", "pongs", "pings"]);
    }
}
