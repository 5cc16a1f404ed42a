//! One look at everything that is recorded.

use super::times::new_second;
use super::{Named, Shared};
use crate::result::{Highest, Level, Sum as _, Total, Values};

/// More close codes than these have no curve of their own.
const MAX_CODES: usize = 32;

impl Shared {
    /// What has the same name is added up.
    #[expect(clippy::cast_precision_loss, reason = "no count comes near 2^53")]
    pub(super) fn look(&self, t: f64) -> Values {
        let mut values = Values { t: Highest(t), ..Values::default() };
        let open = Level::Total(Some(Total(self.traffic.open() as f64)));
        values.gauges.insert("connections".to_owned(), open);
        for Named { name, source, .. } in &*self.gauges.borrow() {
            match values.gauges.get_mut(name) {
                Some(sum) => sum.add(source.level()),
                None => drop(values.gauges.insert(name.clone(), source.level())),
            }
        }
        for Named { name, source, seen } in &mut *self.counters.borrow_mut() {
            *values.counts.entry(name.clone()).or_default() += since(source.get(), seen);
        }
        let mut codes_seen = self.codes_seen.borrow_mut();
        for (code, closes) in self.traffic.ends().by_code().into_iter().take(MAX_CODES) {
            let count = since(closes, codes_seen.entry(code).or_default());
            values.counts.insert(format!("closes.{code}"), count);
        }
        for Named { name, source, .. } in &*self.times.borrow() {
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

/// How much a count has grown since it was seen last.
fn since(now: u64, seen: &mut u64) -> u64 {
    now.saturating_sub(std::mem::replace(seen, now))
}
