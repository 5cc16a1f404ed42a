//! Adds up what several processes counted and timed simultaneously. The type of each field determines how.

use std::collections::BTreeMap;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

/// Value that can be added up over several processes.
pub(crate) trait Sum {
    fn add(&mut self, other: Self);
}

/// Returns the sum of all values. `None` without values.
pub(crate) fn sum<T: Sum>(all: impl IntoIterator<Item = T>) -> Option<T> {
    all.into_iter().reduce(|mut sum, other| {
        sum.add(other);
        sum
    })
}

/// Declares a struct that is serialised as JSON and added up field by field.
macro_rules! summed {
    ($(#[$meta:meta])* $visibility:vis struct $name:ident {
        $($(#[$field_meta:meta])* $field_visibility:vis $field:ident: $type:ty,)*
    }) => {
        #[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
        $(#[$meta])*
        $visibility struct $name {
            $($(#[$field_meta])* $field_visibility $field: $type,)*
        }

        impl $crate::result::Sum for $name {
            fn add(&mut self, other: Self) {
                $($crate::result::Sum::add(&mut self.$field, other.$field);)*
            }
        }
    };
}
pub(crate) use summed;

/// Number that is added up over all processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Total(pub(crate) f64);

/// Number that is combined by taking the maximum over all processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Highest(pub(crate) f64);

/// Number that is combined by taking the mean over all processes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "f64", into = "f64")]
pub(crate) struct Mean {
    total: f64,
    count: f64,
}

impl From<f64> for Mean {
    fn from(number: f64) -> Self {
        Self { total: number, count: 1.0 }
    }
}

impl From<Mean> for f64 {
    fn from(mean: Mean) -> Self {
        mean.total / mean.count
    }
}

impl Sum for Total {
    /// Adds and rounds to six decimals, to remove floating-point errors.
    fn add(&mut self, other: Self) {
        let sum = self.0 + other.0;
        self.0 = if sum.fract() == 0.0 { sum } else { (sum * 1e6).round() / 1e6 };
    }
}

impl Sum for Highest {
    fn add(&mut self, other: Self) {
        self.0 = self.0.max(other.0);
    }
}

impl Sum for Mean {
    fn add(&mut self, other: Self) {
        self.total += other.total;
        self.count += other.count;
    }
}

impl Sum for u64 {
    fn add(&mut self, other: Self) {
        *self += other;
    }
}

impl<T: Sum> Sum for Option<T> {
    fn add(&mut self, other: Self) {
        match (self, other) {
            (Some(sum), Some(other)) => sum.add(other),
            (sum @ None, other) => *sum = other,
            (Some(_), None) => {}
        }
    }
}

impl<T: Sum> Sum for BTreeMap<String, T> {
    fn add(&mut self, other: Self) {
        for (name, value) in other {
            match self.get_mut(&name) {
                Some(sum) => sum.add(value),
                None => drop(self.insert(name, value)),
            }
        }
    }
}

impl<T: Sum> Sum for IndexMap<String, T> {
    fn add(&mut self, other: Self) {
        for (name, value) in other {
            match self.get_mut(&name) {
                Some(sum) => sum.add(value),
                None => drop(self.insert(name, value)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_type_determines_how_numbers_are_added_up() {
        let of_three = |numbers: [f64; 3]| numbers.map(Some);
        let [one, two, three] = [0.1, 0.2, 3.0];
        assert_eq!(sum(of_three([one, two, three]).map(|it| it.map(Total))), Some(Some(Total(3.3))));
        assert_eq!(sum(of_three([one, three, two]).map(|it| it.map(Highest))), Some(Some(Highest(3.0))));
        assert_eq!(sum([1.0, 2.0, 6.0].map(Mean::from)).map(f64::from), Some(3.0));
        assert_eq!(sum([None, Some(3_u64), None, Some(2)]), Some(Some(5)));
        assert_eq!(sum([None::<Total>, None]), Some(None));
        let codes =
            |codes: [(&str, u64); 2]| BTreeMap::from(codes.map(|(code, count)| (code.to_owned(), count)));
        let both = sum([codes([("4000", 2), ("4002", 1)]), codes([("1006", 7), ("4000", 40)])])
            .expect("there are two values");
        assert_eq!(both.into_values().collect::<Vec<_>>(), [7, 42, 1]);
    }
}
