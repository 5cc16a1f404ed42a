//! What holds for channels whose names begin alike.

use super::channels::LogLimits;

/// The channels whose names begin with a prefix, and with no longer one that another has.
#[derive(Clone, Debug)]
pub struct Namespace {
    /// It is not empty.
    pub prefix: String,
    /// What holds for them.
    pub rules: ChannelRules,
}

/// What holds for a channel.
#[derive(Clone, Debug)]
pub struct ChannelRules {
    /// What its log may hold.
    pub log: LogLimits,
    /// Whether clients may publish, if their tokens allow it. The admin API always may.
    pub publish: bool,
    /// Whether clients may ask who follows it, if their tokens allow it.
    pub presence: bool,
    /// Whether messages say when they were published.
    pub at_ms: bool,
    /// Whether followers are told of joins and leaves.
    pub join_leave: bool,
}

/// All of them.
#[derive(Debug)]
pub(crate) struct Namespaces {
    /// For channels in none.
    default: ChannelRules,
    /// Those with the longest prefixes first.
    named: Vec<Namespace>,
}

impl ChannelRules {
    /// Everyone may do what tokens allow.
    #[must_use]
    pub fn of(log: LogLimits) -> Self {
        Self { log, publish: true, presence: true, at_ms: false, join_leave: false }
    }
}

impl Namespaces {
    /// No two may have the same prefix.
    pub(crate) fn new(log: LogLimits, mut named: Vec<Namespace>) -> Self {
        named.sort_by_key(|namespace| std::cmp::Reverse(namespace.prefix.len()));
        Self { default: ChannelRules::of(log), named }
    }

    /// What holds for a channel, or a pattern, of this name.
    pub(crate) fn rules_of(&self, name: &str) -> &ChannelRules {
        let found = self.named.iter().find(|namespace| name.starts_with(&namespace.prefix));
        found.map_or(&self.default, |namespace| &namespace.rules)
    }

    /// Whether followers of any channel are told of joins and leaves.
    pub(crate) fn any_joins_and_leaves(&self) -> bool {
        self.named.iter().any(|namespace| namespace.rules.join_leave)
    }

    /// What all logs together may hold, in bytes.
    pub(super) fn total_bytes(&self) -> usize {
        self.default.log.total_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_prefix_wins() {
        let log = |messages| LogLimits { messages, bytes: 1, age: None, total_bytes: 1 };
        let named = [("a", 1), ("a.b.", 2), ("a.b", 3), ("/x/", 4)].map(|(prefix, messages)| Namespace {
            prefix: prefix.to_owned(),
            rules: ChannelRules::of(log(messages)),
        });
        let namespaces = Namespaces::new(log(0), named.into());
        for (name, messages) in [
            ("", 0),
            ("b", 0),
            ("a", 1),
            ("a.", 1),
            ("a.b", 3),
            ("a.bc", 3),
            ("a.b.", 2),
            ("a.b.c", 2),
            ("A", 0),
            ("/x", 0),
            ("/x/*", 4),
            ("/*", 0),
        ] {
            assert_eq!(namespaces.rules_of(name).log.messages, messages, "{name}");
        }
    }
}
