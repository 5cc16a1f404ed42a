//! Options of `mix`: several scenarios that run simultaneously.

use std::time::Duration;

use clap::Args as ClapArgs;

use super::load::{Load, ServerOptions};
use super::plan::{PhaseKind, Plan, PlannedPhase};

#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct MixOptions {
    #[command(flatten)]
    pub(crate) server: ServerOptions,
    /// TOML file with the plan; --help-all shows an example
    #[arg(long, value_name = "FILE", value_parser = Plan::from_file)]
    pub(crate) plan: Plan,
}

impl MixOptions {
    /// Returns the load. Its connections are the sum over all phases, although not all of them are open
    /// simultaneously.
    pub(super) fn load(&self) -> Load {
        let runs = self.plan.phases.iter().flat_map(|phase| &phase.runs);
        let connections = runs.fold(0, |sum: u32, run| sum.saturating_add(run.scenario.load().connections));
        let duration = self.plan.phases.iter().map(|phase| phase.duration).sum::<Duration>();
        Load::new(&self.server, connections, 0.0, duration)
    }

    /// Returns the maximum number of sockets open simultaneously: the sockets of all ramps so far, plus the
    /// sockets of the current phase.
    pub(super) fn sockets(&self) -> u32 {
        let of = |phase: &PlannedPhase| {
            phase.runs.iter().fold(0, |sum: u32, run| sum.saturating_add(run.scenario.sockets()))
        };
        let (mut staying, mut most) = (0_u32, 0);
        for phase in &self.plan.phases {
            match phase.kind {
                PhaseKind::Ramp => staying = staying.saturating_add(of(phase)),
                PhaseKind::Hold | PhaseKind::Spike | PhaseKind::Soak => {
                    most = most.max(of(phase).saturating_add(staying))
                }
            }
        }
        most.max(staying)
    }
}
