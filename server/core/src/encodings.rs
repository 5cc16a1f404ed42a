//! A message encoded for each dialect of its subscribers.

use crate::dialect::json::Json;
use crate::dialect::{Encoded, Encoding};
use crate::message::{CompactJson, Content, Message, Stamp};

/// A message as stored in its log: encoded once per dialect, regardless of the number of subscribers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Encodings {
    /// Always present, since it owns the data.
    json: Encoded<Json>,
}

/// A dialect whose encoding is stored in the log.
pub trait CachedDialect: Encoding {
    /// Returns the message in this dialect.
    fn of(message: &Encodings) -> &Encoded<Self>;

    /// Returns the pattern in this dialect.
    fn of_pattern(pattern: &PatternEncodings) -> &str;
}

/// A pattern as stored in its log: the part that all messages received through the pattern share, encoded
/// once per dialect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PatternEncodings {
    json: Box<str>,
}

impl PatternEncodings {
    /// Encodes a pattern's name and the epoch of its log.
    #[must_use]
    pub fn new(name: &str, epoch: &str) -> Self {
        Self { json: Json::encode_pattern(name, epoch) }
    }
}

impl CachedDialect for Json {
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

    /// Returns the published data.
    #[must_use]
    pub fn data(&self) -> CompactJson<'_> {
        self.json.data()
    }

    /// Returns the metadata added by the server.
    #[must_use]
    pub fn stamp(&self) -> Stamp<'_> {
        self.json.stamp()
    }

    /// Returns the published data with its publisher.
    #[must_use]
    pub fn content(&self) -> Content<'_> {
        let Stamp { kind, user, at_ms } = self.stamp();
        Content { kind, user: user.map(|user| user.to_text().into()), at_ms, data: self.data() }
    }

    /// Heap memory used, in bytes.
    #[must_use]
    pub fn size(&self) -> usize {
        self.json.size()
    }
}
