//! Adds up what several processes have counted and timed.

use std::time::SystemTime;

use crate::result::Measured;
use crate::result::{Distribution, Ending, Field, Group, Run, Series};

/// How numbers that are not counts are put together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    Sum,
    Mean,
    /// Most are times of the last or the worst.
    Max,
}

fn rule(name: &str) -> Rule {
    let ends_with = |ends: &[&str]| ends.iter().any(|end| name.ends_with(end));
    if ends_with(&["cpu_seconds", "cores.mean", "cores.peak", "per_second"]) {
        Rule::Sum
    } else if ends_with(&["per_connection", "per_ping"]) {
        Rule::Mean
    } else {
        Rule::Max
    }
}

/// The whole of these parts, which ran at the same time, and whose samples are in the series.
pub(super) fn merge(
    parts: Vec<Measured>,
    series: Series,
    started_at: SystemTime,
) -> Result<Measured, String> {
    let elapsed = parts.iter().map(|worker| worker.run.elapsed).max().unwrap_or_default();
    let interrupted = parts.iter().any(|worker| worker.run.ending == Ending::Interrupted);
    let ending = if interrupted { Ending::Interrupted } else { Ending::Finished };
    let phases = parts.first().map(|worker| worker.run.phases.clone()).unwrap_or_default();
    let numbers = merge_groups("", parts.into_iter().map(|worker| worker.numbers).collect())?;
    Ok(Measured { run: Run { started_at, elapsed, ending, phases }, numbers, series })
}

/// All fields of all of them, in the order in which they come.
fn merge_groups(path: &str, groups: Vec<Group>) -> Result<Group, String> {
    let mut fields: Vec<(String, Vec<Field>)> = Vec::new();
    for (name, field) in groups.into_iter().flatten() {
        match fields.iter_mut().find(|(known, _)| *known == name) {
            Some((_, same)) => same.push(field),
            None => fields.push((name, vec![field])),
        }
    }
    let merged = fields.into_iter().map(|(name, same)| {
        let field = merge_fields(&format!("{path}{name}"), same)?;
        Ok((name, field))
    });
    merged.collect()
}

#[expect(clippy::cast_precision_loss, reason = "there are few parts")]
fn merge_fields(path: &str, mut fields: Vec<Field>) -> Result<Field, String> {
    fields.retain(|field| *field != Field::Nothing);
    Ok(match fields.first() {
        None => Field::Nothing,
        Some(Field::Count(_)) => counts(&fields).ok_or_else(|| odd(path))?.into(),
        Some(Field::Real(_)) => {
            let numbers: Option<Vec<f64>> = fields.iter().map(Field::as_number).collect();
            let numbers = numbers.ok_or_else(|| odd(path))?;
            Field::Real(match rule(path) {
                // Back to the decimals that the parts have.
                Rule::Sum => (numbers.iter().sum::<f64>() * 1e6).round() / 1e6,
                Rule::Mean => numbers.iter().sum::<f64>() / numbers.len() as f64,
                Rule::Max => numbers.iter().copied().fold(f64::MIN, f64::max),
            })
        }
        Some(Field::Flag(_)) => fields.contains(&Field::Flag(true)).into(),
        Some(Field::Group(_)) => {
            let groups = fields.iter().map(|field| field.as_group().cloned());
            let groups = groups.collect::<Option<_>>().ok_or_else(|| odd(path))?;
            Field::Group(merge_groups(&format!("{path}."), groups)?)
        }
        Some(Field::Distribution(_)) => distributions(&fields).ok_or_else(|| odd(path))?.into(),
        Some(Field::Text(_) | Field::List(_) | Field::Nothing) => fields.swap_remove(0),
    })
}

fn counts(fields: &[Field]) -> Option<u64> {
    let counts = fields.iter().map(|field| if let Field::Count(count) = field { Some(*count) } else { None });
    counts.sum()
}

fn distributions(fields: &[Field]) -> Option<Distribution> {
    let all = fields.iter().map(|it| if let Field::Distribution(all) = it { Some(&**all) } else { None });
    let all: Vec<&Distribution> = all.collect::<Option<_>>()?;
    Distribution::sum_of(&all)
}

fn odd(path: &str) -> String {
    format!("the processes tell {path} in different ways")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use super::*;
    use crate::record::Times;

    fn part(times: &[u64], codes: &[(u16, u64)], seconds: Option<f64>) -> Group {
        let connect = Times::default();
        times.iter().for_each(|micros| connect.record(Duration::from_micros(*micros)));
        Group::default()
            .with("connected", times.len() as u64)
            .with("connect_ms", connect.summary())
            .with("seconds", seconds)
            .with("close_codes", codes.iter().copied().collect::<BTreeMap<_, _>>())
            .with("loadgen", Group::default().with("cpu_seconds", 1.5).with("bytes_per_connection", 3.0))
    }

    #[test]
    fn counts_and_histograms_are_those_of_all_values() {
        let (odd, even): (Vec<u64>, Vec<u64>) = (1..=9999).partition(|micros| micros % 2 == 1);
        let all: Vec<u64> = (1..=9999).collect();
        let parts =
            vec![part(&odd, &[(4000, 2), (4002, 1)], None), part(&even, &[(1006, 7), (4000, 40)], Some(2.5))];
        let merged = merge_groups("", parts).expect("they are alike");
        let whole = part(&all, &[(4000, 42), (4002, 1), (1006, 7)], Some(2.5));
        assert_eq!(merged.get("connected"), whole.get("connected"));
        assert_eq!(merged.get("connect_ms"), whole.get("connect_ms"), "to the last bucket");
        assert_eq!(merged.number("seconds"), Ok(2.5));
        for (code, count) in [("4000", 42.0), ("4002", 1.0), ("1006", 7.0)] {
            assert_eq!(merged.number(&format!("close_codes.{code}")), Ok(count));
        }
        assert_eq!(merged.number("loadgen.cpu_seconds"), Ok(3.0));
        assert_eq!(merged.number("loadgen.bytes_per_connection"), Ok(3.0));
    }

    #[test]
    fn parts_that_differ_are_told() {
        let parts = vec![Group::default().with("x", 1), Group::default().with("x", "one")];
        assert_eq!(merge_groups("", parts), Err("the processes tell x in different ways".to_owned()));
    }
}
