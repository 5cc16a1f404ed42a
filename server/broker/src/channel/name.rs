use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

use super::pattern::Pattern;

/// Name prefixes of direct-message channels: to one session, and to all sessions of a user. The session id or
/// user name follows the colon; clients see only the part before it.
const TO_SESSION: &str = "$session:";
const TO_USER: &str = "$user:";

/// Channel name: non-empty text without control characters and commas, other than `.` and `..`. Commas
/// separate names in query strings. Names that begin with `$` are reserved for the server.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChannelName(Arc<str>);

/// Why a string is not a valid channel name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidChannelName {
    #[error("a channel's name must not be empty")]
    Empty,
    #[error("a channel's name must not be longer than {limit} bytes (channel.name_bytes)")]
    TooLong { limit: usize },
    #[error("a channel's name must not contain control characters or commas")]
    BadCharacter,
    #[error("names that begin with `$` are reserved")]
    Reserved,
    #[error("a channel's name must not be `.` or `..`: URLs cannot contain it")]
    DotSegment,
    #[error(
        "`*` is only allowed at the end of a pattern, which begins with `/`, such as `/desk/*` or `/desk/**`"
    )]
    Wildcard,
    #[error("patterns cannot be published to")]
    Pattern,
    #[error("channels below {below} cannot be published to")]
    NotPublic { below: &'static str },
}

/// Prefixes of channel names that clients cannot publish to. In Bayeux, messages to these names are addressed
/// to the server alone.
const UNPUBLISHABLE_PREFIXES: [&str; 2] = ["/meta/", "/service/"];

impl ChannelName {
    /// Validates a channel name.
    pub fn new(text: &str, limit: usize) -> Result<Self, InvalidChannelName> {
        // HTTP clients remove dot segments from a path, even if they are percent-encoded (RFC 3986, section
        // 5.2.4), so the API could not address such a channel.
        if matches!(text, "." | "..") {
            return Err(InvalidChannelName::DotSegment);
        }
        // The client probably expects a pattern, and would receive nothing.
        if text.contains('*') && Pattern::parse(text).is_none() {
            return Err(InvalidChannelName::Wildcard);
        }
        Self::new_allowing_dots(text, limit)
    }

    /// Like [`new`](Self::new), but accepts `.` and `..`. Used for name prefixes, which are not channels
    /// themselves.
    pub fn new_allowing_dots(text: &str, limit: usize) -> Result<Self, InvalidChannelName> {
        if text.is_empty() {
            return Err(InvalidChannelName::Empty);
        }
        if text.len() > limit {
            return Err(InvalidChannelName::TooLong { limit });
        }
        if text.chars().any(|char| char.is_control() || char == ',') {
            return Err(InvalidChannelName::BadCharacter);
        }
        if text.starts_with('$') {
            return Err(InvalidChannelName::Reserved);
        }
        Ok(Self(text.into()))
    }

    /// Validates the name of a channel to publish to.
    pub fn for_publish(text: &str, limit: usize) -> Result<Self, InvalidChannelName> {
        let name = Self::new(text, limit)?;
        if Pattern::parse(text).is_some() {
            return Err(InvalidChannelName::Pattern);
        }
        match UNPUBLISHABLE_PREFIXES.into_iter().find(|below| text.starts_with(below)) {
            Some(below) => Err(InvalidChannelName::NotPublic { below }),
            None => Ok(name),
        }
    }

    /// Channel for messages to one session.
    pub fn for_session(id: &impl fmt::Display) -> Self {
        Self(format!("{TO_SESSION}{id}").into())
    }

    /// Channel for messages to all sessions of a user.
    pub fn for_user(user: &str) -> Self {
        Self(format!("{TO_USER}{user}").into())
    }

    /// Parses the name of a log written by an earlier process, whose version may have allowed dots.
    pub fn from_log(text: &str) -> Result<Self, InvalidChannelName> {
        let is_direct = [TO_SESSION, TO_USER].iter().any(|to| text.len() > to.len() && text.starts_with(to));
        if is_direct { Ok(Self(text.into())) } else { Self::new_allowing_dots(text, usize::MAX) }
    }

