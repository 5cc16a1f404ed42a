use serde::{Deserialize, Serialize};
use serde_json::Value;
use strum::EnumString;

use super::AuthError;

/// What a client may do on a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, EnumString, Serialize)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Permission {
    /// Read it.
    Subscribe,
    /// Write to it.
    Publish,
    /// See who reads it.
    Presence,
}

impl Permission {
    /// The permission of this name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        name.parse().ok()
    }

    const fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// What a token allows: a list of rules, of which one must allow what is asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Permissions {
    rules: Box<[Rule]>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    /// A channel's name, or how it begins.
    name: Box<str>,
    prefix: bool,
    allowed: u8,
}

impl Permissions {
    /// Whether `permission` is given on `channel`.
    #[must_use]
    pub fn allows(&self, permission: Permission, channel: &str) -> bool {
        self.rules.iter().any(|rule| rule.allowed & permission.bit() != 0 && rule.covers(channel))
    }

    /// Each rule, as it is written down: a channel's name or how it begins, whether it is that, and what is allowed, a bit each.
    pub(super) fn rules(&self) -> impl Iterator<Item = (&str, bool, u8)> {
        self.rules.iter().map(|rule| (&*rule.name, rule.prefix, rule.allowed))
    }

    /// The reverse of [`Self::rules`].
    pub(super) fn of_rules(rules: impl IntoIterator<Item = (String, bool, u8)>) -> Self {
        let rules = rules.into_iter();
        Self {
            rules: rules.map(|(name, prefix, allowed)| Rule { name: name.into(), prefix, allowed }).collect(),
        }
    }

    /// Reads the claim `channels`: `{"news":["subscribe"],"chat.*":["subscribe","publish"]}`.
    pub(super) fn parse(claim: &Value) -> Result<Self, AuthError> {
        let patterns = claim.as_object().ok_or(bad("is not an object"))?;
        let rules = patterns.iter().map(|(pattern, allowed)| Rule::parse(pattern, allowed));
        Ok(Self { rules: rules.collect::<Result<_, _>>()? })
    }
}

impl Rule {
    fn parse(pattern: &str, allowed: &Value) -> Result<Self, AuthError> {
        let (name, prefix) = pattern.strip_suffix('*').map_or((pattern, false), |name| (name, true));
        if name.contains('*') {
            // This looks like a kind of pattern that we do not have. Taking it for a name would hide the mistake.
            return Err(bad("has a pattern with a `*` that is not its end"));
        }
        if pattern.is_empty() {
            return Err(bad("has an empty pattern"));
        }
        let names = allowed.as_array().ok_or(bad("has a pattern without a list"))?;
        let permission = |name: &Value| {
            let permission = name.as_str().and_then(Permission::parse);
            permission.ok_or(bad("allows what is none of `subscribe`, `publish`, `presence`"))
        };
        let allowed = names.iter().try_fold(0, |bits, name| Ok(bits | permission(name)?.bit()))?;
        Ok(Self { name: name.into(), prefix, allowed })
    }

    fn covers(&self, channel: &str) -> bool {
        if self.prefix { channel.starts_with(&*self.name) } else { channel == &*self.name }
    }
}

const fn bad(problem: &'static str) -> AuthError {
    AuthError::BadClaim { claim: "channels", problem }
}

#[cfg(test)]
mod tests {
    use super::Permission::{Presence, Publish, Subscribe};
    use super::*;

    fn parse(text: &str) -> Result<Permissions, AuthError> {
        Permissions::parse(&serde_json::from_str(text).expect("JSON"))
    }

    #[test]
    fn a_rule_covers_its_channels_and_no_others() {
        let text = r#"{"news":["subscribe"],"chat.*":["subscribe","publish","presence"],"chat.quiet":[]}"#;
        let permissions = parse(text).expect("good");
        for (permission, channel, allowed) in [
            (Subscribe, "news", true),
            (Publish, "news", false),
            (Presence, "news", false),
            (Subscribe, "news2", false),
            (Subscribe, "new", false),
            (Subscribe, "News", false),
            (Subscribe, "", false),
            (Publish, "chat.a", true),
            (Presence, "chat.", true),
            (Publish, "chat", false),
            (Publish, "chat.quiet", true),
            (Subscribe, "chat.*", true),
        ] {
            assert_eq!(permissions.allows(permission, channel), allowed, "{permission:?} {channel}");
        }
    }

    /// A pattern needs a rule that covers every channel that it can match.
    #[test]
    fn a_rule_covers_a_pattern_when_it_covers_all_that_it_matches() {
        let text = r#"{"/a/*":["subscribe"],"/b":["subscribe"],"/c/d*":["subscribe"]}"#;
        let permissions = parse(text).expect("good");
        for (pattern, allowed) in [
            ("/a/*", true),
            ("/a/**", true),
            ("/a/x/**", true),
            ("/*", false),
            ("/**", false),
            ("/b/*", false),
            ("/c/*", false),
            ("/c/d/*", true),
            ("/c/dx/**", true),
        ] {
            assert_eq!(permissions.allows(Subscribe, pattern), allowed, "{pattern}");
        }
    }

    #[test]
    fn rules_add_up_and_none_is_nothing() {
        let both = parse(r#"{"a*":["subscribe"],"ab":["publish"]}"#).expect("good");
        assert!(both.allows(Subscribe, "ab") && both.allows(Publish, "ab") && !both.allows(Presence, "ab"));
        let all = parse(r#"{"*":["presence"]}"#).expect("good");
        assert!(all.allows(Presence, "anything") && !all.allows(Subscribe, "anything"));
        assert!(!Permissions::default().allows(Subscribe, "news"));
        assert_eq!(parse("{}"), Ok(Permissions::default()));
    }

    #[test]
    fn what_is_no_claim_is_refused() {
        for (text, problem) in [
            ("[]", "is not an object"),
            ("\"news\"", "is not an object"),
            (r#"{"news":"subscribe"}"#, "has a pattern without a list"),
            (r#"{"news":["read"]}"#, "allows what is none of `subscribe`, `publish`, `presence`"),
            (r#"{"news":["Subscribe"]}"#, "allows what is none of `subscribe`, `publish`, `presence`"),
            (r#"{"news":[1]}"#, "allows what is none of `subscribe`, `publish`, `presence`"),
            (r#"{"a.*.b":[]}"#, "has a pattern with a `*` that is not its end"),
            (r#"{"a**":[]}"#, "has a pattern with a `*` that is not its end"),
            (r#"{"":[]}"#, "has an empty pattern"),
        ] {
            assert_eq!(parse(text), Err(bad(problem)), "{text}");
        }
    }
}
