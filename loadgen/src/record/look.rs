//! One look at everything that is recorded.

use super::times::new_second;
use super::{Named, Shared};
use crate::result::{Distribution, Kind, Sample};

/// What was timed in one sample, by name.
pub(crate) type Timed = Vec<(String, Distribution)>;

/// More close codes than these have no curve of their own.
const MAX_CODES: usize = 32;

impl Shared {
    #[expect(clippy::cast_precision_loss, reason = "no count comes near 2^53")]
    pub(super) fn look(&self, t: f64) -> (Sample, Timed) {
        let mut row = Row::default();
        row.add(Kind::Gauge, "connections", Some(self.traffic.open() as f64));
        for Named { name, source, .. } in &*self.gauges.borrow() {
            row.add(Kind::Gauge, name, source.get());
        }
        for Named { name, source, seen } in &mut *self.counters.borrow_mut() {
            row.count(name, source.get(), seen);
        }
        let mut codes_seen = self.codes_seen.borrow_mut();
        for (code, closes) in self.traffic.ends().by_code().into_iter().take(MAX_CODES) {
            row.count(&format!("closes.{code}"), closes, codes_seen.entry(code).or_default());
        }
        let mut seconds = Vec::new();
        for Named { name, source, .. } in &*self.times.borrow() {
            let known = seconds.iter().position(|(known, _): &(String, _)| known == name);
            let index = known.unwrap_or_else(|| {
                seconds.push((name.clone(), new_second()));
                seconds.len() - 1
            });
            source.take_second(&mut seconds[index].1);
        }
        let seconds: Timed = seconds.into_iter().map(|(name, second)| (name, second.into())).collect();
        let mut sample = Sample { t, values: row.0 };
        seconds.iter().for_each(|(name, second)| sample.add_times(name, second));
        (sample, seconds)
    }
}

#[derive(Debug, Default)]
struct Row(Vec<(Kind, String, Option<f64>)>);

impl Row {
    /// Adds to what has the same name already.
    fn add(&mut self, kind: Kind, name: &str, value: Option<f64>) {
        match self.0.iter_mut().find(|(known_kind, known, _)| *known_kind == kind && known == name) {
            Some((_, _, sum)) => *sum = sum.map_or(value, |sum| Some(sum + value.unwrap_or(0.0))),
            None => self.0.push((kind, name.to_owned(), value)),
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "no count comes near 2^53")]
    fn count(&mut self, name: &str, now: u64, seen: &mut u64) {
        self.add(Kind::Count, name, Some(now.saturating_sub(*seen) as f64));
        *seen = now;
    }
}
