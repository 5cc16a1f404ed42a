use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

/// A channel's name: some text without control characters and commas. A comma separates names in a query.
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
}

impl ChannelName {
    /// Checks `text`.
    pub(crate) fn new(text: &str, limit: usize) -> Result<Self, BadChannelName> {
        if text.is_empty() {
            return Err(BadChannelName::Empty);
        }
        if text.len() > limit {
            return Err(BadChannelName::TooLong { limit });
        }
        if text.chars().any(|char| char.is_control() || char == ',') {
            return Err(BadChannelName::BadCharacter);
        }
        Ok(Self(text.into()))
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
        ];
        for (text, expected) in table {
            let limit = if text.len() > 9 { 64 } else { 8 };
            assert_eq!(ChannelName::new(text, limit).map(|_| ()), expected, "{text:?}");
        }
    }
}
