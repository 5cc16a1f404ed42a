//! The name that was probably meant instead of an unknown one.

use strsim::osa_distance;

/// Maximum length of a name that is compared, in bytes, because the time is proportional to it.
const MAX_BYTES: usize = 64;

/// Returns the known name that is nearest to `unknown`, ignoring case. `None` if the edit distance exceeds a third
/// of the length of `unknown`, and 1. Also `None` if `unknown` is longer than 64 bytes.
#[must_use]
pub fn nearest<'a>(unknown: &str, known: &[&'a str]) -> Option<&'a str> {
    if unknown.len() > MAX_BYTES {
        return None;
    }
    let unknown = unknown.to_lowercase();
    let allowed = unknown.chars().count().max(3) / 3;
    let distances = known.iter().map(|name| (osa_distance(&unknown, &name.to_lowercase()), *name));
    distances
        .filter(|&(distance, _)| distance <= allowed)
        .min_by_key(|&(distance, _)| distance)
        .map(|it| it.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn similar_names_are_found() {
        let known = ["channels", "last", "lastEventId", "seq"];
        for (unknown, expected) in [
            ("chanels", Some("channels")),
            ("channel", Some("channels")),
            ("Channels", Some("channels")),
            ("chnanels", Some("channels")),
            ("lst", Some("last")),
            ("last_event_id", Some("lastEventId")),
            ("sqe", Some("seq")),
            ("x", None),
            ("", None),
            ("limit", None),
        ] {
            assert_eq!(nearest(unknown, &known), expected, "{unknown}");
        }
        assert_eq!(nearest(&"seq".repeat(1_000), &known), None);
        assert_eq!(nearest("seq", &[]), None);
    }
}
