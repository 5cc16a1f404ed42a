//! Sums over all runs of a mix.

use crate::result::Group;

/// What can be added up.
const NAMES: [&str; 24] = [
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
    "overdue",
    "closed_in_time",
    "forgiven",
];

#[derive(Debug, Default)]
pub(super) struct Totals([u64; NAMES.len()]);

impl Totals {
    pub(super) fn add(&mut self, outcome: &Group) {
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
