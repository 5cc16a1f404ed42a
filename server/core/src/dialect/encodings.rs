use super::json::Json;
use super::{Dialect, Encoded};
use crate::message::{CompactJson, Message};

/// A message as its log keeps it: one encoding for each dialect, shared by all readers. It is the one type that knows
/// which dialects there are; [`Dialect::cached`] is its look-up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Encodings {
    /// Made at once, since it owns the data.
    pub(super) json: Encoded<Json>,
}

impl Encodings {
    /// Encodes a message.
    #[must_use]
    pub fn of(message: &Message<'_>) -> Self {
        Self { json: Json::encode(message) }
    }

    /// The message in dialect `D`.
    #[must_use]
    pub fn get<D: Dialect>(&self) -> &Encoded<D> {
        D::cached(self)
    }

    /// What was published.
    #[must_use]
    pub fn data(&self) -> CompactJson<'_> {
        self.json.data()
    }

    /// The memory it takes beside the struct, in bytes.
    #[must_use]
    pub fn size(&self) -> usize {
        self.json.size()
    }
}
