//! A distribution of times, whole: told in percentiles, written so that it can be read back and added up exactly.

use data_encoding::BASE64;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer as _, V2DeflateSerializer};
use serde::ser::{Serialize, Serializer};

use super::group::{Field, Group};
#[cfg(test)]
use super::path::NoNumber;

/// The names of the percentiles that are told, and where they are.
pub(crate) const PERCENTILES: [(&str, f64); 7] = [
    ("p50", 0.5),
    ("p75", 0.75),
    ("p90", 0.9),
    ("p95", 0.95),
    ("p99", 0.99),
    ("p99.9", 0.999),
    ("p99.99", 0.9999),
];

/// Microseconds; told in milliseconds.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Distribution(Histogram<u64>);

impl From<Histogram<u64>> for Distribution {
    fn from(micros: Histogram<u64>) -> Self {
        Self(micros)
    }
}

impl Distribution {
    pub(crate) fn micros(&self) -> &Histogram<u64> {
        &self.0
    }

    /// `count`, `min`, `mean`, the percentiles and `max`; null as long as there is nothing to tell.
    pub(crate) fn percentiles(&self) -> Group {
        let told = |millis: f64| (!self.0.is_empty()).then_some(millis);
        let mut group = Group::default()
            .with("count", self.0.len())
            .with("min", told(as_millis(self.0.min())))
            .with("mean", told((self.0.mean()).round() / 1e3));
        for (name, quantile) in PERCENTILES {
            group = group.with(name, told(self.at(quantile)));
        }
        group.with("max", told(as_millis(self.0.max())))
    }

    /// The time in milliseconds that this share of all is not longer than.
    pub(crate) fn at(&self, quantile: f64) -> f64 {
        as_millis(self.0.value_at_quantile(quantile))
    }

    /// One of the percentiles by its name.
    #[cfg(test)]
    pub(crate) fn number(&self, name: &str) -> Result<f64, NoNumber> {
        self.percentiles().number(name)
    }

    /// The whole histogram: what other HDR tools read, too.
    pub(crate) fn to_json(&self) -> Group {
        let mut bytes = Vec::new();
        V2DeflateSerializer::new().serialize(&self.0, &mut bytes).expect("writing into memory cannot fail");
        Group::default().with("unit", "us").with("hdr", BASE64.encode(&bytes).as_str())
    }

    pub(crate) fn from_json(field: &Field) -> Option<Self> {
        let group = field.as_group()?;
        if group.get("unit")?.as_text()? != "us" {
            return None;
        }
        let bytes = BASE64.decode(group.get("hdr")?.as_text()?.as_bytes()).ok()?;
        Deserializer::new().deserialize(&mut bytes.as_slice()).map(Self).ok()
    }
}

impl Serialize for Distribution {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.percentiles().serialize(serializer)
    }
}

#[expect(clippy::cast_precision_loss, reason = "no time comes near 2^53 microseconds")]
fn as_millis(micros: u64) -> f64 {
    micros as f64 / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(micros: impl IntoIterator<Item = u64>) -> Distribution {
        let mut histogram = Histogram::new_with_bounds(1, 3_600_000_000, 3).expect("the bounds are good");
        micros.into_iter().for_each(|time| histogram.saturating_record(time));
        histogram.into()
    }

    #[test]
    fn the_percentiles_go_up_to_the_fourth_nine() {
        let told = of((1..=100_000).map(|number| number * 10));
        for (name, exact) in [("p50", 500.0), ("p99.9", 999.0), ("p99.99", 999.9), ("max", 1000.0)] {
            let number = told.number(name).expect("there are samples");
            assert!((number - exact).abs() <= exact / 1000.0, "{name} is {number}");
        }
        assert_eq!(told.number("count"), Ok(100_000.0));
        assert_eq!(of([]).number("count"), Ok(0.0));
        assert_eq!(of([]).number("p99"), Err(NoNumber::NotANumber));
    }

    #[test]
    fn what_is_read_back_adds_up_exactly() {
        let again = |whole: &Distribution| {
            Distribution::from_json(&whole.to_json().into()).expect("it is what was written")
        };
        let (odd, even) = (of((1..9999).step_by(2)), of((0..9999).step_by(2)));
        let mut both = again(&odd).0;
        both.add(again(&even).0).expect("the bounds are the same");
        assert_eq!(both, of(0..9999).0);
    }

    #[test]
    fn what_is_no_histogram_is_none() {
        let text = |unit: &str, hdr: &str| Field::from(Group::default().with("unit", unit).with("hdr", hdr));
        let Some(hdr) = of([1]).to_json().get("hdr").and_then(|hdr| hdr.as_text().map(str::to_owned)) else {
            panic!("it is written as a text");
        };
        assert!(Distribution::from_json(&text("us", &hdr)).is_some());
        for bad in
            [text("ms", &hdr), text("us", "x"), text("us", "AAAA"), text("us", &hdr[..8]), Field::Nothing]
        {
            assert!(Distribution::from_json(&bad).is_none(), "{bad:?}");
        }
    }
}
