//! Messages as logs store them: the text that all subscribers receive, encoded once.

use super::write::push_string;
use crate::message::{CompactJson, Content, ContentKind, JsonString, Message, Stamp};

/// Beginning of a message. The seq comes first, as in `{"message":{"seq":57`, so that the remainder is the
/// same for every subscriber:
/// `,"channel":"news","offset":42,"user":"alice","at_ms":1700000000000,"data":{"any":"json"}}}`. A join or
/// leave message has `joined` or `left` instead of `data`. The epoch may precede the channel:
/// `,"epoch":"e","channel":"news"`.
const BEFORE_SEQ: &str = r#"{"message":{"seq":"#;
const BEFORE_EPOCH: &str = r#","epoch":""#;
const AFTER_EPOCH: &str = r#"""#;
const BEFORE_USER: &str = r#","user":"#;
const BEFORE_AT: &str = r#","at_ms":"#;
const AFTER_DATA: &str = "}}";

fn before_data(kind: ContentKind) -> &'static str {
    match kind {
        ContentKind::Data => r#","data":"#,
        ContentKind::Joined => r#","joined":"#,
        ContentKind::Left => r#","left":"#,
    }
}

/// Text after the offset in a pattern. A message received through a pattern has additional fields between the
/// seq and the channel: `,"pattern":{"name":"/a/*","epoch":"e","offset":7},"epoch":"e"`.
const AFTER_PATTERN: &str = "}";

fn digits(number: u64) -> usize {
    number.checked_ilog10().map_or(1, |log| log as usize + 1)
}

/// A message, encoded once for all its subscribers: the whole text except the part that depends on the
/// subscriber, which is the seq, and the position in a pattern.
///
/// The text contains the data, from which the message can be encoded for another dialect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncodedMessage {
    text: Box<str>,
    /// Byte offset of the data in the text.
    data_at: u32,
    data_len: u32,
}

/// The size matters because logs hold millions of messages.
const _: () = assert!(size_of::<EncodedMessage>() == 24);

/// Additional fields of a message that a subscriber receives through a pattern.
#[derive(Clone, Copy, Debug)]
pub struct ByPattern<'a> {
    /// The pattern.
    pub pattern: &'a EncodedPattern,
    /// Offset of the message in the pattern's log.
    pub offset: u64,
    /// Epoch of the channel's log, which such a message always names.
    pub channel_epoch: &'a str,
}

/// Name of a pattern and the epoch of its log, which all messages received through the pattern have in common,
/// encoded once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncodedPattern(Box<str>);

