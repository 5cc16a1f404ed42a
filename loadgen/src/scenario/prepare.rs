//! From what was asked for to what is run.

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
    /// What was asked for, to begin its result with.
    pub(crate) header: Group,
    pub(crate) scenario: Rc<dyn Scenario>,
}

pub(crate) fn prepare(options: &args::Scenario) -> Prepared {
    let load = options.load();
    let (settings, scenario) = specific(options, &load);
    let header = Group::default()
        .with("connections", u64::from(load.connections))
        .with("rate", load.rate)
        .and(settings);
    Prepared { name: options.name(), load, header, scenario }
}

/// What each has beside the rest.
fn specific(options: &args::Scenario, load: &Load) -> (Group, Rc<dyn Scenario>) {
    let held = || {
        Group::default()
            .with("duration_seconds", seconds(load.duration))
            .with("connect_timeout_seconds", seconds(load.server.connect_timeout))
    };
    match options.clone() {
        args::Scenario::Hold(it) => (
            held().with("ping_every_seconds", it.ping_every.map(seconds)),
            Rc::new(Hold::new(it.ping_every, load.server.target)),
        ),
        args::Scenario::Storm(_) => (held(), Rc::<Storm>::default()),
        args::Scenario::Mute(it) => (held().with("share", it.share), Rc::new(Mute::new(it.share))),
        args::Scenario::Late(it) => {
            (held().with("margin_seconds", seconds(it.margin)), Rc::new(Late::new(it.margin)))
        }
        args::Scenario::Vanish(it) => (
            held().with("kill", <&str>::from(it.kill)).with("margin_seconds", seconds(it.margin)),
            Rc::new(Vanish::new(it.kill, it.margin)),
        ),
        args::Scenario::Takeover(it) => {
            (held().with("code", u64::from(it.code())), Rc::new(Takeover::new(it.code())))
        }
        args::Scenario::Expire(it) => (
            held()
                .with("after_seconds", seconds(it.after))
                .with("code", it.code.map(u64::from))
                .with("without", <&str>::from(it.without)),
            Rc::new(Expire::new(it)),
        ),
        args::Scenario::Churn(it) => (
            held().with("lifetime", it.lifetime.to_string().as_str()).with("seed", it.seed),
            Rc::new(Churn::new(&it)),
        ),
        args::Scenario::Fanout(it) => (
            it.channel_load.settings().with("cut_after_seconds", it.cut_after.map(seconds)),
            Rc::new(Fanout::new(it)),
        ),
        args::Scenario::Resume(it) => (
            it.channel_load
                .settings()
                .with("cuts", u64::from(it.cuts))
                .with("away_seconds", seconds(it.away))
                .with("outside", it.outside)
                .with("margin_seconds", seconds(it.margin))
                .with("seed", it.seed),
            Rc::new(Resume::new(it)),
        ),
        args::Scenario::Restart(it) => (it.settings(), Rc::new(Restart::new(it))),
        args::Scenario::Abuse(it) => {
            (held().with("quiet_for_seconds", seconds(it.quiet_for)), Rc::new(Abuse::new(it)))
        }
        args::Scenario::Mix(it) => {
            (Group::default().with("duration_seconds", seconds(load.duration)), Rc::new(Mix::new(&it)))
        }
        args::Scenario::Slow(it) => (
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
