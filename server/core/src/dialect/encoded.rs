use std::marker::PhantomData;

use super::Encoding;
use crate::message::{CompactJson, Stamp};

/// A message in dialect `D`, encoded once and shared by all its readers: each writes it under its own seq.
///
/// The data is a part of the text: the message can be encoded for another dialect from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Encoded<D> {
    text: Box<str>,
    /// Where in the text the data is.
    data_at: u32,
    data_len: u32,
    dialect: PhantomData<D>,
}

impl<D: Encoding> Encoded<D> {
    /// `before`, the data, and `after`.
    pub(super) fn around(before: &str, data: &CompactJson<'_>, after: &str) -> Self {
        let data = data.as_str();
        let mut text = String::with_capacity(before.len() + data.len() + after.len());
        text.push_str(before);
        text.push_str(data);
        text.push_str(after);
        let short = |len: usize| u32::try_from(len).expect("messages and names are limited, far below 4 GiB");
        Self {
            text: text.into_boxed_str(),
            data_at: short(before.len()),
            data_len: short(data.len()),
            dialect: PhantomData,
        }
    }

    /// What was published.
    #[must_use]
    pub fn data(&self) -> CompactJson<'_> {
        CompactJson::already(&self.text[self.data_at as usize..][..self.data_len as usize])
    }

    /// What the server says of it.
    #[must_use]
    pub fn stamp(&self) -> Stamp<'_> {
        D::stamp_before_data(&self.text[..self.data_at as usize])
    }

    /// The length of the text under this `seq`, in bytes.
    #[must_use]
    pub fn len_with(&self, seq: u64, by: Option<ByPattern<'_>>) -> usize {
        D::message_len(&self.text, seq, by)
    }

    /// Appends the text under this `seq`.
    pub fn write_with(&self, seq: u64, by: Option<ByPattern<'_>>, out: &mut Vec<u8>) {
        D::write_message(&self.text, seq, by, out);
    }

    /// The memory it takes beside the struct, in bytes.
    #[must_use]
    pub fn size(&self) -> usize {
        self.text.len()
    }
}

/// How a message came to a reader that follows a pattern.
#[derive(Clone, Copy, Debug)]
pub struct ByPattern<'a> {
    /// What [`Encoding::encode_pattern`] made of the pattern.
    pub pattern: &'a str,
    /// The message's number in the pattern's log.
    pub offset: u64,
    /// The epoch of its channel's log: a reader of the pattern is told nowhere else.
    pub channel_epoch: &'a str,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::json::Json;

    /// A log holds millions.
    #[test]
    fn an_encoded_message_is_small() {
        assert_eq!(size_of::<Encoded<Json>>(), 24);
    }
}
