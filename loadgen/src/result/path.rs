//! Finds numbers by paths like `connect_ms.p99.9` or `phases[1].seconds`.

use std::fmt;

use super::group::{Field, Group};

/// Why a path does not lead to a number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PathError {
    Unknown,
    /// Nothing was measured at this path, but it may have a number in another result.
    Unmeasured,
    NotANumber,
}

impl fmt::Display for PathError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unknown => "the result has no such path",
            Self::Unmeasured => "nothing was measured at this path",
            Self::NotANumber => "the value at this path is not a number",
        })
    }
}

impl Group {
    /// Returns the number at a path: names separated by dots, and indices in brackets. Names may contain
    /// dots.
    pub(crate) fn number(&self, path: &str) -> Result<f64, PathError> {
        self.iter()
            .filter_map(|(name, field)| Some((field, path.strip_prefix(name)?)))
            .find_map(|(field, rest)| resolve(field, rest))
            .unwrap_or(Err(PathError::Unknown))
    }
}

/// Returns the number at the rest of a path. `None` if the rest does not fit this field.
fn resolve(field: &Field, rest: &str) -> Option<Result<f64, PathError>> {
    if rest.is_empty() {
        return Some(match field {
            Field::Null => Err(PathError::Unmeasured),
            field => field.as_number().ok_or(PathError::NotANumber),
        });
    }
    let result = match field {
        Field::Group(group) => group.number(rest.strip_prefix('.')?),
        Field::Distribution(distribution) => distribution.percentiles().number(rest.strip_prefix('.')?),
        Field::List(list) => {
            let (index, rest) = rest.strip_prefix('[')?.split_once(']')?;
            return resolve(list.get(index.parse::<usize>().ok()?)?, rest);
        }
        _ => return None,
    };
    (result != Err(PathError::Unknown)).then_some(result)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn numbers_are_found_by_path() {
        let phase = |seconds: f64| Group::default().with("name", "hold").with("seconds", seconds);
        let result = Group::default()
            .with("scenario", "hold")
            .with("connected", 3)
            .with(
                "connect_ms",
                Group::default().with("p99", 0.25).with("p99.9", 0.5).with("max", None::<f64>),
            )
            .with("close_codes", BTreeMap::from([("4000".to_owned(), 2)]))
            .with("phases", vec![phase(1.0), phase(2.0)]);
        for (path, number) in [
            ("connected", 3.0),
            ("connect_ms.p99", 0.25),
            ("connect_ms.p99.9", 0.5),
            ("close_codes.4000", 2.0),
            ("phases[1].seconds", 2.0),
        ] {
            assert_eq!(result.number(path), Ok(number), "{path}");
        }
        for unknown in [
            "",
            "p50",
            "connect_ms.p99.99",
            "connect_msp99",
            "connected.p50",
            "close_codes.4001",
            "phases[2].seconds",
            "phases[x]",
            "phases[1",
            "phases[1]seconds",
            "phases.seconds",
        ] {
            assert_eq!(result.number(unknown), Err(PathError::Unknown), "{unknown}");
        }
        assert_eq!(result.number("connect_ms.max"), Err(PathError::Unmeasured));
        for other in ["scenario", "connect_ms", "phases", "phases[0]", "phases[0].name"] {
            assert_eq!(result.number(other), Err(PathError::NotANumber), "{other}");
        }
    }
}
