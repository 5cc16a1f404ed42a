use std::collections::HashMap;

/// Generates anchors for headings in the same way as GitHub, so that links into documents work in both
/// places.
#[derive(Default)]
pub(super) struct Anchors {
    /// Number of headings so far for each anchor.
    seen: HashMap<String, usize>,
}

impl Anchors {
    /// Returns the anchor of the next heading.
    pub(super) fn of(&mut self, title: &str) -> String {
        let kept = title.to_lowercase();
        let kept = kept.chars().filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
        let anchor: String = kept.map(|c| if c == ' ' { '-' } else { c }).collect();
        let count = self.seen.entry(anchor.clone()).or_default();
        *count += 1;
        if *count == 1 { anchor } else { format!("{anchor}-{}", *count - 1) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_are_named_as_on_github() {
        let mut anchors = Anchors::default();
        for (title, expected) in [
            ("Guide", "guide"),
            ("Several servers, one Redis", "several-servers-one-redis"),
            ("What it costs: a_b", "what-it-costs-a_b"),
            ("`/docs`, & more", "docs--more"),
            ("Guide", "guide-1"),
            ("Guide", "guide-2"),
        ] {
            assert_eq!(anchors.of(title), expected);
        }
    }
}
