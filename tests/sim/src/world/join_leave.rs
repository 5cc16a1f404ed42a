//! Checks of the joins and leaves in the logs of channels: they describe the subscribers of each channel.

use std::collections::{BTreeMap, BTreeSet};

use encke_server::testing::simulation::SessionView;

use super::Simulation;
use crate::fault::Fault;
use crate::namespaces::rules_of;
use crate::notices::Notice;
use crate::outcome::Verdict;
use crate::scenario::MILLI;
use crate::truth::{LOGS, MAX_CHANNELS, Observed, name_of};

/// Faults that delay the publishing of joins and leaves. After a restart, the limits begin again.
const DELAYS: [Fault; 7] = [
    Fault::LateWheel,
    Fault::LateWorker,
    Fault::LateTask,
    Fault::LateEngine,
    Fault::SlowSteps,
    Fault::Stall,
    Fault::Restart,
];

/// The subscribers of a channel, according to the joins and leaves in its log.
#[derive(Clone, Debug, Default)]
pub(super) struct Roster {
    present: BTreeSet<String>,
    /// For each session: when it first joined, and how often it has joined.
    joins: BTreeMap<String, (u64, u64)>,
    /// Whether joins or leaves were missed.
    is_incomplete: bool,
}

impl Roster {
    /// Applies a notice. If `joins_per_minute` is not 0, the session must not have joined more often. The wheel
    /// announces a held join up to `tick_ms` after it is due, so the next join may follow up to `tick_ms` sooner.
    fn apply(&mut self, notice: Notice, joins_per_minute: u32, tick_ms: u64) -> Verdict {
        let Notice { session, has_left, at_ms, .. } = &notice;
        if *has_left {
            let was_present = self.present.remove(session);
            return was_present.then_some(()).ok_or_else(|| format!("{notice:?}, but it is not present"));
        }
        let (first, joins) = self.joins.entry(session.clone()).or_insert((*at_ms, 0));
        *joins += 1;
        let elapsed_ms = (at_ms + tick_ms).saturating_sub(*first);
        let allowed = u64::from(joins_per_minute) * (60_000 + elapsed_ms) / 60_000;
        if joins_per_minute > 0 && *joins > allowed {
            return Err(format!("{notice:?}, the {joins}th join since {first}"));
        }
        if !self.present.insert(notice.session.clone()) {
            return Err(format!("{notice:?}, but it is present"));
        }
        Ok(())
    }
}

impl Simulation {
    /// Observes all logs after a step in which the server may have published joins and leaves.
    pub(super) fn observe_notices(&mut self) {
        let namespaces = &self.scenario.config.channel.namespaces;
        if namespaces.iter().any(|namespace| namespace.rules.join_leave) {
            (0..LOGS).for_each(|log| self.record_published(log));
        }
    }

    pub(super) fn follow_joins_and_leaves(&mut self, log: usize, observed: Observed) {
        let is_late = DELAYS.iter().any(|fault| self.scenario.faults.allows(*fault));
        let joins_per_minute = if is_late { 0 } else { self.scenario.config.limits.joins_per_minute };
        let tick_ms = self.scenario.tick().div_ceil(MILLI);
        let Some(roster) = self.rosters.get_mut(log) else { return };
        let left_over = std::mem::take(roster);
        let mut verdict = Ok(());
        if !observed.is_new_epoch {
            *roster = left_over;
        } else if !left_over.is_incomplete && !left_over.present.is_empty() {
            verdict = Err(format!("a new epoch, but {:?} are present", left_over.present));
        }
        roster.is_incomplete |= observed.misses_some;
        for notice in observed.notices {
            let applied = roster.apply(notice, joins_per_minute, tick_ms);
            verdict = verdict.and(if roster.is_incomplete { Ok(()) } else { applied });
        }
        if let Err(what) = verdict {
            self.violate("joins and leaves", format!("{}: {what}", name_of(log)));
        }
    }

    /// Starts with empty rosters, because the next server has no sessions.
    pub(super) fn reset_rosters(&mut self) {
        self.rosters.fill(Roster::default());
    }

    /// Checks that the joins and leaves of each channel describe its presence, unless some are still to be
    /// published, and that presence lists all subscribers whose joins are not held back.
    pub(super) fn check_rosters(&mut self, sessions: &[SessionView]) {
        let totals = self.server.totals();
        if totals.queued_notices > 0 {
            return;
        }
        let mut unlisted = 0;
        for channel in 0..MAX_CHANNELS {
            if !rules_of(&self.scenario.config, channel).join_leave {
                continue;
            }
            let (roster, name) = (&self.rosters[channel], name_of(channel));
            let present = BTreeSet::from_iter(self.server.present(name));
            if !roster.is_incomplete && roster.present != present {
                let what = format!("{name}: {:?} have joined, but {present:?} are present", roster.present);
                return self.violate("joins and leaves", what);
            }
            let is_of = |session: &&SessionView| session.subscriptions.iter().any(|(of, _)| of == name);
            unlisted += sessions.iter().filter(is_of).count() - present.len();
        }
        if unlisted != totals.held_joins {
            let what =
                format!("{unlisted} subscribers are not present, but {} joins are held", totals.held_joins);
            self.violate("joins and leaves", what);
        }
    }
}
