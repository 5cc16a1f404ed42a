use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

use super::pattern::Pattern;

/// How the names of logs begin that have what the server itself says: to one session, and to all of a user's. Behind it is whose it is. Clients are
/// told what is before the colon.
const TO_SESSION: &str = "$session:";
const TO_USER: &str = "$user:";

/// A channel's name: some text without control characters and commas, and not `.` or `..`. A comma separates names in a query. Names that begin
/// with `$` are the server's.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ChannelName(Arc<str>);

/// The text is not a channel's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadChannelName {
    #[error("a channel's name must not be empty")]
    Empty,
    #[error("a channel's name must not be longer than {limit} bytes (channel.name_bytes)")]
    TooLong { limit: usize },
    #[error("a channel's name must not have control characters or commas")]
    BadCharacter,
    #[error("names that begin with `$` are the server's")]
    Reserved,
    #[error("a channel's name must not be `.` or `..`: URLs cannot have it")]
    DotSegment,
    #[error("nobody publishes to a pattern")]
    Pattern,
    #[error("nobody publishes below {below}")]
    NotPublic { below: &'static str },
}

/// What clients say to a server below these names is for it alone, in the protocol that has such names.
const NOT_PUBLIC: [&str; 2] = ["/meta/", "/service/"];

impl ChannelName {
    /// Checks `text`.
    pub(crate) fn new(text: &str, limit: usize) -> Result<Self, BadChannelName> {
        // Clients of HTTP take these out of a path, however they are written (RFC 3986, section 5.2.4): nobody could ask the API for that channel.
        if matches!(text, "." | "..") {
            return Err(BadChannelName::DotSegment);
        }
        Self::new_or_dots(text, limit)
    }

    /// As [`new`](Self::new), and dots are good enough: for what is no channel, but how names begin.
    pub(crate) fn new_or_dots(text: &str, limit: usize) -> Result<Self, BadChannelName> {
        if text.is_empty() {
            return Err(BadChannelName::Empty);
        }
        if text.len() > limit {
            return Err(BadChannelName::TooLong { limit });
        }
        if text.chars().any(|char| char.is_control() || char == ',') {
            return Err(BadChannelName::BadCharacter);
        }
        if text.starts_with('$') {
            return Err(BadChannelName::Reserved);
        }
        Ok(Self(text.into()))
    }

    /// Checks `text`, which somebody is to publish to.
    pub(crate) fn to_publish(text: &str, limit: usize) -> Result<Self, BadChannelName> {
        let name = Self::new(text, limit)?;
        if Pattern::parse(text).is_some() {
            return Err(BadChannelName::Pattern);
        }
        match NOT_PUBLIC.into_iter().find(|below| text.starts_with(below)) {
            Some(below) => Err(BadChannelName::NotPublic { below }),
            None => Ok(name),
        }
    }

    /// What is said to one session.
    pub(crate) fn to_session(id: &impl fmt::Display) -> Self {
        Self(format!("{TO_SESSION}{id}").into())
    }

    /// What is said to all sessions of a user.
    pub(crate) fn to_user(user: &str) -> Self {
        Self(format!("{TO_USER}{user}").into())
    }

    /// The name of a log of an earlier process, which may have allowed dots.
    pub(super) fn of_log(text: &str) -> Result<Self, BadChannelName> {
        let is_direct = [TO_SESSION, TO_USER].iter().any(|to| text.len() > to.len() && text.starts_with(to));
        if is_direct { Ok(Self(text.into())) } else { Self::new_or_dots(text, usize::MAX) }
    }

    /// Whether it has what the server says to some sessions. No client follows it by its own will, and none publishes to it.
    pub(crate) fn is_direct(&self) -> bool {
        self.0.starts_with('$')
    }

    /// What clients know it by.
    pub(crate) fn told(&self) -> &str {
        let whose = if self.is_direct() { self.0.find(':') } else { None };
        whose.map_or(&self.0, |colon| &self.0[..colon])
    }

    /// Whether it stands for channels rather than being one.
    pub(crate) fn is_pattern(&self) -> bool {
        Pattern::parse(&self.0).is_some()
    }

    /// Whether it is a pattern that stands for this channel.
    pub(crate) fn stands_for(&self, channel: &Self) -> bool {
        Pattern::parse(&self.0).is_some_and(|pattern| pattern.matches(&channel.0))
    }

    pub(crate) fn as_str(&self) -> &str {
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
            ("a b/c.d*é", Ok(())),
            ("12345678", Ok(())),
            ("123456789", Err(BadChannelName::TooLong { limit: 8 })),
            ("", Err(BadChannelName::Empty)),
            ("a,b", Err(BadChannelName::BadCharacter)),
            ("a\nb", Err(BadChannelName::BadCharacter)),
            ("a\u{85}", Err(BadChannelName::BadCharacter)),
            ("$user", Err(BadChannelName::Reserved)),
            (".", Err(BadChannelName::DotSegment)),
            ("..", Err(BadChannelName::DotSegment)),
            ("...", Ok(())),
            ("a/..", Ok(())),
            ("a$", Ok(())),
            ("/a/*", Ok(())),
        ];
        for (text, expected) in table {
            let limit = if text.len() > 9 { 64 } else { 8 };
            assert_eq!(ChannelName::new(text, limit).map(|_| ()), expected, "{text:?}");
        }
    }
    #[test]
    fn what_the_server_says_is_told_by_a_short_name() {
        let session = ChannelName::to_session(&"s_1");
        let user = ChannelName::to_user("a:b");
        assert_eq!((session.as_str(), session.told()), ("$session:s_1", "$session"));
        assert_eq!((user.as_str(), user.told()), ("$user:a:b", "$user"));
        let other = ChannelName::new("a:b", 10).expect("a name");
        assert_eq!((other.told(), other.is_direct()), ("a:b", false));
        for name in [&session, &user, &other] {
            assert_eq!(ChannelName::of_log(name.as_str()), Ok(name.clone()));
        }
        assert!(ChannelName::of_log("..").is_ok(), "a name that was allowed once");
        for text in ["$session:", "$user", "$other:a", "$"] {
            assert_eq!(ChannelName::of_log(text), Err(BadChannelName::Reserved), "{text}");
        }
    }

    #[test]
    fn nobody_publishes_to_some_names() {
        let not_below = |below| Err(BadChannelName::NotPublic { below });
        let table = [
            ("news", Ok(())),
            ("$user", Err(BadChannelName::Reserved)),
            ("", Err(BadChannelName::Empty)),
            ("/*", Err(BadChannelName::Pattern)),
            ("/a/**", Err(BadChannelName::Pattern)),
            ("/a/*b", Ok(())),
            ("/a/*/b", Ok(())),
            ("a.*", Ok(())),
            ("*", Ok(())),
            ("a/*", Ok(())),
            ("/meta/subscribe", not_below("/meta/")),
            ("/meta/", not_below("/meta/")),
            ("/meta", Ok(())),
            ("/metal/a", Ok(())),
            ("meta/a", Ok(())),
            ("/service/a/b", not_below("/service/")),
            ("/services", Ok(())),
        ];
        for (text, expected) in table {
            assert_eq!(ChannelName::to_publish(text, 64).map(|_| ()), expected, "{text:?}");
        }
    }
}
