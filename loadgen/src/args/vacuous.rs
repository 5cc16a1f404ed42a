//! Detects runs that could show nothing, regardless of what the server does.

use std::time::Duration;

use super::{Load, ScenarioOptions, WorkerId};

impl ScenarioOptions {
    /// Returns why the run could show nothing regardless of the server, if there is such a reason.
    pub(super) fn vacuous(&self) -> Option<String> {
        match self {
            Self::Expire(expire) => {
                let Load { connections, rate, duration, .. } = self.load();
                let last_due = Duration::from_secs_f64(f64::from(connections - 1) / rate);
                (last_due + duration < expire.after).then(|| {
                    format!(
                        "--after {}: the run ends after {}, before any connection should be closed",
                        humantime::format_duration(expire.after),
                        humantime::format_duration(last_due + duration)
                    )
                })
            }
            Self::Mute(mute) => selects_nothing(&self.load(), mute.share, "mute"),
            Self::Abuse(abuse) => abuse.contradiction(),
            Self::Restart(restart) => restart.contradiction(),
            Self::Slow(slow) => selects_nothing(&self.load(), slow.share, "slow"),
            _ => None,
        }
    }
}

/// Returns an error if the share selects no connection at all. Each process rounds its own share down.
fn selects_nothing(load: &Load, share: f64, what: &str) -> Option<String> {
    let processes = load.server.workers.processes;
    let is_none = |part: Load| f64::from(part.connections) * share < 1.0;
    let is_vacuous = WorkerId::all(processes).into_iter().all(|worker| is_none(worker.share(load)));
    let each = if processes > 1 { " in any process" } else { "" };
    is_vacuous.then(|| {
        format!("--share {share}: none of the {} connections would be {what}{each}", load.connections)
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use crate::args::{LoadgenArgs, LoadgenCommand};

    #[test]
    fn vacuous_runs_are_detected() {
        for (words, is_vacuous) in [
            ("expire ws://h/ws --connections 2 --rate 10 --duration 1s --after 60s", true),
            ("expire ws://h/ws --connections 601 --rate 10 --duration 1s --after 60s", false),
            ("expire ws://h/ws --connections 2 --rate 10 --duration 1s --after 1s", false),
            ("mute ws://h/ws --connections 1 --rate 10 --duration 1s --share 0.5", true),
            ("mute ws://h/ws --connections 2 --rate 10 --duration 1s --share 0.5", false),
            ("mute ws://h/ws --connections 2 --rate 10 --duration 1s --share 0.5 --processes 2", true),
            ("mute ws://h/ws --connections 3 --rate 10 --duration 1s --share 0.5 --processes 2", false),
            ("restart ws://h/ws --restart true --messages 10 --publish-rate 10 --restart-after 1s", true),
            ("restart ws://h/ws --restart true --messages 11 --publish-rate 10 --restart-after 1s", false),
            ("slow ws://h/ws --connections 9", true),
            ("slow ws://h/ws --connections 10", false),
        ] {
            let words = format!("loadgen {words}");
            let command =
                LoadgenArgs::try_parse_from(words.split(' ')).expect("the arguments are valid").command;
            let LoadgenCommand::Run(scenario) = command else { panic!("expected a scenario") };
            assert_eq!(!scenario.problems().is_empty(), is_vacuous, "{words}: {:?}", scenario.problems());
        }
    }
}
