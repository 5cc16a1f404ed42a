//! What scenarios need of a server, looked at before anything is run.

use super::load::Server;
use super::plan::Plan;
use super::{Attack, Load, Omission, Scenario};
use crate::target::{Ability, Target};

impl Scenario {
    /// What is asked for and the target cannot do, or could show nothing: nothing, if all is well.
    pub(crate) fn unsupported(&self) -> Vec<String> {
        let Load { server, .. } = self.load();
        let (target, schemes) = (server.target.name(), server.target.schemes());
        if !schemes.contains(&server.url.scheme()) {
            let scheme = schemes[0];
            return vec![format!(
                "--target {target} wants a URL with {scheme}://, not {}",
                server.url.as_str()
            )];
        }
        if server.token.as_ref().is_some_and(|token| !token.is_token()) {
            return vec!["--token: it has characters that no token has".to_owned()];
        }
        if server.ext_ack && server.target != Target::Bayeux {
            return vec![format!("--ext-ack is of --target bayeux, not of {target}")];
        }
        match self {
            Self::Expire(expire) if expire.without == Omission::Upgrade && expire.code.is_some() => {
                vec!["--code: before the upgrade there are no close codes".to_owned()]
            }
            Self::Mix(mix) => missing_in(&mix.plan, &server),
            _ => self.missing(&server).or_else(|| self.vacuous()).into_iter().collect(),
        }
    }

    /// The first of its needs that the server does not meet.
    fn missing(&self, server: &Server) -> Option<String> {
        let is_met = |need: &Ability| match need {
            Ability::TellsPongTimeout if server.pong_timeout.is_some() => true,
            Ability::TellsWindow if server.reconnect_window.is_some() => true,
            _ => server.target.can(*need),
        };
        let need = self.needs().iter().find(|need| !is_met(need))?;
        Some(format!("{} needs {need}, which --target {} has not", self.name(), server.target.name()))
    }

    fn needs(&self) -> &'static [Ability] {
        use Ability::{
            Acks, AnswersPings, Channels, Heartbeat, JsonFrames, Pushes, Resume, TakeOver, TellsPongTimeout,
            TellsRecovered, TellsWindow,
        };
        match self {
            Self::Hold(hold) if hold.ping_every.is_some() => &[AnswersPings],
            Self::Hold(_) | Self::Expire(_) | Self::Churn(_) | Self::Mix(_) => &[],
            Self::Mute(_) | Self::Late(_) => &[Heartbeat, TellsPongTimeout],
            Self::Storm(_) => &[Resume],
            Self::Takeover(_) => &[Resume, TakeOver],
            Self::Vanish(_) => &[Resume, TellsRecovered, TellsWindow],
            Self::Fanout(fanout) if fanout.channel_load.ack_every > 0 => &[Channels, Acks],
            Self::Fanout(_) => &[Channels],
            Self::Slow(_) => &[Channels, Pushes],
            Self::Resume(resume) if resume.channel_load.ack_every > 0 => {
                &[Channels, Acks, Resume, TellsRecovered, TellsWindow]
            }
            Self::Resume(_) => &[Channels, Resume, TellsRecovered, TellsWindow],
            Self::Restart(_) => &[JsonFrames],
            Self::Abuse(abuse) if abuse.attacks().into_iter().any(Attack::speaks_encke) => &[JsonFrames],
            Self::Abuse(_) => &[AnswersPings],
        }
    }
}

fn missing_in(plan: &Plan, server: &Server) -> Vec<String> {
    let runs = plan.phases.iter().flat_map(|phase| phase.runs.iter().map(move |run| (phase, run)));
    let missing = runs.filter_map(|(phase, run)| {
        let what = run.scenario.missing(server).or_else(|| run.scenario.vacuous())?;
        Some(format!("phase {:?}, run {:?}: {what}", phase.name, run.name))
    });
    missing.collect()
}
