//! Patterns, which match channels by the segments of their names: `/a/*` matches exactly one more segment,
//! `/a/**` one or more.
//!
//! Only names that begin with a slash have segments, so only these can be patterns or match one.

/// A name whose last segment is a wildcard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pattern<'a> {
    /// Everything before the wildcard, including the final slash.
    before: &'a str,
    /// Whether the wildcard matches more than one segment (`**`).
    deep: bool,
}

const SHALLOW: &str = "*";
const DEEP: &str = "**";

impl<'a> Pattern<'a> {
    /// Parses `name`, or returns `None` if it is not a pattern.
    pub(super) fn parse(name: &'a str) -> Option<Self> {
        let last = name.strip_prefix('/')?.rsplit('/').next()?;
        let before = &name[..name.len() - last.len()];
        match last {
            SHALLOW => Some(Self { before, deep: false }),
            DEEP => Some(Self { before, deep: true }),
            _ => None,
        }
    }

    /// Whether the pattern matches `channel`. Patterns never match other patterns.
    pub(super) fn matches(&self, channel: &str) -> bool {
        let rest = channel.strip_prefix(self.before);
        rest.is_some_and(|rest| self.deep || !rest.contains('/')) && Pattern::parse(channel).is_none()
    }

    /// Whether some channel name matches both patterns.
    fn overlaps(&self, other: &Pattern<'_>) -> bool {
        match (self.deep, other.deep) {
            (false, false) => self.before == other.before,
            (true, false) => other.before.starts_with(self.before),
            (false, true) => self.before.starts_with(other.before),
            (true, true) => self.before.starts_with(other.before) || other.before.starts_with(self.before),
        }
    }
}

/// Whether the logs of two names can contain the same message: the names are equal, one is a pattern that
/// matches the other, or both are patterns that match a common channel.
pub fn overlap(one: &str, other: &str) -> bool {
    match (Pattern::parse(one), Pattern::parse(other)) {
        (None, None) => one == other,
        (Some(pattern), None) => pattern.matches(other),
        (None, Some(pattern)) => pattern.matches(one),
        (Some(one), Some(other)) => one.overlaps(&other),
    }
}

/// Calls `found` with every pattern that matches `channel`: n + 1 patterns for a channel with n segments. Any
/// two patterns are visited in the same order for all channels that both match.
pub(super) fn for_each_matching(channel: &str, mut found: impl FnMut(&str)) {
    if !channel.starts_with('/') {
        return;
    }
    let mut name = String::with_capacity(channel.len() + DEEP.len());
    for (slash, _) in channel.match_indices('/') {
        name.clear();
        name.push_str(&channel[..=slash]);
        name.push_str(DEEP);
        found(&name);
    }
    // `*` does not match a slash, so it can only replace the last segment.
    name.truncate(name.len() - DEEP.len());
    name.push_str(SHALLOW);
    found(&name);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matching(channel: &str) -> Vec<String> {
        let mut found = Vec::new();
        for_each_matching(channel, |name| found.push(name.to_owned()));
        found
    }

    #[test]
    fn a_pattern_ends_with_a_wildcard() {
        for (name, pattern) in [
            ("/*", Some(("/", false))),
            ("/**", Some(("/", true))),
            ("/a/b/*", Some(("/a/b/", false))),
            ("/a/*/**", Some(("/a/*/", true))),
            ("/a/***", None),
            ("/a/b*", None),
            ("/a/*/", None),
            ("/", None),
            ("", None),
            ("*", None),
            ("a/*", None),
            ("a.*", None),
        ] {
            let pattern = pattern.map(|(before, deep)| Pattern { before, deep });
            assert_eq!(Pattern::parse(name), pattern, "{name}");
        }
    }

    #[test]
    fn channel_with_n_segments_has_n_plus_one_patterns() {
        assert_eq!(matching("/a"), ["/**", "/*"]);
        assert_eq!(matching("/a/b/c"), ["/**", "/a/**", "/a/b/**", "/a/b/*"]);
        assert_eq!(matching("/a/"), ["/**", "/a/**", "/a/*"]);
        assert!(matching("a/b").is_empty());
    }

    #[test]
    fn enumerated_patterns_are_those_that_match() {
        let segments = ["a", "b", "", "*"];
        let mut names = vec![String::new()];
        for _ in 0..3 {
            let longer: Vec<_> =
                names.iter().flat_map(|name| segments.map(|segment| format!("{name}/{segment}"))).collect();
            names.extend(longer);
        }
        let patterns: Vec<_> =
            names.iter().flat_map(|name| ["*", "**"].map(|end| format!("{name}/{end}"))).collect();
        let parse = |name| Pattern::parse(name).expect("a pattern");
        for channel in names.iter().filter(|name| Pattern::parse(name).is_none()) {
            let found = matching(channel);
            for pattern in &patterns {
                assert_eq!(parse(pattern).matches(channel), found.contains(pattern), "{pattern} {channel}");
            }
        }
        // Two patterns overlap if some channel matches both; extending the longer one by one or two segments
        // is enough to find it.
        let pairs = patterns.iter().flat_map(|one| patterns.iter().map(move |other| (one, other)));
        for (one, other) in pairs {
            let longest = if parse(one).before.len() > parse(other).before.len() { one } else { other };
            let parent = longest.trim_end_matches('*');
            let both_match = |channel: &str| parse(one).matches(channel) && parse(other).matches(channel);
            let do_overlap = both_match(&format!("{parent}x")) || both_match(&format!("{parent}x/y"));
            assert_eq!(overlap(one, other), do_overlap, "{one} {other}");
            assert_eq!(overlap(one, other), overlap(other, one));
        }
    }
}