    /// Whether this channel carries direct messages from the server. Clients can neither subscribe nor
    /// publish to it.
    pub fn is_direct(&self) -> bool {
        self.0.starts_with('$')
    }

    /// Name that clients see.
    pub fn client_name(&self) -> &str {
        let whose = if self.is_direct() { self.0.find(':') } else { None };
        whose.map_or(&self.0, |colon| &self.0[..colon])
    }

    /// Whether this name is a pattern.
    pub fn is_pattern(&self) -> bool {
        Pattern::parse(&self.0).is_some()
    }

    /// Whether this name is a pattern that matches `channel`.
    pub fn matches(&self, channel: &Self) -> bool {
        Pattern::parse(&self.0).is_some_and(|pattern| pattern.matches(&channel.0))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for ChannelName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ChannelName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked() {
        let table = [
            ("news", Ok(())),
            ("a b/c.d-é", Ok(())),
            ("12345678", Ok(())),
            ("123456789", Err(InvalidChannelName::TooLong { limit: 8 })),
            ("", Err(InvalidChannelName::Empty)),
            ("a,b", Err(InvalidChannelName::BadCharacter)),
            ("a\nb", Err(InvalidChannelName::BadCharacter)),
            ("a\u{85}", Err(InvalidChannelName::BadCharacter)),
            ("$user", Err(InvalidChannelName::Reserved)),
            (".", Err(InvalidChannelName::DotSegment)),
            ("..", Err(InvalidChannelName::DotSegment)),
            ("...", Ok(())),
            ("a/..", Ok(())),
            ("a$", Ok(())),
            ("/a/*", Ok(())),
            ("/a/**", Ok(())),
            ("desk-*", Err(InvalidChannelName::Wildcard)),
            ("/a/*/b", Err(InvalidChannelName::Wildcard)),
        ];
        for (text, expected) in table {
            let limit = if text.len() > 9 { 64 } else { 8 };
            assert_eq!(ChannelName::new(text, limit).map(|_| ()), expected, "{text:?}");
        }
    }
    #[test]
    fn direct_message_channels_have_short_client_names() {
        let session = ChannelName::for_session(&"s_1");
        let user = ChannelName::for_user("a:b");
        assert_eq!((session.as_str(), session.client_name()), ("$session:s_1", "$session"));
        assert_eq!((user.as_str(), user.client_name()), ("$user:a:b", "$user"));
        let other = ChannelName::new("a:b", 10).expect("a name");
        assert_eq!((other.client_name(), other.is_direct()), ("a:b", false));
        for name in [&session, &user, &other] {
            assert_eq!(ChannelName::from_log(name.as_str()), Ok(name.clone()));
        }
        assert!(ChannelName::from_log("..").is_ok(), "dots were allowed in earlier versions");
        for text in ["$session:", "$user", "$other:a", "$"] {
            assert_eq!(ChannelName::from_log(text), Err(InvalidChannelName::Reserved), "{text}");
        }
    }

    #[test]
    fn some_names_cannot_be_published_to() {
        let not_public = |below| Err(InvalidChannelName::NotPublic { below });
        let table = [
            ("news", Ok(())),
            ("$user", Err(InvalidChannelName::Reserved)),
            ("", Err(InvalidChannelName::Empty)),
            ("/*", Err(InvalidChannelName::Pattern)),
            ("/a/**", Err(InvalidChannelName::Pattern)),
            ("/a/*b", Err(InvalidChannelName::Wildcard)),
            ("a/*", Err(InvalidChannelName::Wildcard)),
            ("/meta/subscribe", not_public("/meta/")),
            ("/meta/", not_public("/meta/")),
            ("/meta", Ok(())),
            ("/metal/a", Ok(())),
            ("meta/a", Ok(())),
            ("/service/a/b", not_public("/service/")),
            ("/services", Ok(())),
        ];
        for (text, expected) in table {
            assert_eq!(ChannelName::for_publish(text, 64).map(|_| ()), expected, "{text:?}");
        }
    }
}
