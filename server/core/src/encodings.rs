//! A message in each dialect that its readers speak.

use crate::dialect::json::Json;
use crate::dialect::{Encoded, Encoding};
use crate::message::{CompactJson, Content, Message, Stamp};

/// A message as its log keeps it: encoded once for each dialect, whatever the number of readers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Encodings {
    /// Made at once, since it owns the data.
    json: Encoded<Json>,
}

/// A dialect whose encoding a log keeps.
pub trait Cached: Encoding {
    /// The message in this dialect.
    fn of(message: &Encodings) -> &Encoded<Self>;

    /// The pattern in this dialect.
    fn of_pattern(pattern: &PatternEncodings) -> &str;
}

/// A pattern as its log keeps it: what is the same in all messages by it, encoded once for each dialect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PatternEncodings {
    json: Box<str>,
}

impl PatternEncodings {
    /// Encodes a pattern, and the epoch of its log.
    #[must_use]
    pub fn new(name: &str, epoch: &str) -> Self {
        Self { json: Json::encode_pattern(name, epoch) }
    }
}

impl Cached for Json {
    fn of(message: &Encodings) -> &Encoded<Self> {
        &message.json
    }

    fn of_pattern(pattern: &PatternEncodings) -> &str {
        &pattern.json
    }
}

impl Encodings {
    /// Encodes a message.
    #[must_use]
    pub fn new(message: &Message<'_>) -> Self {
        Self { json: Json::encode(message) }
    }

    /// What was published.
    #[must_use]
    pub fn data(&self) -> CompactJson<'_> {
        self.json.data()
    }

    /// What the server says of it.
    #[must_use]
    pub fn stamp(&self) -> Stamp<'_> {
        self.json.stamp()
    }

    /// What was published, and by whom.
    #[must_use]
    pub fn content(&self) -> Content<'_> {
        let Stamp { kind, user, at_ms } = self.stamp();
        Content { kind, user: user.map(|user| user.to_text().into()), at_ms, data: self.data() }
    }

    /// The memory it takes beside the struct, in bytes.
    #[must_use]
    pub fn size(&self) -> usize {
        self.json.size()
    }
}
