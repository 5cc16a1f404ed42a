//! The first frame of a client that reports its positions: `{"positions":{"news":["epoch",42]}}`.

use std::collections::HashMap;

use serde::Deserialize;

use crate::dialect::Since;

#[derive(Deserialize)]
struct PositionsFrame {
    positions: HashMap<String, (String, u64)>,
}

/// Parses the positions of a client: the last message that it has received of each channel. `None` if the text is
/// malformed.
#[must_use]
pub fn parse_positions(text: &str) -> Option<Vec<(String, Since<'static>)>> {
    let PositionsFrame { positions } = serde_json::from_str(text).ok()?;
    let since = |(channel, (epoch, offset)): (String, (String, u64))| {
        (channel, Since { epoch: epoch.into(), offset })
    };
    Some(positions.into_iter().map(since).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_read() {
        let position = ("news".to_owned(), Since { epoch: "e".into(), offset: 42 });
        assert_eq!(parse_positions(r#"{"positions":{"news":["e",42]}}"#), Some(vec![position]));
        assert_eq!(parse_positions(r#"{"positions":{}}"#), Some(Vec::new()));
        for malformed in [
            "",
            "{}",
            "[]",
            r#"{"positions":[]}"#,
            r#"{"positions":{"news":"e"}}"#,
            r#"{"positions":{"news":["e"]}}"#,
            r#"{"positions":{"news":["e",-1]}}"#,
            r#"{"positions":{"news":["e",1,2]}}"#,
        ] {
            assert_eq!(parse_positions(malformed), None, "{malformed}");
        }
    }
}
