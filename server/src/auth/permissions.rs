use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use strum::EnumString;

use super::AuthError;

/// Permission of a client on a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, EnumString, Serialize)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Permission {
    Subscribe,
    Publish,
    /// Permission to list a channel's subscribers.
    Presence,
    /// Permission to read a channel's history without subscribing to the channel.
    History,
}

impl Permission {
    const fn bit(self) -> u8 {
        1 << self as u8
    }

    /// Returns the message for a client without this permission. It names both sources of permissions, because
    /// a client may have no token.
    pub(crate) fn denial(self, channel: &str) -> String {
        let action = match self {
            Self::Subscribe => "subscribe to",
            Self::Publish => "publish to",
            Self::Presence => "list the subscribers of",
            Self::History => "read the history of",
        };
        format!(
            "no permission to {action} {channel} (`channels` of the token, or of the backend's response to `connect`)"
        )
    }
}

/// Permissions granted by a token: a list of rules. A permission is granted if at least one rule grants it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(transparent)]
pub struct Permissions {
    #[n(0)]
    rules: Vec<Rule>,
}

#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(array)]
struct Rule {
    /// A channel's name or prefix.
    #[n(0)]
    name: Box<str>,
    /// Whether `name` is a prefix.
    #[n(1)]
    prefix: bool,
    /// Permissions, as bits.
    #[n(2)]
    allowed: u8,
}

impl Permissions {
    #[must_use]
    pub fn allows(&self, permission: Permission, channel: &str) -> bool {
        self.rules.iter().any(|rule| rule.allowed & permission.bit() != 0 && rule.covers(channel))
    }

    /// Parses the claim `channels`, such as `{"news":["subscribe"],"chat.*":["subscribe","publish"]}`.
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
            // Reject the pattern: it looks like an unsupported kind of pattern, and treating it as a name
            // would hide the mistake.
            return Err(bad("contains a pattern with a `*` that is not at its end"));
        }
        if pattern.is_empty() {
            return Err(bad("contains an empty pattern"));
        }
        let names = allowed.as_array().ok_or(bad("contains a pattern without a list"))?;
        let permission = |name: &Value| {
            let permission = name.as_str().and_then(|name| name.parse::<Permission>().ok());
            permission.ok_or(bad(
                "contains a permission other than `subscribe`, `publish`, `presence` and `history`",
            ))
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
    fn a_rule_covers_only_its_channels() {
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

    /// Subscribing to a pattern requires a rule that covers every channel the pattern can match.
    #[test]
    fn a_pattern_needs_a_rule_that_covers_all_its_channels() {
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
    fn rules_add_up_and_no_rules_grant_nothing() {
        let both = parse(r#"{"a*":["subscribe"],"ab":["publish"]}"#).expect("good");
        assert!(both.allows(Subscribe, "ab") && both.allows(Publish, "ab") && !both.allows(Presence, "ab"));
        let all = parse(r#"{"*":["presence"]}"#).expect("good");
        assert!(all.allows(Presence, "anything") && !all.allows(Subscribe, "anything"));
        assert!(!Permissions::default().allows(Subscribe, "news"));
        assert_eq!(parse("{}"), Ok(Permissions::default()));
    }

    #[test]
    fn invalid_claims_are_rejected() {
        for (text, problem) in [
            ("[]", "is not an object"),
            ("\"news\"", "is not an object"),
            (r#"{"news":"subscribe"}"#, "contains a pattern without a list"),
            (
                r#"{"news":["read"]}"#,
                "contains a permission other than `subscribe`, `publish`, `presence` and `history`",
            ),
            (
                r#"{"news":["Subscribe"]}"#,
                "contains a permission other than `subscribe`, `publish`, `presence` and `history`",
            ),
            (
                r#"{"news":[1]}"#,
                "contains a permission other than `subscribe`, `publish`, `presence` and `history`",
            ),
            (r#"{"a.*.b":[]}"#, "contains a pattern with a `*` that is not at its end"),
            (r#"{"a**":[]}"#, "contains a pattern with a `*` that is not at its end"),
            (r#"{"":[]}"#, "contains an empty pattern"),
        ] {
            assert_eq!(parse(text), Err(bad(problem)), "{text}");
        }
    }
}
