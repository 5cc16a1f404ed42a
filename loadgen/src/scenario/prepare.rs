//! Creates scenarios from their command line options.

use std::rc::Rc;

use super::Scenario;
use super::abuse::Abuse;
use super::churn::Churn;
use super::expire::Expire;
use super::fanout::Fanout;
use super::hold::Hold;
use super::late::Late;
use super::mix::Mix;
use super::mute::Mute;
use super::restart::Restart;
use super::resume::Resume;
use super::slow::Slow;
use super::storm::Storm;
use super::takeover::Takeover;
use super::vanish::Vanish;
use crate::args::{self, Load};
use crate::result::{Group, seconds};

/// A scenario that is ready to run.
pub(crate) struct Prepared {
    pub(crate) name: &'static str,
    pub(crate) load: Load,
    /// Options of the run, shown at the beginning of its result.
    pub(crate) header: Group,
    pub(crate) scenario: Rc<dyn Scenario>,
}

pub(crate) fn prepare(options: &args::ScenarioOptions) -> Prepared {
    let load = options.load();
    let (settings, scenario) = settings_and_scenario(options, &load);
    let header = Group::default()
        .with("connections", u64::from(load.connections))
        .with("rate", load.rate)
        .and(settings);
    Prepared { name: options.name(), load, header, scenario }
}

/// Returns the settings and the scenario of a subcommand.
fn settings_and_scenario(options: &args::ScenarioOptions, load: &Load) -> (Group, Rc<dyn Scenario>) {
    let held = || {
        Group::default()
            .with("duration_seconds", seconds(load.duration))
            .with("connect_timeout_seconds", seconds(load.server.connect_timeout))
    };
    match options.clone() {
        args::ScenarioOptions::Hold(it) => (
            held().with("ping_every_seconds", it.ping_every.map(seconds)),
            Rc::new(Hold::new(it.ping_every, load.server.target)),
        ),
        args::ScenarioOptions::Storm(_) => (held(), Rc::<Storm>::default()),
        args::ScenarioOptions::Mute(it) => (held().with("share", it.share), Rc::new(Mute::new(it.share))),
        args::ScenarioOptions::Late(it) => {
            (held().with("margin_seconds", seconds(it.margin)), Rc::new(Late::new(it.margin)))
        }
        args::ScenarioOptions::Vanish(it) => (
            held().with("kill", <&str>::from(it.kill)).with("margin_seconds", seconds(it.margin)),
            Rc::new(Vanish::new(it.kill, it.margin)),
        ),
        args::ScenarioOptions::Takeover(it) => {
            (held().with("code", u64::from(it.code())), Rc::new(Takeover::new(it.code())))
        }
        args::ScenarioOptions::Expire(it) => (
            held()
                .with("after_seconds", seconds(it.after))
                .with("code", it.code.map(u64::from))
                .with("without", <&str>::from(it.without)),
            Rc::new(Expire::new(it)),
        ),
        args::ScenarioOptions::Churn(it) => (
            held().with("lifetime", it.lifetime.to_string().as_str()).with("seed", it.seed),
            Rc::new(Churn::new(&it)),
        ),
        args::ScenarioOptions::Fanout(it) => (
            it.channel_load.settings().with("cut_after_seconds", it.cut_after.map(seconds)),
            Rc::new(Fanout::new(it)),
        ),
        args::ScenarioOptions::Resume(it) => (
            it.channel_load
                .settings()
                .with("cuts", u64::from(it.cuts))
                .with("away_seconds", seconds(it.away))
                .with("outside", it.outside)
                .with("margin_seconds", seconds(it.margin))
                .with("seed", it.seed),
            Rc::new(Resume::new(it)),
        ),
        args::ScenarioOptions::Restart(it) => (it.settings(), Rc::new(Restart::new(it))),
        args::ScenarioOptions::Abuse(it) => {
            (held().with("quiet_for_seconds", seconds(it.quiet_for)), Rc::new(Abuse::new(it)))
        }
        args::ScenarioOptions::Mix(it) => {
            (Group::default().with("duration_seconds", seconds(load.duration)), Rc::new(Mix::new(&it)))
        }
        args::ScenarioOptions::Slow(it) => (
            it.channel_load
                .settings()
                .with("share", it.share)
                .with("read_rate", u64::from(it.read_rate))
                .with("read_every_seconds", seconds(it.read_every))
                .with("slow_for_seconds", seconds(it.slow_for)),
            Rc::new(Slow::new(it)),
        ),
    }
}
