//! `--assert 'connect_ms.p99<2000'`: compares a number of the result with a bound.

use std::fmt;
use std::str::FromStr;

use bytesize::ByteSize;
use serde::{Serialize, Serializer};

use super::{Document, PathError, millis, seconds, shortest};

#[derive(Clone, Debug)]
pub(crate) struct Assertion {
    text: String,
    path: String,
    holds: Comparison,
    /// Whether a number that only grows has passed the bound, so that the assertion can no longer hold.
    is_past: Comparison,
    bound: f64,
}

type Comparison = fn(f64, f64) -> bool;

/// Operators, and what becomes `holds` and `is_past`. The ones with two characters come first, because `<` is a
/// prefix of `<=`.
#[expect(clippy::float_cmp, reason = "equality is what the user asked for; counts are whole numbers")]
const OPERATORS: [(&str, Comparison, Comparison); 6] = [
    ("<=", |number, bound| number <= bound, |number, bound| number > bound),
    (">=", |number, bound| number >= bound, |_, _| false),
    ("==", |number, bound| number == bound, |number, bound| number > bound),
    ("!=", |number, bound| number != bound, |_, _| false),
    ("<", |number, bound| number < bound, |number, bound| number >= bound),
    (">", |number, bound| number > bound, |_, _| false),
];

/// Verdict on an assertion, with the number that was compared.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Verdict {
    pub(crate) assert: String,
    /// `None` if the result has no such number.
    pub(crate) holds: Option<bool>,
    #[serde(serialize_with = "serialize_number")]
    pub(crate) number: Result<f64, PathError>,
}

/// Writes a whole number as an integer, and an error as null.
fn serialize_number<S: Serializer>(
    number: &Result<f64, PathError>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    number.as_ref().ok().map(|number| shortest(*number)).serialize(serializer)
}

impl FromStr for Assertion {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = OPERATORS.into_iter().find_map(|it| Some((it, text.split_once(it.0)?)));
        let ((_, holds, is_past), (path, bound)) =
            found.ok_or("no operator: expected one of < <= > >= == !=")?;
        let (path, bound) = (path.trim(), bound.trim());
        let is_path_char = |c: char| c.is_ascii_alphanumeric() || "_.-[]".contains(c);
        if path.is_empty() || !path.chars().all(is_path_char) {
            return Err(format!("{path:?} is not a path like connect_ms.p99"));
        }
        let bound = parse_bound(path, bound)?;
        Ok(Self { text: text.to_owned(), path: path.to_owned(), holds, is_past, bound })
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
        let number = document.number(&self.path);
        let holds = number.as_ref().ok().map(|number| (self.holds)(*number, self.bound));
        Verdict { assert: self.text.clone(), holds, number }
    }

    /// Returns whether the assertion can no longer hold, given the current value of a number that only grows.
    pub(crate) fn is_past(&self, number: f64) -> bool {
        (self.is_past)(number, self.bound)
    }
}

impl fmt::Display for Assertion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::Group;

    fn parse(text: &str) -> Assertion {
        text.parse().expect("it is a valid assertion")
    }

    #[test]
    fn numbers_are_compared_with_the_bound() {
        let numbers = Group::default()
            .with("scenario", "hold")
            .with("errors", 2)
            .with("connect_ms", Group::default().with("p99", 1.5).with("p99.9", 2500.0))
            .with("list", vec![4.0, 5.0]);
        let document = Document { numbers, ..Document::default() };
        let judge = |text| parse(text).judge(&document);
        let holds = "errors<3,errors<=2,errors>1,errors>=2,errors==2,errors!=3, connect_ms.p99 < 1.5001 ,\
                     connect_ms.p99.9==2500ms,list[1]==5";
        let fails = "errors<2,errors<=1,errors>2,errors>=3,errors==3,errors!=2,connect_ms.p99<=1.4999,\
                     connect_ms.p99.9<2s";
        for (texts, expected) in [(holds, true), (fails, false)] {
            texts.split(',').for_each(|text| assert_eq!(judge(text).holds, Some(expected), "{text}"));
        }
        assert_eq!(judge("conect_ms.p99<1").number, Err(PathError::Unknown));
        assert_eq!(judge("scenario==1").number, Err(PathError::NotANumber));
    }

    #[test]
    fn a_bound_may_have_the_unit_that_the_path_has() {
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
        for text in ["lost==0", "lost<=0", "lost<1"] {
            assert_eq!([0.0, 1.0].map(|number| parse(text).is_past(number)), [false, true], "{text}");
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
