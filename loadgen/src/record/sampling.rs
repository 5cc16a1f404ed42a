//! Takes a sample of everything that is recorded.

use super::times::new_second;
use super::{NamedSource, SharedRecords};
use crate::result::{Highest, Level, Sum as _, Total, Values};

/// Maximum number of close codes with a curve. Additional codes have none.
const MAX_CODES: usize = 32;

impl SharedRecords {
    /// Takes a sample. Values with the same name are added up.
    #[expect(clippy::cast_precision_loss, reason = "no count comes near 2^53")]
    pub(super) fn sample(&self, t: f64) -> Values {
        let mut values = Values { t: Highest(t), ..Values::default() };
        let open = Level::Total(Some(Total(self.traffic.open() as f64)));
        values.gauges.insert("connections".to_owned(), open);
        for NamedSource { name, source, .. } in &*self.gauges.borrow() {
            match values.gauges.get_mut(name) {
                Some(sum) => sum.add(source.take_level()),
                None => drop(values.gauges.insert(name.clone(), source.take_level())),
            }
        }
        for NamedSource { name, source, last_sampled: seen } in &mut *self.counters.borrow_mut() {
            *values.counts.entry(name.clone()).or_default() += growth(source.get(), seen);
        }
        let mut codes_seen = self.last_sampled_codes.borrow_mut();
        for (code, closes) in self.traffic.ends().by_code().into_iter().take(MAX_CODES) {
            let count = growth(closes, codes_seen.entry(code).or_default());
            values.counts.insert(format!("closes.{code}"), count);
        }
        for NamedSource { name, source, .. } in &*self.times.borrow() {
            let mut second = new_second();
            source.take_second(&mut second);
            match values.times.get_mut(name) {
                Some(sum) => sum.add(second.into()),
                None => drop(values.times.insert(name.clone(), second.into())),
            }
        }
        values
    }
}

/// Returns how much a count has grown since it was last seen, and stores the new value.
fn growth(now: u64, seen: &mut u64) -> u64 {
    now.saturating_sub(std::mem::replace(seen, now))
}
