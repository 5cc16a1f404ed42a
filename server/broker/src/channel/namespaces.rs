//! Per-namespace channel rules, selected by name prefix.

use std::time::Duration;

/// Limits of channel logs.
#[derive(Clone, Debug)]
pub struct LogLimits {
    /// Maximum number of messages in a log.
    pub messages: usize,
    /// Maximum size of a log in bytes.
    pub bytes: usize,
    /// Maximum age of a message; `None`: unlimited.
    pub age: Option<Duration>,
    /// Maximum size of all logs together in bytes; the same in all namespaces.
    pub total_bytes: usize,
    /// Maximum number of removed channels whose positions are kept; the same in all namespaces.
    pub kept_positions: usize,
}

/// Rules for the channels whose longest matching prefix is this one.
#[derive(Clone, Debug)]
pub struct Namespace {
    /// Prefix of channel names. Never empty.
    pub prefix: String,
    pub rules: ChannelRules,
}

/// Rules that apply to a channel.
#[derive(Clone, Debug)]
pub struct ChannelRules {
    pub log: LogLimits,
    /// Whether clients may publish if their tokens allow it. The admin API can always publish.
    pub publish: bool,
    /// Whether clients may query presence if their tokens allow it.
    pub presence: bool,
    /// Whether messages carry the time at which they were published.
    pub at_ms: bool,
    /// Whether subscribers receive join and leave messages.
    pub join_leave: bool,
}

/// All namespaces, and the default rules.
#[derive(Debug)]
pub struct Namespaces {
    /// Rules for channels outside all namespaces.
    default: ChannelRules,
    /// Sorted by prefix length, longest first.
    named: Vec<Namespace>,
}

impl ChannelRules {
    /// Creates rules that allow publishing and presence queries, without timestamps and join/leave messages.
    #[must_use]
    pub fn with_limits(log: LogLimits) -> Self {
        Self { log, publish: true, presence: true, at_ms: false, join_leave: false }
    }
}

impl Namespaces {
    /// Creates the set of namespaces; channels outside them have the limits `log`. Prefixes must be unique.
    pub fn new(log: LogLimits, mut named: Vec<Namespace>) -> Self {
        named.sort_by_key(|namespace| std::cmp::Reverse(namespace.prefix.len()));
        Self { default: ChannelRules::with_limits(log), named }
    }

    /// Rules for the channel or pattern `name`.
    #[inline]
    pub fn rules_of(&self, name: &str) -> &ChannelRules {
        let found = self.named.iter().find(|namespace| name.starts_with(&namespace.prefix));
        found.map_or(&self.default, |namespace| &namespace.rules)
    }

    /// Whether any namespace has join/leave messages enabled.
    pub fn any_join_leave(&self) -> bool {
        self.named.iter().any(|namespace| namespace.rules.join_leave)
    }

    /// Limit of all logs together, in bytes.
    pub(super) fn total_bytes(&self) -> usize {
        self.default.log.total_bytes
    }

    /// Maximum number of removed channels whose positions are kept.
    pub(super) fn kept_positions(&self) -> usize {
        self.default.log.kept_positions
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_prefix_wins() {
        let log = |messages| LogLimits { messages, bytes: 1, age: None, total_bytes: 1, kept_positions: 0 };
        let named = [("a", 1), ("a.b.", 2), ("a.b", 3), ("/x/", 4)].map(|(prefix, messages)| Namespace {
            prefix: prefix.to_owned(),
            rules: ChannelRules::with_limits(log(messages)),
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
