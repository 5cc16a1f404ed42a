//! Detects runs that are impossible or pointless, before anything runs.

use encke_client::{Target, is_token};

use super::load::ServerOptions;
use super::plan::Plan;
use super::{Attack, Load, MuteOptions, ScenarioOptions, Share};

impl ScenarioOptions {
    /// Describes what makes the run impossible or pointless: options that the target does not support, or a
    /// run that could show nothing. Empty if there are no problems.
    pub(crate) fn problems(&self) -> Vec<String> {
        let Load { server, .. } = self.load();
        let (target, schemes) = (server.target.name(), server.target.schemes());
        if !schemes.contains(&server.url.scheme()) {
            let scheme = schemes[0];
            let url = server.url.uri;
            return vec![format!("--target {target} requires a URL with {scheme}://, not {url}")];
        }
        if server.token.as_ref().is_some_and(|token| !is_token(token)) {
            return vec!["--token: contains characters that are not allowed in a token".to_owned()];
        }
        if server.ext_ack && server.target != Target::Bayeux {
            return vec![format!("--ext-ack requires --target bayeux, not {target}")];
        }
        if server.threads.is_some() && !self.runs_on_threads() {
            return vec![format!("--threads: {} runs on one thread", self.name())];
        }
        let (cost, tls) = (&server.cost, &server.cost.tls);
        if !server.url.is_tls && !cost.admin.as_ref().is_some_and(|url| url.0.is_tls) {
            if tls.ca.is_some() || tls.insecure {
                return vec!["--ca and --insecure require a URL with wss:// or https://".to_owned()];
            }
        } else if let Err(why) = tls.client_config() {
            return vec![why];
        }
        match self {
            Self::Mix(mix) => problems_of_plan(&mix.plan, &server),
            _ => self.unmet_need(&server).or_else(|| self.vacuous()).into_iter().collect(),
        }
    }

    /// Describes the first feature that the scenario needs and the target does not support.
    fn unmet_need(&self, server: &ServerOptions) -> Option<String> {
        let target = server.target;
        let is_encke = target == Target::Encke;
        // A server of event streams that does not know an event id may respond with 204, or start over without
        // notice. With polls, a response without messages is the heartbeat, and the only answer to it is the next
        // poll.
        let (pings, resumes) = (matches!(target, Target::Encke | Target::Plain), target != Target::Plain);
        let has_channels = is_encke || target.polls();
        let has_pong_timeout = is_encke || server.pong_timeout.is_some();
        let needs: &[(bool, &str)] = match self {
            Self::Hold(hold) => &[(pings || hold.ping_every.is_none(), "answers to pings")],
            Self::Churn(_) | Self::Mix(_) => &[],
            Self::Mute(_) => &[
                (pings, "pings that require an answer"),
                (has_pong_timeout, "an announced pong timeout (or --pong-timeout)"),
            ],
            Self::Storm(_) => &[(resumes, "resuming sessions")],
            Self::Fanout(fanout) => &[
                (has_channels, "channels"),
                (
                    is_encke || fanout.channel_load.ack_every == 0,
                    "acknowledgement commands (a poll acknowledges implicitly)",
                ),
            ],
            Self::Nodes(_) => {
                &[(is_encke || target == Target::Poll, "the json dialect over WebSocket or polls")]
            }
            Self::Abuse(abuse) if !abuse.attacks().into_iter().any(Attack::speaks_encke) => {
                &[(pings, "answers to pings")]
            }
            Self::Restart(_) | Self::Abuse(_) => &[(is_encke, "the json dialect over WebSocket")],
        };
        let (_, need) = needs.iter().find(|(is_met, _)| !is_met)?;
        Some(format!("{} needs {need}, which --target {} does not support", self.name(), target.name()))
    }

    /// If no server can give a meaningful result in this run, returns the cause.
    fn vacuous(&self) -> Option<String> {
        match self {
            Self::Mute(mute) => self.selects_nothing(mute),
            Self::Abuse(abuse) => abuse.contradiction(),
            Self::Restart(restart) => restart.contradiction(),
            Self::Nodes(nodes) => nodes.contradiction(),
            _ => None,
        }
    }

    /// Returns an error if the share selects no connection at all. Each thread rounds its own share down.
    fn selects_nothing(&self, MuteOptions { share, .. }: &MuteOptions) -> Option<String> {
        let load = self.load();
        let is_none = |part: Load| f64::from(part.connections) * share < 1.0;
        let is_vacuous = Share::all(self.threads()).into_iter().all(|part| is_none(part.of(&load)));
        let connections = load.connections;
        is_vacuous.then(|| format!("--share {share}: none of the {connections} connections would be mute"))
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

#[cfg(test)]
mod tests {
    use crate::args::tests::scenario;

    #[test]
    fn impossible_and_vacuous_runs_are_refused() {
        for (words, is_refused) in [
            ("mute ws://h/ws --connections 1 --share 0.5 --threads 1", true),
            ("mute ws://h/ws --connections 2 --share 0.5 --threads 1", false),
            ("mute ws://h/ws --connections 2 --share 0.5 --threads 2", true),
            ("mute ws://h/ws --connections 3 --share 0.5 --threads 2", false),
            ("restart ws://h/ws --restart true --messages 10 --publish-rate 10 --restart-after 1s", true),
            ("restart ws://h/ws --restart true --messages 11 --publish-rate 10 --restart-after 1s", false),
            ("nodes ws://a/ws --other-nodes ws://b/ws,ws://c/ws", false),
            ("nodes ws://a/ws --other-nodes wss://b/ws", true),
            ("nodes http://a/poll --target poll --other-nodes http://b/poll", false),
            ("nodes http://a/poll --target poll --other-nodes ws://b/ws", true),
            ("nodes http://a/events --target sse --other-nodes http://b/events", true),
            ("nodes ws://a/ws --other-nodes ws://b/ws --publish-rate 1 --duration 9s", true),
            ("nodes ws://a/ws --other-nodes ws://b/ws --publish-rate 1 --duration 10s", false),
            ("fanout ws://h/ws --threads 2", true),
            ("hold ws://h/ws --insecure", true),
            ("hold wss://h/ws --insecure", false),
            ("hold wss://h/ws --ca /", true),
            ("abuse ws://h/ws --attack history", false),
            ("abuse ws://h/ws --attack history --target plain", true),
            ("abuse ws://h/ws --attack frames,history --target plain", true),
            ("abuse ws://h/ws --attack headers --target plain", false),
            ("abuse ws://h/ws --attack frames --kind pings --target plain", false),
            ("abuse ws://h/ws --attack frames --kind acks --target plain", true),
            ("abuse ws://h/ws --attack headers --kind acks", true),
        ] {
            let problems = scenario(words).expect("the arguments are valid").problems();
            assert_eq!(!problems.is_empty(), is_refused, "{words}: {problems:?}");
        }
    }
}
