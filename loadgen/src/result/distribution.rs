//! Distributions of times. They are displayed as percentiles, and written as complete histograms, which can
//! be read back and added up exactly.

use data_encoding::BASE64;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer as _, V2DeflateSerializer};
use serde::{Deserialize, Serialize};

use super::group::Group;

pub(crate) const PERCENTILES: [(&str, f64); 7] = [
    ("p50", 0.5),
    ("p75", 0.75),
    ("p90", 0.9),
    ("p95", 0.95),
    ("p99", 0.99),
    ("p99.9", 0.999),
    ("p99.99", 0.9999),
];

/// Histogram in microseconds; displayed in milliseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Hdr", into = "Hdr")]
pub(crate) struct Distribution(Histogram<u64>);

/// Complete histogram as JSON, readable by other HDR tools.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Hdr {
    unit: Unit,
    hdr: String,
}

#[derive(Serialize, Deserialize)]
enum Unit {
    #[serde(rename = "us")]
    Micros,
}

impl From<Histogram<u64>> for Distribution {
    fn from(micros: Histogram<u64>) -> Self {
        Self(micros)
    }
}

impl Distribution {
    /// Adds the times of another distribution with the same bounds.
    pub(crate) fn add(&mut self, other: &Self) {
        self.0.add(&other.0).expect("all histograms have the same bounds");
    }

    pub(crate) fn micros(&self) -> &Histogram<u64> {
        &self.0
    }

    /// Returns `count`, `min`, `mean`, the percentiles and `max`. All but the count are null without samples.
    pub(crate) fn percentiles(&self) -> Group {
        let if_any = |millis: f64| (!self.0.is_empty()).then_some(millis);
        let mut group = Group::default()
            .with("count", self.0.len())
            .with("min", if_any(as_millis(self.0.min())))
            .with("mean", if_any((self.0.mean()).round() / 1e3));
        for (name, quantile) in PERCENTILES {
            group = group.with(name, if_any(self.at(quantile)));
        }
        group.with("max", if_any(as_millis(self.0.max())))
    }

    /// Returns the time at a quantile, in milliseconds.
    pub(crate) fn at(&self, quantile: f64) -> f64 {
        as_millis(self.0.value_at_quantile(quantile))
    }
}

impl From<Distribution> for Hdr {
    fn from(Distribution(histogram): Distribution) -> Self {
        let mut bytes = Vec::new();
        V2DeflateSerializer::new().serialize(&histogram, &mut bytes).expect("writing to memory cannot fail");
        Self { unit: Unit::Micros, hdr: BASE64.encode(&bytes) }
    }
}

impl TryFrom<Hdr> for Distribution {
    type Error = &'static str;

    fn try_from(Hdr { unit: Unit::Micros, hdr }: Hdr) -> Result<Self, Self::Error> {
        let bytes = BASE64.decode(hdr.as_bytes()).map_err(|_| "invalid base64")?;
        let histogram = Deserializer::new().deserialize(&mut bytes.as_slice());
        histogram.map(Self).map_err(|_| "not a histogram")
    }
}

#[expect(clippy::cast_precision_loss, reason = "no time comes near 2^53 microseconds")]
fn as_millis(micros: u64) -> f64 {
    micros as f64 / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::PathError;

    fn of(micros: impl IntoIterator<Item = u64>) -> Distribution {
        let mut histogram = Histogram::new_with_bounds(1, 3_600_000_000, 3).expect("the bounds are valid");
        micros.into_iter().for_each(|time| histogram.saturating_record(time));
        histogram.into()
    }

    #[test]
    fn the_percentiles_go_up_to_the_fourth_nine() {
        let distribution = of((1..=100_000).map(|number| number * 10));
        for (name, exact) in [("p50", 500.0), ("p99.9", 999.0), ("p99.99", 999.9), ("max", 1000.0)] {
            let number = distribution.percentiles().number(name).expect("the distribution has samples");
            assert!((number - exact).abs() <= exact / 1000.0, "{name} is {number}");
        }
        assert_eq!(distribution.percentiles().number("count"), Ok(100_000.0));
        assert_eq!(of([]).percentiles().number("count"), Ok(0.0));
        assert_eq!(of([]).percentiles().number("p99"), Err(PathError::Unmeasured));
    }

    #[test]
    fn histograms_read_back_add_up_exactly() {
        let again = |whole: &Distribution| -> Distribution {
            let json = serde_json::to_string(whole).expect("it can be serialised");
            serde_json::from_str(&json).expect("it can be read back")
        };
        let (odd, even) = (of((1..9999).step_by(2)), of((0..9999).step_by(2)));
        let mut both = again(&odd);
        both.add(&again(&even));
        assert_eq!(both, of(0..9999));
    }

    #[test]
    fn invalid_histograms_are_refused() {
        let json = |unit: &str, hdr: &str| format!(r#"{{"unit":"{unit}","hdr":"{hdr}"}}"#);
        let hdr = Hdr::from(of([1])).hdr;
        assert!(serde_json::from_str::<Distribution>(&json("us", &hdr)).is_ok());
        for bad in
            [json("ms", &hdr), json("us", "x"), json("us", "AAAA"), json("us", &hdr[..8]), "null".to_owned()]
        {
            assert!(serde_json::from_str::<Distribution>(&bad).is_err(), "{bad:?}");
        }
    }
}
