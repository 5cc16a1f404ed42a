//! Sums over all runs of a mix.

use crate::result::{Distribution, Field, Group};

/// Counts that can be added up.
const NAMES: [&str; 25] = [
    "connected",
    "unexpected_closes",
    "pings",
    "expected",
    "received",
    "lost",
    "duplicated",
    "misordered",
    "foreign",
    "corrupted",
    "misnumbered",
    "gaps",
    "dropped",
    "killed",
    "cut",
    "resumed",
    "not_recovered",
    "taken",
    "replaced",
    "closed",
    "early",
    "pings_early",
    "overdue",
    "closed_in_time",
    "forgiven",
];

/// Times that mean the same wherever they were measured.
const TIMES: [&str; 4] = ["connect_ms", "connect_from_start_ms", "lateness_ms", "ping_lateness_ms"];

#[derive(Debug, Default)]
pub(super) struct Totals([u64; NAMES.len()]);

impl Totals {
    pub(super) fn of(outcomes: &[Group]) -> Self {
        let mut totals = Self::default();
        outcomes.iter().for_each(|outcome| totals.add(outcome));
        totals
    }

    fn add(&mut self, outcome: &Group) {
        for (sum, name) in self.0.iter_mut().zip(NAMES) {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a count, which comes back as it went in"
            )]
            let count = outcome.number(name).unwrap_or(0.0) as u64;
            *sum += count;
        }
    }

    pub(super) fn count(&self, name: &str) -> u64 {
        NAMES.iter().zip(self.0).find(|(known, _)| **known == name).map_or(0, |(_, sum)| sum)
    }

    pub(super) fn outcome(&self, errors: u64) -> Group {
        let sums = NAMES.iter().zip(self.0);
        sums.fold(Group::default().with("errors", errors), |group, (name, sum)| group.with(name, sum))
    }
}

/// All times of the runs, by name.
pub(super) fn times(outcomes: &[Group]) -> Group {
    let all = |name: &str| {
        let measured = outcomes.iter().filter_map(|outcome| match outcome.get(name) {
            Some(Field::Distribution(times)) => Some(&**times),
            _ => None,
        });
        Distribution::sum_of(&measured.collect::<Vec<_>>())
    };
    TIMES.into_iter().fold(Group::default(), |group, name| group.with(name, all(name)))
}
