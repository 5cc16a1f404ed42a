//! Sums over all runs of a mix.

use serde::{Deserialize, Serialize};

use crate::result::{Distribution, Group, Sum, sum};

/// Declares the counts that can be added up. An outcome that lacks a count adds zero to it.
macro_rules! totals {
    ($($count:ident,)*) => {
        #[derive(Debug, Default, Serialize, Deserialize)]
        #[serde(default)]
        pub(super) struct MixTotals {
            /// Errors of all runs, counted by the mix itself.
            errors: u64,
            $($count: u64,)*
            #[serde(flatten)]
            times: MixTimes,
        }

        impl Sum for MixTotals {
            fn add(&mut self, other: Self) {
                $(self.$count += other.$count;)*
                self.times.add(other.times);
            }
        }
    };
}

totals! {
    connected,
    unexpected_closes,
    pings,
    expected,
    received,
    lost,
    duplicated,
    misordered,
    foreign,
    corrupted,
    misnumbered,
    gaps,
    dropped,
    killed,
    cut,
    resumed,
    not_recovered,
    taken,
    replaced,
    closed,
    early,
    pings_early,
    overdue,
    closed_in_time,
    forgiven,
}

crate::result::summed! {
    /// Times that have the same meaning in every scenario.
    #[derive(Default)]
    #[serde(default)]
    struct MixTimes {
        connect_ms: Option<Distribution>,
        connect_from_start_ms: Option<Distribution>,
        resume_ms: Option<Distribution>,
        resume_from_start_ms: Option<Distribution>,
        lateness_ms: Option<Distribution>,
        ping_lateness_ms: Option<Distribution>,
    }
}

impl MixTotals {
    pub(super) fn of(outcomes: &[Group], errors: u64) -> Self {
        Self { errors, ..sum(outcomes.iter().filter_map(Group::read)).unwrap_or_default() }
    }
}
