//! Several scenarios at once.

use std::time::Duration;

use clap::Args as ClapArgs;

use super::load::{Load, Server};
use super::plan::{Kind, Phase, Plan};

#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct Mix {
    #[command(flatten)]
    pub(crate) server: Server,
    /// The plan, a TOML file: see below
    #[arg(long, value_name = "FILE", value_parser = Plan::from_file)]
    pub(crate) plan: Plan,
}

impl Mix {
    /// All connections of all phases, though not all are there at once.
    pub(super) fn load(&self) -> Load {
        let runs = self.plan.phases.iter().flat_map(|phase| &phase.runs);
        let connections = runs.fold(0, |sum: u32, run| sum.saturating_add(run.scenario.load().connections));
        let duration = self.plan.phases.iter().map(|phase| phase.duration).sum::<Duration>();
        Load { server: self.server.clone(), connections, rate: 0.0, duration, first_due: Duration::ZERO }
    }

    /// The connections of all ramps, and the most that another phase adds.
    pub(super) fn sockets(&self) -> u32 {
        let of = |phase: &Phase| {
            phase.runs.iter().fold(0, |sum: u32, run| sum.saturating_add(run.scenario.sockets()))
        };
        let (mut staying, mut most) = (0_u32, 0);
        for phase in &self.plan.phases {
            match phase.kind {
                Kind::Ramp => staying = staying.saturating_add(of(phase)),
                Kind::Hold | Kind::Spike | Kind::Soak => most = most.max(of(phase).saturating_add(staying)),
            }
        }
        most.max(staying)
    }
}
