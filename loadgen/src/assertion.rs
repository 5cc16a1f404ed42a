//! `--assert 'connect_ms.p99<2000'`: a number of the report, compared with a bound.

use std::fmt;
use std::str::FromStr;

use crate::report::{Group, NoNumber};

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

/// Those of two characters come first: `<` is also how `<=` begins.
const OPERATORS: [(&str, Operator); 6] = [
    ("<=", Operator::LessOrEqual),
    (">=", Operator::GreaterOrEqual),
    ("==", Operator::Equal),
    ("!=", Operator::NotEqual),
    ("<", Operator::Less),
    (">", Operator::Greater),
];

/// What became of an assertion.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Verdict {
    Holds,
    /// It does not: the number is this one.
    Fails(f64),
    /// There is no such number.
    Meaningless(NoNumber),
}

impl FromStr for Assertion {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (symbol, operator) = OPERATORS
            .into_iter()
            .find(|(symbol, _)| text.contains(symbol))
            .ok_or("has none of the operators < <= > >= == !=")?;
        let (path, bound) = text.split_once(symbol).expect("the text contains the symbol");
        let (path, bound) = (path.trim(), bound.trim());
        let is_path_char = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
        if path.is_empty() || !path.chars().all(is_path_char) {
            return Err(format!("{path:?} is not a path like connect_ms.p99"));
        }
        let bound = bound.parse().map_err(|_| format!("{bound:?} is not a number"))?;
        Ok(Self { text: text.to_owned(), path: path.to_owned(), operator, bound })
    }
}

impl Assertion {
    pub(crate) fn judge(&self, report: &Group) -> Verdict {
        match report.number(&self.path) {
            Ok(number) if self.operator.holds(number, self.bound) => Verdict::Holds,
            Ok(number) => Verdict::Fails(number),
            Err(why) => Verdict::Meaningless(why),
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

    fn judge(text: &str) -> Verdict {
        let report = Group::default()
            .with("scenario", "hold")
            .with("errors", 2)
            .with("connect_ms", Group::default().with("p99", 1.5));
        text.parse::<Assertion>().expect("the text is an assertion").judge(&report)
    }

    #[test]
    fn every_operator_compares() {
        for holds in ["errors<3", "errors<=2", "errors>1", "errors>=2", "errors==2", "errors!=3"] {
            assert_eq!(judge(holds), Verdict::Holds, "{holds}");
        }
        for fails in ["errors<2", "errors<=1", "errors>2", "errors>=3", "errors==3", "errors!=2"] {
            assert_eq!(judge(fails), Verdict::Fails(2.0), "{fails}");
        }
    }

    #[test]
    fn blanks_and_fractions_are_fine() {
        assert_eq!(judge(" connect_ms.p99 < 1.5001 "), Verdict::Holds);
        assert_eq!(judge("connect_ms.p99<=1.4999"), Verdict::Fails(1.5));
    }

    #[test]
    fn a_path_must_lead_to_a_number() {
        assert_eq!(judge("conect_ms.p99<1"), Verdict::Meaningless(NoNumber::Unknown));
        assert_eq!(judge("scenario==1"), Verdict::Meaningless(NoNumber::NotANumber));
    }

    #[test]
    fn bad_assertions_are_refused() {
        for bad in ["", "errors", "errors=2", "<2", "errors<", "errors<x", "errors<2<3", "errors=<2"] {
            assert!(bad.parse::<Assertion>().is_err(), "{bad}");
        }
    }
}
