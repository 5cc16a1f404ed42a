use std::borrow::Cow;

use serde::{Deserialize, Deserializer, de};

/// A deduplication key, which identifies a repeated publish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublishKey<'a>(Cow<'a, str>);

impl<'a> PublishKey<'a> {
    /// Maximum length in bytes.
    pub const MOST_BYTES: usize = 64;

    /// Creates a key. Returns `None` if the string is empty or too long.
    #[must_use]
    pub fn new(key: Cow<'a, str>) -> Option<Self> {
        (1..=Self::MOST_BYTES).contains(&key.len()).then_some(Self(key))
    }

    /// Detaches the key from the text it was read from.
    #[must_use]
    pub fn into_owned(self) -> PublishKey<'static> {
        PublishKey(self.0.into_owned().into())
    }

    /// Returns the key.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for PublishKey<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        /// A string, borrowed unless the JSON contains escapes.
        #[derive(Deserialize)]
        struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

        let Text(key) = Text::deserialize(deserializer)?;
        let refused = || format!("a key must have 1 to {} bytes", PublishKey::MOST_BYTES);
        Self::new(key).ok_or_else(|| de::Error::custom(refused()))
    }
}
