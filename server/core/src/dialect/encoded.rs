use std::marker::PhantomData;

use super::Encoding;
use crate::message::{CompactJson, Stamp};

/// A message in dialect `D`, encoded once for all its subscribers. Each subscriber receives it with a
/// different seq.
///
/// The text contains the data, from which the message can be encoded for another dialect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Encoded<D> {
    text: Box<str>,
    /// Byte offset of the data in the text.
    data_at: u32,
    data_len: u32,
    dialect: PhantomData<D>,
}

impl<D: Encoding> Encoded<D> {
    /// Concatenates `before`, the data and `after`.
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

    /// Returns the published data.
    #[must_use]
    pub fn data(&self) -> CompactJson<'_> {
        CompactJson::from_compact(&self.text[self.data_at as usize..][..self.data_len as usize])
    }

    /// Returns the metadata added by the server.
    #[must_use]
    pub fn stamp(&self) -> Stamp<'_> {
        D::stamp_before_data(&self.text[..self.data_at as usize])
    }

    /// Length in bytes of the text with this `seq`.
    #[must_use]
    pub fn len_with(&self, seq: u64, by: Option<ByPattern<'_>>) -> usize {
        D::message_len(&self.text, seq, by)
    }

    /// Appends the text with this `seq`.
    pub fn write_with(&self, seq: u64, by: Option<ByPattern<'_>>, out: &mut Vec<u8>) {
        D::write_message(&self.text, seq, by, out);
    }

    /// Heap memory used, in bytes.
    #[must_use]
    pub fn size(&self) -> usize {
        self.text.len()
    }
}

/// Additional fields of a message that a subscriber receives through a pattern.
#[derive(Clone, Copy, Debug)]
pub struct ByPattern<'a> {
    /// The pattern, encoded by [`Encoding::encode_pattern`].
    pub pattern: &'a str,
    /// Offset of the message in the pattern's log.
    pub offset: u64,
    /// Epoch of the channel's log. Pattern subscribers receive it only in this field.
    pub channel_epoch: &'a str,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::json::Json;

    /// The size matters because logs hold millions of messages.
    #[test]
    fn an_encoded_message_is_small() {
        assert_eq!(size_of::<Encoded<Json>>(), 24);
    }
}
