//! What scenarios need of a server, looked at before anything is run.

use super::load::Server;
use super::{Load, Scenario};
use crate::target::{Ability, Scheme};

impl Scenario {
    /// Whether the target can do what is asked for. Otherwise what it can not, with the names of both.
    pub(crate) fn check(&self) -> Result<(), String> {
        let Load { server, .. } = self.load();
        let target = server.target.name();
        let scheme = match server.target.scheme() {
            Scheme::Ws => "ws",
            Scheme::Http => "http",
        };
        if server.url.scheme() != server.target.scheme() {
            return Err(format!("--target {target} wants a {scheme}:// URL, not {}", server.url.as_str()));
        }
        self.check_needs(&server)
    }

    fn check_needs(&self, server: &Server) -> Result<(), String> {
        if let Self::Mix(mix) = self {
            let mut runs = mix.plan.phases.iter().flat_map(|phase| &phase.runs);
            return runs.try_for_each(|run| run.scenario.check_needs(server));
        }
        for need in self.needs() {
            let is_told = match need {
                Ability::TellsPongTimeout => server.pong_timeout.is_some(),
                Ability::TellsWindow => server.reconnect_window.is_some(),
                _ => false,
            };
            if !is_told && !server.target.can(need) {
                let (scenario, target) = (self.name(), server.target.name());
                return Err(format!("{scenario} needs {need}, which --target {target} has not"));
            }
        }
        Ok(())
    }

    fn needs(&self) -> Vec<Ability> {
        use Ability::{
            AnswersPings, Channels, Heartbeat, Resume, TellsPongTimeout, TellsRecovered, TellsWindow,
        };
        match self {
            Self::Hold(hold) if hold.ping_every.is_some() => vec![AnswersPings],
            Self::Hold(_) | Self::Churn(_) | Self::Mix(_) => vec![],
            Self::Mute(_) | Self::Late(_) => vec![Heartbeat, TellsPongTimeout],
            Self::Storm(_) => vec![Resume],
            Self::Takeover(_) => vec![Resume, TellsRecovered],
            Self::Vanish(_) => vec![Resume, TellsRecovered, TellsWindow],
            Self::Fanout(_) | Self::Slow(_) => vec![Channels],
            Self::Resume(_) => vec![Channels, Resume, TellsRecovered, TellsWindow],
        }
    }
}