impl EncodedPattern {
    /// Encodes a pattern's name and the epoch of its log.
    #[must_use]
    pub fn new(name: &str, epoch: &str) -> Self {
        let name = serde_json::to_string(name).expect("serializing strings cannot fail");
        Self(format!(r#","pattern":{{"name":{name},"epoch":"{epoch}","offset":"#).into())
    }
}

impl EncodedMessage {
    /// Encodes a message.
    #[must_use]
    pub fn new(message: &Message<'_>) -> Self {
        let Message { channel, epoch, offset, at_ms, content: Content { kind, user, data, .. } } = message;
        let mut number = itoa::Buffer::new();
        let mut before = String::new();
        if let Some(epoch) = epoch {
            before.extend([BEFORE_EPOCH, epoch, AFTER_EPOCH]);
        }
        before.push_str(r#","channel":"#);
        push_string(&mut before, channel);
        before.push_str(r#","offset":"#);
        before.push_str(number.format(*offset));
        if let Some(user) = user {
            before.push_str(BEFORE_USER);
            push_string(&mut before, user);
        }
        if let Some(at_ms) = at_ms {
            before.push_str(BEFORE_AT);
            before.push_str(number.format(*at_ms));
        }
        before.push_str(before_data(*kind));
        let data = data.as_str();
        let mut text = String::with_capacity(before.len() + data.len() + AFTER_DATA.len());
        text.push_str(&before);
        text.push_str(data);
        text.push_str(AFTER_DATA);
        let short = |len: usize| u32::try_from(len).expect("messages and names are limited, far below 4 GiB");
        Self { text: text.into_boxed_str(), data_at: short(before.len()), data_len: short(data.len()) }
    }

    /// Returns the published data.
    #[must_use]
    pub fn data(&self) -> CompactJson<'_> {
        CompactJson::from_compact(&self.text[self.data_at as usize..][..self.data_len as usize])
    }

    /// Returns the metadata added by the server.
    #[must_use]
    pub fn stamp(&self) -> Stamp<'_> {
        let before = &self.text[..self.data_at as usize];
        // The server writes the field name of the data last, so only a suffix match is reliable.
        let stripped = |kind| Some((kind, before.strip_suffix(before_data(kind))?));
        let kinds = [ContentKind::Data, ContentKind::Joined, ContentKind::Left];
        let (kind, before) = kinds.into_iter().find_map(stripped).unwrap_or((ContentKind::Data, before));
        let (before_number, number) =
            before.split_at(before.trim_end_matches(|c: char| c.is_ascii_digit()).len());
        // The number is the time only if the field name precedes it. Otherwise it is the offset, or part of a
        // string, which ends with a quote.
        let (before, at_ms) = match before_number.strip_suffix(BEFORE_AT) {
            Some(before) => (before, number.parse().ok()),
            None => (before, None),
        };
        // The last match is the field name, because quotes within JSON strings are escaped by a backslash.
        let user_at = before.rfind(BEFORE_USER).filter(|_| before.ends_with('"'));
        let user = user_at.map(|at| JsonString::from_encoded(&before[at + BEFORE_USER.len()..]));
        Stamp { kind, user, at_ms }
    }

    /// Returns the published data with its publisher.
    #[must_use]
    pub fn content(&self) -> Content<'_> {
        let Stamp { kind, user, at_ms } = self.stamp();
        Content { kind, user: user.map(|user| user.to_text().into()), at_ms, data: self.data() }
    }

    /// Whether the message is a join or a leave.
    #[must_use]
    pub fn is_join_or_leave(&self) -> bool {
        !self.text[..self.data_at as usize].ends_with(before_data(ContentKind::Data))
    }

    fn names_epoch(&self) -> bool {
        self.text.starts_with(BEFORE_EPOCH)
    }

    /// Length in bytes of the text with this `seq`.
    #[must_use]
    pub fn len_with(&self, seq: u64, by: Option<ByPattern<'_>>) -> usize {
        let by = by.map_or(0, |ByPattern { pattern, offset, channel_epoch }| {
            let epoch = BEFORE_EPOCH.len() + channel_epoch.len() + AFTER_EPOCH.len();
            let epoch = if self.names_epoch() { 0 } else { epoch };
            pattern.0.len() + digits(offset) + AFTER_PATTERN.len() + epoch
        });
        BEFORE_SEQ.len() + digits(seq) + by + self.text.len()
    }

    /// Appends the text with this `seq`.
    pub fn write_with(&self, seq: u64, by: Option<ByPattern<'_>>, out: &mut Vec<u8>) {
        let mut number = itoa::Buffer::new();
        out.extend_from_slice(BEFORE_SEQ.as_bytes());
        out.extend_from_slice(number.format(seq).as_bytes());
        if let Some(ByPattern { pattern, offset, channel_epoch }) = by {
            out.extend_from_slice(pattern.0.as_bytes());
            out.extend_from_slice(number.format(offset).as_bytes());
            out.extend_from_slice(AFTER_PATTERN.as_bytes());
            if !self.names_epoch() {
                out.extend_from_slice(BEFORE_EPOCH.as_bytes());
                out.extend_from_slice(channel_epoch.as_bytes());
                out.extend_from_slice(AFTER_EPOCH.as_bytes());
            }
        }
        out.extend_from_slice(self.text.as_bytes());
    }

    /// Heap memory used, in bytes.
    #[must_use]
    pub fn size(&self) -> usize {
        self.text.len()
    }
}
