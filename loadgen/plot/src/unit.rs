//! Formats numbers in a few characters, each with a unit that suits its size.

/// Unit of a number in a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    Plain,
    PerSecond,
    Millis,
    Bytes,
}

/// Factors and their suffixes, in ascending order.
type Steps = &'static [(f64, &'static str)];

const COUNTS: Steps = &[(1.0, ""), (1e3, "k"), (1e6, "M"), (1e9, "G")];
const RATES: Steps = &[(1.0, "/s"), (1e3, "k/s"), (1e6, "M/s"), (1e9, "G/s")];
const TIMES: Steps = &[(1e-3, " µs"), (1.0, " ms"), (1e3, " s")];
const BYTES: Steps = &[(1.0, " B"), (1024.0, " KiB"), (1_048_576.0, " MiB"), (1_073_741_824.0, " GiB")];

impl Unit {
    /// Determines the unit from the name of a number in a result.
    pub fn of(name: &str) -> Self {
        match name.rsplit(['_', '.']).find(|word| ["ms", "bytes"].contains(word)) {
            Some("ms") => Self::Millis,
            Some(_) => Self::Bytes,
            None => Self::Plain,
        }
    }

    fn steps(self) -> Steps {
        match self {
            Self::Plain => COUNTS,
            Self::PerSecond => RATES,
            Self::Millis => TIMES,
            Self::Bytes => BYTES,
        }
    }

    /// Returns the factor and the suffix for a number of this size.
    pub(crate) fn step(self, size: f64) -> (f64, &'static str) {
        let steps = self.steps();
        let fitting = steps.iter().rfind(|(factor, _)| *factor <= size.abs() * (1.0 + 1e-9));
        // Zero, and counts below one, are shown without a prefix.
        let plain = if self == Self::Millis && size != 0.0 { steps[0] } else { (1.0, self.plain()) };
        fitting.copied().unwrap_or(plain)
    }

    fn plain(self) -> &'static str {
        self.steps().iter().find(|(factor, _)| (factor - 1.0).abs() < 1e-9).map_or("", |(_, name)| name)
    }

    pub fn show(self, value: f64) -> String {
        let (factor, name) = self.step(value);
        format!("{}{name}", digits(value / factor))
    }
}

/// Formats whole counts below 100 million with all digits, and other numbers like [`Unit::show`].
pub fn show_in_full(unit: Unit, value: f64) -> String {
    if unit != Unit::Plain || value.fract() != 0.0 || value.abs() >= 1e8 {
        return unit.show(value);
    }
    let digits = format!("{value:.0}");
    let grouped = digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy).collect::<Vec<_>>();
    grouped.join(",")
}

/// Formats a number with about three significant digits.
pub fn digits(value: f64) -> String {
    let decimals: usize = match value.abs() {
        size if size >= 99.95 => 0,
        size if size >= 9.995 => 1,
        size if size >= 0.01 || size == 0.0 => 2,
        _ => 4,
    };
    let text = format!("{value:.decimals$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_have_their_unit() {
        for (unit, value, text) in [
            (Unit::Plain, 0.0, "0"),
            (Unit::Plain, 0.25, "0.25"),
            (Unit::Plain, 0.0021, "0.0021"),
            (Unit::Plain, 19_000.0, "19k"),
            (Unit::Plain, 1_234_567.0, "1.23M"),
            (Unit::PerSecond, 999.0, "999/s"),
            (Unit::PerSecond, 259_000.0, "259k/s"),
            (Unit::Millis, 0.0, "0 ms"),
            (Unit::Millis, 0.0004, "0.4 µs"),
            (Unit::Millis, 0.25, "250 µs"),
            (Unit::Millis, 12.34, "12.3 ms"),
            (Unit::Millis, 60_000.0, "60 s"),
            (Unit::Bytes, 2318.0, "2.26 KiB"),
            (Unit::Bytes, 12.0, "12 B"),
        ] {
            assert_eq!(unit.show(value), text);
        }
    }

    #[test]
    fn counts_are_shown_in_full() {
        for (value, text) in
            [(0.0, "0"), (1001.0, "1,001"), (10_000_000.0, "10,000,000"), (2e9, "2G"), (0.5, "0.5")]
        {
            assert_eq!(show_in_full(Unit::Plain, value), text);
        }
        assert_eq!(show_in_full(Unit::Millis, 2000.0), "2 s");
    }

    #[test]
    fn the_unit_follows_from_the_name() {
        assert_eq!(Unit::of("connect_ms.p99.9"), Unit::Millis);
        assert_eq!(Unit::of("loadgen.lag_ms_max"), Unit::Millis);
        assert_eq!(Unit::of("server.resident_bytes"), Unit::Bytes);
        assert_eq!(Unit::of("deliveries"), Unit::Plain);
    }
}
