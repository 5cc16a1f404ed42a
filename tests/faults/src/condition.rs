//! Faults of a link.

use std::str::FromStr;
use std::time::Duration;

use encke_tests::network::NetworkLink;
use encke_tests::process::Signal;

/// Receive buffer of the client, in bytes, for zero-window faults. The default buffer would hold a whole
/// burst even if the client reads nothing.
const SMALL_RECEIVE_BUFFER: u32 = 16 << 10;

/// A fault with its name, such as `8kbit`, `5%`, `cut-20s` or `zero-window-60s`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LinkCondition {
    pub(crate) name: String,
    pub(crate) fault: LinkFault,
}

/// A fault of a link, or of the client at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LinkFault {
    /// Bandwidth limited to this many kilobits (1,000 bits) per second in each direction, until the end.
    Slow(u32),
    /// Loss of this percentage of all packets in each direction, until the end.
    Lossy(u8),
    /// Loss of all packets for this time.
    Cut(Duration),
    /// The client is stopped and reads nothing for this time, while its kernel continues to respond.
    ZeroWindow(Duration),
}

impl LinkFault {
    /// Returns how long the fault lasts. `None`: until the end.
    pub(crate) fn duration(self) -> Option<Duration> {
        match self {
            Self::Cut(time) | Self::ZeroWindow(time) => Some(time),
            Self::Slow(_) | Self::Lossy(_) => None,
        }
    }

    /// Prepares the link, before the client is started.
    pub(crate) fn prepare(self, link: &NetworkLink) {
        link.emulate_distance();
        if let Self::ZeroWindow(_) = self {
            link.set_receive_buffer(SMALL_RECEIVE_BUFFER);
        }
    }

    /// Causes the fault.
    pub(crate) fn begin(self, link: &NetworkLink) {
        match self {
            Self::Slow(kilobits) => link.limit_rate_both_ways(kilobits * 1_000 / 8),
            Self::Lossy(per_cent) => link.drop_packets(per_cent),
            Self::Cut(_) => link.drop_packets(100),
            Self::ZeroWindow(_) => link.signal(Signal::STOP),
        }
    }

    /// Removes the fault, unless it lasts until the end.
    pub(crate) fn end(self, link: &NetworkLink) {
        match self {
            Self::Cut(_) => link.deliver_all_packets(),
            Self::ZeroWindow(_) => link.signal(Signal::CONT),
            Self::Slow(_) | Self::Lossy(_) => {}
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let time = |text: &str| humantime::parse_duration(text).ok();
        if let Some(rate) = text.strip_suffix("kbit") {
            rate.parse().ok().filter(|rate| (1..=1_000_000).contains(rate)).map(Self::Slow)
        } else if let Some(loss) = text.strip_suffix('%') {
            loss.parse().ok().filter(|loss| (1..100).contains(loss)).map(Self::Lossy)
        } else if let Some(length) = text.strip_prefix("cut-") {
            time(length).map(Self::Cut)
        } else {
            time(text.strip_prefix("zero-window-")?).map(Self::ZeroWindow)
        }
    }
}

impl FromStr for LinkCondition {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let fault = LinkFault::parse(text).ok_or_else(|| {
            format!("invalid link {text:?}: expected a form like 8kbit, 5%, cut-20s or zero-window-60s")
        })?;
        Ok(Self { name: text.to_owned(), fault })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_parsed() {
        let minute = Duration::from_secs(60);
        for (text, expected) in [
            ("8kbit", Some(LinkFault::Slow(8))),
            ("5%", Some(LinkFault::Lossy(5))),
            ("cut-1m", Some(LinkFault::Cut(minute))),
            ("zero-window-60s", Some(LinkFault::ZeroWindow(minute))),
            ("0kbit", None),
            ("4000000000kbit", None),
            ("100%", None),
            ("cut-20", None),
            ("fog", None),
        ] {
            assert_eq!(LinkFault::parse(text), expected, "{text}");
        }
    }
}
