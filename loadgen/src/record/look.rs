//! One look at everything that is recorded.

use hdrhistogram::Histogram;

use super::times::new_second;
use super::{Named, Shared};
use crate::result::{Kind, Sample};

/// Of what ended in one second.
const PERCENTILES: [(&str, f64); 4] = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999)];
/// More close codes than these have no curve of their own.
const MAX_CODES: usize = 32;

impl Shared {
    #[expect(clippy::cast_precision_loss, reason = "no count comes near 2^53")]
    pub(super) fn look(&self, t: f64) -> Sample {
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
        let mut seconds: Vec<(String, Histogram<u32>)> = Vec::new();
        for Named { name, source, .. } in &*self.times.borrow() {
            let known = seconds.iter().position(|(known, _)| known == name);
            let index = known.unwrap_or_else(|| {
                seconds.push((name.clone(), new_second()));
                seconds.len() - 1
            });
            source.take_second(&mut seconds[index].1);
        }
        for (name, second) in &seconds {
            row.times(name, second);
        }
        Sample { t, values: row.0 }
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

    #[expect(clippy::cast_precision_loss, reason = "no time comes near 2^53 microseconds")]
    fn times(&mut self, name: &str, second: &Histogram<u32>) {
        self.add(Kind::Count, &format!("{name}.count"), Some(second.len() as f64));
        let told = |micros: u64| (!second.is_empty()).then_some(micros as f64 / 1e3);
        for (percentile, quantile) in PERCENTILES {
            self.add(Kind::Time, &format!("{name}.{percentile}"), told(second.value_at_quantile(quantile)));
        }
        self.add(Kind::Time, &format!("{name}.max"), told(second.max()));
    }
}
