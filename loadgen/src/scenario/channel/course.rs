//! When each message is due, and the data that says so.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::time::Instant;

use crate::heard::take_number;

/// The messages of a run. The n-th one's data is the JSON string `"n t xxx.."`, where t is when it was due, in
/// microseconds of Unix time: with that no message of another run is taken for one of this.
#[derive(Debug)]
pub(super) struct Course {
    due: Vec<Instant>,
    unix_micros: u64,
    size: usize,
}

impl Course {
    /// `count` messages, `rate` a second, the first one at `start`; `size` is the length of their data.
    pub(super) fn new(start: Instant, count: u32, rate: f64, size: usize) -> Self {
        let lead = start.saturating_duration_since(Instant::now());
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default() + lead;
        let due = (0..count).map(|number| start + Duration::from_secs_f64(f64::from(number) / rate));
        Self { due: due.collect(), unix_micros: as_micros(unix), size }
    }

    pub(super) fn len(&self) -> usize {
        self.due.len()
    }

    pub(super) fn start(&self) -> Instant {
        self.due[0]
    }

    pub(super) fn due(&self, number: u32) -> Instant {
        self.due[number as usize]
    }

    pub(super) fn last_due(&self) -> Instant {
        self.due[self.due.len() - 1]
    }

    /// The JSON text of a message's data.
    pub(super) fn data(&self, number: u32) -> String {
        let said = format!("{number} {} ", self.time_of(self.due(number)));
        let quotes = 2;
        let filler = "x".repeat(self.size.saturating_sub(quotes + said.len()));
        format!("\"{said}{filler}\"")
    }

    /// The number of the message that has this data, if it is one of this run.
    pub(super) fn number_of(&self, data: &str) -> Option<u32> {
        let (number, rest) = take_number(data.strip_prefix('"')?)?;
        let (time, _) = take_number(rest.strip_prefix(' ')?)?;
        let number = u32::try_from(number).ok()?;
        let due = self.due.get(number as usize)?;
        (data.len() == self.size && time == self.time_of(*due)).then_some(number)
    }

    fn time_of(&self, due: Instant) -> u64 {
        self.unix_micros + as_micros(due - self.start())
    }
}

fn as_micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_has_its_size_and_says_its_number() {
        for size in [32, 100, 100_000] {
            let course = Course::new(Instant::now(), 1000, 100.0, size);
            for number in [0, 9, 999] {
                let data = course.data(number);
                assert_eq!(data.len(), size, "{data}");
                assert!(serde_json::from_str::<String>(&data).is_ok(), "{data}");
                assert_eq!(course.number_of(&data), Some(number));
            }
        }
    }

    #[test]
    fn data_of_others_is_not_ours() {
        let now = Instant::now();
        let (ours, theirs) = (Course::new(now, 10, 1.0, 100), Course::new(now, 10, 2.0, 100));
        assert_eq!(ours.number_of(&theirs.data(1)), None, "due at another time");
        let longer = Course::new(now, 11, 1.0, 100);
        assert_eq!(ours.number_of(&longer.data(10)), None, "beyond the last one");
        for bad in ["", "\"", "1", "\"x\"", "\"1\"", "\"1 x\"", "{}", "null"] {
            assert_eq!(ours.number_of(bad), None, "{bad}");
        }
    }

    #[test]
    fn messages_are_due_at_the_rate() {
        let start = Instant::now();
        let course = Course::new(start, 11, 2.0, 100);
        assert_eq!(course.due(1), start + Duration::from_millis(500));
        assert_eq!(course.last_due(), start + Duration::from_secs(5));
    }
}
