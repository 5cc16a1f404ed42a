//! Faults of a link.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use encke_tests::network::NetworkLink;
use encke_tests::process::Signal;

/// Receive buffer of the client, in bytes, for zero-window faults. The default buffer would hold a whole
/// burst even if the client reads nothing.
const SMALL_RECEIVE_BUFFER: u32 = 16 << 10;

/// A fault of a link, or of the client at its end.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum LinkCondition {
    /// Bandwidth limited to this many kilobits (1,000 bits) per second in each direction, until the end.
    Slow(u32),
    /// Loss of this percentage of all packets in each direction, until the end.
    Lossy(u8),
    /// Loss of all packets for this time.
    Cut(Duration),
    /// The client is stopped and reads nothing for this time, while its kernel continues to respond.
    ZeroWindow(Duration),
}

impl LinkCondition {
    /// Returns the faults in the rows of the table.
    #[must_use]
    pub fn table() -> Vec<Self> {
        let seconds = Duration::from_secs;
        // The slowest is first, because it takes longest.
        let slow = [8, 16, 32, 64].map(Self::Slow);
        let lossy = [5, 10, 20].map(Self::Lossy);
        [&slow[..], &[Self::ZeroWindow(seconds(60)), Self::Cut(seconds(20))], &lossy].concat()
    }

    /// Returns faults of the same kinds that take a few seconds.
    #[must_use]
    pub fn quick() -> Vec<Self> {
        let seconds = Duration::from_secs;
        vec![Self::Slow(64), Self::ZeroWindow(seconds(5)), Self::Cut(seconds(3)), Self::Lossy(10)]
    }

    /// Returns how long the fault lasts. `None`: until the end.
    #[must_use]
    pub fn duration(self) -> Option<Duration> {
        match self {
            Self::Cut(time) | Self::ZeroWindow(time) => Some(time),
            Self::Slow(_) | Self::Lossy(_) => None,
        }
    }

    /// Prepares the link, before the client is started.
    pub fn prepare(self, link: &NetworkLink) {
        link.emulate_distance();
        if let Self::ZeroWindow(_) = self {
            link.set_receive_buffer(SMALL_RECEIVE_BUFFER);
        }
    }

    /// Causes the fault.
    pub fn begin(self, link: &NetworkLink) {
        match self {
            Self::Slow(kilobits) => link.limit_rate_both_ways(kilobits * 1_000 / 8),
            Self::Lossy(per_cent) => link.drop_packets(per_cent),
            Self::Cut(_) => link.drop_packets(100),
            Self::ZeroWindow(_) => link.signal(Signal::STOP),
        }
    }

    /// Removes the fault, unless it lasts until the end.
    pub fn end(self, link: &NetworkLink) {
        match self {
            Self::Cut(_) => link.deliver_all_packets(),
            Self::ZeroWindow(_) => link.signal(Signal::CONT),
            Self::Slow(_) | Self::Lossy(_) => {}
        }
    }
}

impl fmt::Display for LinkCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Slow(kilobits) => write!(f, "{kilobits}kbit"),
            Self::Lossy(per_cent) => write!(f, "{per_cent}%"),
            Self::Cut(time) => write!(f, "cut-{}", DurationText(*time)),
            Self::ZeroWindow(time) => write!(f, "zero-window-{}", DurationText(*time)),
        }
    }
}

/// Displays a duration in seconds, or in milliseconds if the seconds are not a whole number.
struct DurationText(Duration);

impl fmt::Display for DurationText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_millis() {
            ms if ms % 1_000 == 0 => write!(f, "{}s", ms / 1_000),
            ms => write!(f, "{ms}ms"),
        }
    }
}

/// Parses the displayed form: `8kbit`, `5%`, `cut-20s`, `zero-window-60s`.
impl FromStr for LinkCondition {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let time = |text| humantime::parse_duration(text).map_err(|error| format!("{text}: {error}"));
        let unknown =
            || format!("invalid link {text:?}: expected a form like 8kbit, 5%, cut-20s or zero-window-60s");
        if let Some(rate) = text.strip_suffix("kbit") {
            rate.parse()
                .ok()
                .filter(|rate| (1..=1_000_000).contains(rate))
                .map(Self::Slow)
                .ok_or_else(unknown)
        } else if let Some(loss) = text.strip_suffix('%') {
            loss.parse().ok().filter(|loss| (1..100).contains(loss)).map(Self::Lossy).ok_or_else(unknown)
        } else if let Some(length) = text.strip_prefix("cut-") {
            time(length).map(Self::Cut)
        } else if let Some(length) = text.strip_prefix("zero-window-") {
            time(length).map(Self::ZeroWindow)
        } else {
            Err(unknown())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_parse_as_displayed() {
        for condition in LinkCondition::table().into_iter().chain(LinkCondition::quick()) {
            assert_eq!(condition.to_string().parse(), Ok(condition));
        }
        let minute = LinkCondition::ZeroWindow(Duration::from_secs(60));
        assert_eq!(
            (minute.to_string(), "zero-window-1m".parse()),
            ("zero-window-60s".to_owned(), Ok(minute))
        );
        assert_eq!(LinkCondition::Cut(Duration::from_millis(1_500)).to_string(), "cut-1500ms");
    }

    #[test]
    fn invalid_conditions_are_rejected() {
        for text in ["", "8", "0kbit", "4000000000kbit", "0%", "100%", "cut-", "cut-20", "cut-fast", "fog"] {
            assert!(text.parse::<LinkCondition>().is_err(), "{text}");
        }
    }
}
