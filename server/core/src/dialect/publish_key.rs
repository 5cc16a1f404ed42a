use std::borrow::Cow;

use serde::{Deserialize, Deserializer, de};

/// By this, a publish is known again when it is repeated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublishKey<'a>(Cow<'a, str>);

impl<'a> PublishKey<'a> {
    /// The longest key, in bytes.
    pub const MOST_BYTES: usize = 64;

    /// `None` if it is empty or too long.
    #[must_use]
    pub fn new(key: Cow<'a, str>) -> Option<Self> {
        (1..=Self::MOST_BYTES).contains(&key.len()).then_some(Self(key))
    }

    /// The same, for longer than the text that it was read from.
    #[must_use]
    pub fn into_owned(self) -> PublishKey<'static> {
        PublishKey(self.0.into_owned().into())
    }

    /// The key.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for PublishKey<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        /// Borrowed unless it has escapes.
        #[derive(Deserialize)]
        struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

        let Text(key) = Text::deserialize(deserializer)?;
        let refused = || format!("a key has from 1 to {} bytes", PublishKey::MOST_BYTES);
        Self::new(key).ok_or_else(|| de::Error::custom(refused()))
    }
}
