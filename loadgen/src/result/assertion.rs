//! `--assert 'connect_ms.p99<2000'`: compares a number of the result with a bound.

use std::fmt;
use std::str::FromStr;

use bytesize::ByteSize;

use crate::result::{Document, Group, PathError, millis, seconds, shortest};

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Assertion {
    text: String,
    path: String,
    operator: Operator,
    bound: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Equal,
    NotEqual,
}

/// Operators. The ones with two characters come first, because `<` is a prefix of `<=`.
const OPERATORS: [(&str, Operator); 6] = [
    ("<=", Operator::LessOrEqual),
    (">=", Operator::GreaterOrEqual),
    ("==", Operator::Equal),
    ("!=", Operator::NotEqual),
    ("<", Operator::Less),
    (">", Operator::Greater),
];

/// Verdict on an assertion, with the number that was compared.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Verdict {
    Holds(f64),
    Fails(f64),
    /// The result has no such number.
    Meaningless(PathError),
}

impl FromStr for Assertion {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (symbol, operator) = OPERATORS
            .into_iter()
            .find(|(symbol, _)| text.contains(symbol))
            .ok_or("no operator: expected one of < <= > >= == !=")?;
        let (path, bound) = text.split_once(symbol).expect("the text contains the symbol");
        let (path, bound) = (path.trim(), bound.trim());
        let is_path_char = |c: char| c.is_ascii_alphanumeric() || "_.-[]".contains(c);
        if path.is_empty() || !path.chars().all(is_path_char) {
            return Err(format!("{path:?} is not a path like connect_ms.p99"));
        }
        let bound = parse_bound(path, bound)?;
        Ok(Self { text: text.to_owned(), path: path.to_owned(), operator, bound })
    }
}

/// Parses a number. The number may have a unit if the path names the unit of its value.
#[expect(clippy::cast_precision_loss, reason = "no bound comes near 2^53 bytes")]
fn parse_bound(path: &str, text: &str) -> Result<f64, String> {
    if let Some(number) = text.parse().ok().filter(|number: &f64| number.is_finite()) {
        return Ok(number);
    }
    let no_number = || format!("{text:?} is not a number");
    let duration = || humantime::parse_duration(text).map_err(|error| format!("{}: {error}", no_number()));
    match path.rsplit(['_', '.']).find(|word| ["ms", "seconds", "bytes"].contains(word)) {
        Some("ms") => duration().map(millis),
        Some("seconds") => duration().map(seconds),
        Some(_) => text.parse().map(|ByteSize(bytes)| bytes as f64).map_err(|_| no_number()),
        None => Err(no_number()),
    }
}

impl Assertion {
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    pub(crate) fn judge(&self, document: &Document) -> Verdict {
        match document.number(&self.path) {
            Ok(number) if self.operator.holds(number, self.bound) => Verdict::Holds(number),
            Ok(number) => Verdict::Fails(number),
            Err(why) => Verdict::Meaningless(why),
        }
    }

    /// Returns the entry for the result document.
    pub(crate) fn to_result(&self, verdict: &Verdict) -> Group {
        let (holds, number) = match verdict {
            Verdict::Holds(number) => (Some(true), Some(*number)),
            Verdict::Fails(number) => (Some(false), Some(*number)),
            Verdict::Meaningless(_) => (None, None),
        };
        Group::default()
            .with("assert", self.text.as_str())
            .with("holds", holds)
            .with("number", number.map(shortest))
    }

    /// Returns whether the assertion can no longer hold, given the current value of a number that only grows.
    pub(crate) fn is_past(&self, number: f64) -> bool {
        match self.operator {
            Operator::Less => number >= self.bound,
            Operator::LessOrEqual | Operator::Equal => number > self.bound,
            Operator::Greater | Operator::GreaterOrEqual | Operator::NotEqual => false,
        }
    }
}

impl fmt::Display for Assertion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Operator {
    #[expect(clippy::float_cmp, reason = "equality is what the user asked for; counts are whole numbers")]
    fn holds(self, number: f64, bound: f64) -> bool {
        match self {
            Self::Less => number < bound,
            Self::LessOrEqual => number <= bound,
            Self::Greater => number > bound,
            Self::GreaterOrEqual => number >= bound,
            Self::Equal => number == bound,
            Self::NotEqual => number != bound,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Assertion {
        text.parse().expect("it is a valid assertion")
    }

    fn judge(text: &str) -> Verdict {
        let numbers = Group::default()
            .with("scenario", "hold")
            .with("errors", 2)
            .with("connect_ms", Group::default().with("p99", 1.5).with("p99.9", 2500.0))
            .with("list", vec![4.0, 5.0]);
        parse(text).judge(&Document::of_numbers(numbers))
    }

    #[test]
    fn every_operator_compares() {
        for holds in ["errors<3", "errors<=2", "errors>1", "errors>=2", "errors==2", "errors!=3"] {
            assert_eq!(judge(holds), Verdict::Holds(2.0), "{holds}");
        }
        for fails in ["errors<2", "errors<=1", "errors>2", "errors>=3", "errors==3", "errors!=2"] {
            assert_eq!(judge(fails), Verdict::Fails(2.0), "{fails}");
        }
    }

    #[test]
    fn blanks_and_fractions_are_accepted() {
        assert_eq!(judge(" connect_ms.p99 < 1.5001 "), Verdict::Holds(1.5));
        assert_eq!(judge("connect_ms.p99<=1.4999"), Verdict::Fails(1.5));
    }

    #[test]
    fn a_path_must_lead_to_a_number() {
        assert_eq!(judge("list[1]==5"), Verdict::Holds(5.0));
        assert_eq!(judge("conect_ms.p99<1"), Verdict::Meaningless(PathError::Unknown));
        assert_eq!(judge("scenario==1"), Verdict::Meaningless(PathError::NotANumber));
    }

    #[test]
    fn a_bound_may_have_the_unit_that_the_path_has() {
        assert_eq!(judge("connect_ms.p99.9==2500ms"), Verdict::Holds(2500.0));
        assert_eq!(judge("connect_ms.p99.9<2s"), Verdict::Fails(2500.0));
        for (text, bound) in [
            ("elapsed_seconds<2min", 120.0),
            ("lag_ms_max<500us", 0.5),
            ("loadgen.peak_resident_bytes<1MiB", 1_048_576.0),
        ] {
            assert!((parse(text).bound - bound).abs() < 1e-9, "{text}");
        }
        for bad in ["errors<2s", "connect_ms.p99<2MiB", "peak_bytes<2s", "deliveries_per_second<2s"] {
            assert!(bad.parse::<Assertion>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_growing_number_can_only_pass_an_upper_bound() {
        for (text, past) in
            [("lost==0", [false, true]), ("lost<=0", [false, true]), ("lost<1", [false, true])]
        {
            assert_eq!([0.0, 1.0].map(|number| parse(text).is_past(number)), past, "{text}");
        }
        for never in ["lost>=5", "lost>5", "lost!=0"] {
            assert!(!parse(never).is_past(0.0), "{never}");
        }
        assert!(!parse("received==10").is_past(9.0), "it may still hold later");
    }

    #[test]
    fn bad_assertions_are_refused() {
        for bad in
            ["", "errors", "errors=2", "<2", "errors<", "errors<x", "errors<2<3", "errors=<2", "errors<nan"]
        {
            assert!(bad.parse::<Assertion>().is_err(), "{bad}");
        }
    }
}
