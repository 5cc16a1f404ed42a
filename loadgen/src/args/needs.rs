//! Requirements of the scenarios on a server, checked before anything runs.

use super::load::ServerOptions;
use super::plan::Plan;
use super::{Attack, Load, Omission, ScenarioOptions};
use crate::client::is_token;
use crate::target::{Ability, Target};

impl ScenarioOptions {
    /// Describes what makes the run impossible or pointless: options that the target does not support, or a
    /// run that could show nothing. Empty if there are no problems.
    pub(crate) fn problems(&self) -> Vec<String> {
        let Load { server, .. } = self.load();
        let (target, schemes) = (server.target.name(), server.target.schemes());
        if !schemes.contains(&server.url.scheme()) {
            let scheme = schemes[0];
            return vec![format!(
                "--target {target} requires a URL with {scheme}://, not {}",
                server.url.as_str()
            )];
        }
        if server.token.as_ref().is_some_and(|token| !is_token(token)) {
            return vec!["--token: contains characters that are not allowed in a token".to_owned()];
        }
        if server.ext_ack && server.target != Target::Bayeux {
            return vec![format!("--ext-ack requires --target bayeux, not {target}")];
        }
        match self {
            Self::Expire(expire) if expire.without == Omission::Upgrade && expire.code.is_some() => {
                vec!["--code: there are no close codes before the upgrade".to_owned()]
            }
            Self::Mix(mix) => problems_of_plan(&mix.plan, &server),
            _ => self.unmet_need(&server).or_else(|| self.vacuous()).into_iter().collect(),
        }
    }

    /// Describes the first requirement that the server does not meet.
    fn unmet_need(&self, server: &ServerOptions) -> Option<String> {
        let is_met = |need: &Ability| match need {
            Ability::AnnouncesPongTimeout if server.pong_timeout.is_some() => true,
            Ability::AnnouncesWindow if server.reconnect_window.is_some() => true,
            _ => server.target.can(*need),
        };
        let need = self.needs().iter().find(|need| !is_met(need))?;
        Some(format!(
            "{} needs {need}, which --target {} does not support",
            self.name(),
            server.target.name()
        ))
    }

    fn needs(&self) -> &'static [Ability] {
        use Ability::{
            Acks, AnnouncesPongTimeout, AnnouncesWindow, AnswersPings, Channels, Heartbeat, JsonFrames,
            Pushes, ReportsRecovered, Resume, TakeOver,
        };
        match self {
            Self::Hold(hold) if hold.ping_every.is_some() => &[AnswersPings],
            Self::Hold(_) | Self::Expire(_) | Self::Churn(_) | Self::Mix(_) => &[],
            Self::Mute(_) | Self::Late(_) => &[Heartbeat, AnnouncesPongTimeout],
            Self::Storm(_) => &[Resume],
            Self::Takeover(_) => &[Resume, TakeOver],
            Self::Vanish(_) => &[Resume, ReportsRecovered, AnnouncesWindow],
            Self::Fanout(fanout) if fanout.channel_load.ack_every > 0 => &[Channels, Acks],
            Self::Fanout(_) => &[Channels],
            Self::Slow(_) => &[Channels, Pushes],
            Self::Resume(resume) if resume.channel_load.ack_every > 0 => {
                &[Channels, Acks, Resume, ReportsRecovered, AnnouncesWindow]
            }
            Self::Resume(_) => &[Channels, Resume, ReportsRecovered, AnnouncesWindow],
            Self::Restart(_) => &[JsonFrames],
            Self::Abuse(abuse) if abuse.attacks().into_iter().any(Attack::speaks_encke) => &[JsonFrames],
            Self::Abuse(_) => &[AnswersPings],
        }
    }
}

fn problems_of_plan(plan: &Plan, server: &ServerOptions) -> Vec<String> {
    let runs = plan.phases.iter().flat_map(|phase| phase.runs.iter().map(move |run| (phase, run)));
    let missing = runs.filter_map(|(phase, run)| {
        let what = run.scenario.unmet_need(server).or_else(|| run.scenario.vacuous())?;
        Some(format!("phase {:?}, run {:?}: {what}", phase.name, run.name))
    });
    missing.collect()
}
