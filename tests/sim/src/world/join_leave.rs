//! Checks of the joins and leaves in the logs of channels: they describe the subscribers of each channel.

use std::collections::{BTreeMap, BTreeSet};

use encke_server::testing::simulation::SessionView;

use super::Simulation;
use crate::fault::Fault;
use crate::namespaces::rules_of;
use crate::notices::Notice;
use crate::outcome::Verdict;
use crate::truth::{LOGS, MAX_CHANNELS, Observed, name_of};

/// A session that has joined again within this time is announced later.
const JOIN_INTERVAL_MS: u64 = 1000;

/// Faults that delay the publishing of joins and leaves. After a restart, the intervals begin again.
const DELAYS: [Fault; 5] =
    [Fault::LateTask, Fault::LateEngine, Fault::SlowSteps, Fault::Stall, Fault::Restart];

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
    fn apply(&mut self, notice: Notice, is_on_time: bool) -> Verdict {
        let Notice { session, has_left, at_ms, .. } = &notice;
        if *has_left {
            // If a session joins and leaves again within the interval, it is announced only that it has left.
            if !self.present.remove(session) && !self.joins.contains_key(session) {
                return Err(format!("{notice:?}, but it has not joined"));
            }
            return Ok(());
        }
        let (first, joins) = self.joins.entry(session.clone()).or_insert((*at_ms, 0));
        if is_on_time && *at_ms < *first + *joins * JOIN_INTERVAL_MS {
            return Err(format!("{notice:?}, after {joins} joins since {first}"));
        }
        *joins += 1;
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
        let is_on_time = !DELAYS.iter().any(|fault| self.scenario.faults.allows(*fault));
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
            let applied = roster.apply(notice, is_on_time);
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

    /// Checks that the joins and leaves of each channel describe its subscribers, unless some are still to be
    /// published.
    pub(super) fn check_rosters(&mut self, sessions: &[SessionView]) {
        if self.server.totals().queued_notices > 0 {
            return;
        }
        for channel in 0..MAX_CHANNELS {
            let roster = &self.rosters[channel];
            if roster.is_incomplete || !rules_of(&self.scenario.config, channel).join_leave {
                continue;
            }
            let is_of = |session: &&SessionView| {
                session.subscriptions.iter().any(|(name, _)| name == name_of(channel))
            };
            let subscribers: BTreeSet<_> =
                sessions.iter().filter(is_of).map(|session| session.id.clone()).collect();
            if roster.present != subscribers {
                let what = format!(
                    "{}: {:?} are present, but {subscribers:?} subscribe",
                    name_of(channel),
                    roster.present
                );
                return self.violate("joins and leaves", what);
            }
        }
    }
}
