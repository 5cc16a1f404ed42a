//! Schedule of the messages, and their data, which contains the time at which each is due.

use std::cell::Cell;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use encke_client::take_number;
use tokio::time::Instant;

use crate::args::ChannelLoad;

/// Time from the last subscription to the first message.
pub(crate) const LEAD: Duration = Duration::from_millis(100);

/// Messages of a run. The data of message n is the JSON string `"n t xxx.."`, where t is the time at which
/// the message is due, in microseconds since the Unix epoch. Therefore a message from another run is never
/// mistaken for one from this run.
#[derive(Debug)]
pub(crate) struct Schedule {
    due: Vec<Instant>,
    /// When publishing each message actually began.
    starts: Vec<Cell<Option<Instant>>>,
    unix_micros: u64,
    size: usize,
    /// Filler as long as the data of a message. Comparing it as a whole is faster than checking each byte.
    filler: String,
}

/// Result of matching data with the messages of this run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recognized {
    /// Number of a message of this run whose data is intact.
    Ours(u32),
    /// A message of this run whose data differs from what was published.
    Corrupted,
    Foreign,
}

impl Schedule {
    /// Schedules `count` messages at `rate` per second, the first one at `start`. `size` is the length of
    /// each message's data.
    pub(crate) fn new(start: Instant, count: u32, rate: f64, size: usize) -> Self {
        let lead = start.saturating_duration_since(Instant::now());
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default() + lead;
        let due = (0..count).map(|number| start + Duration::from_secs_f64(f64::from(number) / rate));
        let due: Vec<_> = due.collect();
        let starts = vec![Cell::new(None); due.len()];
        Self { due, starts, unix_micros: as_micros(unix), size, filler: "x".repeat(size) }
    }

    /// Schedules all messages of a run, beginning soon.
    pub(crate) fn of(load: &ChannelLoad) -> Self {
        Self::new(Instant::now() + LEAD, load.messages, load.publish_rate, load.size as usize)
    }

    pub(super) fn numbers(&self) -> impl Iterator<Item = u32> + use<> {
        (0..).take(self.len())
    }

    pub(crate) fn len(&self) -> usize {
        self.due.len()
    }

    pub(crate) fn start(&self) -> Instant {
        self.due[0]
    }

    pub(crate) fn due(&self, number: u32) -> Instant {
        self.due[number as usize]
    }

    pub(crate) fn note_start(&self, number: u32) {
        self.starts[number as usize].set(Some(Instant::now()));
    }

    /// Returns when publishing this message actually began.
    pub(crate) fn start_of(&self, number: u32) -> Instant {
        self.starts[number as usize].get().unwrap_or_else(|| self.due(number))
    }

    pub(crate) fn last_due(&self) -> Instant {
        self.due[self.due.len() - 1]
    }

    pub(crate) fn data(&self, number: u32) -> String {
        let said = format!("{number} {} ", self.time_of(self.due(number)));
        let quotes = 2;
        let filler = &self.filler[..self.size.saturating_sub(quotes + said.len())];
        format!("\"{said}{filler}\"")
    }

    /// Returns the key of a message, which is unique among all messages to its channel, including messages of
    /// other runs.
    pub(crate) fn key(&self, number: u32) -> String {
        format!("{number}-{}", self.time_of(self.due(number)))
    }

    /// Finds the message to which this data belongs.
    pub(crate) fn recognize(&self, data: &str) -> Recognized {
        match self.number_in(data) {
            Some((number, rest)) if data.len() == self.size && self.is_filler(rest) => {
                Recognized::Ours(number)
            }
            Some(_) => Recognized::Corrupted,
            None => Recognized::Foreign,
        }
    }

    /// Parses the number and the time at the beginning of the data. If both match a message of this run,
    /// returns the number and the text that follows.
    fn number_in<'a>(&self, data: &'a str) -> Option<(u32, &'a str)> {
        let (number, rest) = take_number(data.strip_prefix('"')?)?;
        let (time, rest) = take_number(rest.strip_prefix(' ')?)?;
        let number = u32::try_from(number).ok()?;
        let due = self.due.get(number as usize)?;
        (time == self.time_of(*due)).then_some((number, rest))
    }

    /// Returns whether the text is a valid filler, from the end of the time to the end of the data.
    fn is_filler(&self, text: &str) -> bool {
        let filler = text.strip_prefix(' ').and_then(|text| text.strip_suffix('"'));
        filler.is_some_and(|filler| self.filler.get(..filler.len()) == Some(filler))
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
    use Recognized::{Corrupted, Foreign, Ours};

    use super::*;

    #[test]
    fn data_has_the_size_and_the_number() {
        for size in [32, 100, 100_000] {
            let schedule = Schedule::new(Instant::now(), 1000, 100.0, size);
            for number in [0, 9, 999] {
                let data = schedule.data(number);
                assert_eq!(data.len(), size, "{data}");
                assert!(serde_json::from_str::<String>(&data).is_ok(), "{data}");
                assert_eq!(schedule.recognize(&data), Ours(number));
            }
        }
    }

    #[test]
    fn data_of_other_runs_is_foreign() {
        let now = Instant::now();
        let (ours, theirs) = (Schedule::new(now, 10, 1.0, 100), Schedule::new(now, 10, 2.0, 100));
        assert_eq!(ours.recognize(&theirs.data(1)), Foreign, "due at another time");
        let longer = Schedule::new(now, 11, 1.0, 100);
        assert_eq!(ours.recognize(&longer.data(10)), Foreign, "beyond the last one");
        for bad in ["", "\"", "1", "\"x\"", "\"1\"", "\"1 x\"", "{}", "null"] {
            assert_eq!(ours.recognize(bad), Foreign, "{bad}");
        }
    }

    #[test]
    fn corrupted_data_is_recognized() {
        let schedule = Schedule::new(Instant::now(), 10, 1.0, 40);
        let data = schedule.data(3);
        let (head, tail) = data.split_at(data.len() - 2);
        for changed in [format!("{head}y\""), format!("{head}\""), format!("{data}\""), head.to_owned()] {
            assert_eq!(schedule.recognize(&changed), Corrupted, "{changed}");
        }
        assert_eq!(schedule.recognize(&format!("{head}{tail}")), Ours(3));
    }
}
