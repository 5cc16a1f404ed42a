use encke_broker::channel::{HistoryMessage, Origin};
use encke_core::message::ContentKind;
use serde::Serialize;
use serde_json::value::RawValue;

/// A message of a history, as the API and clients receive it.
#[derive(Serialize)]
pub(crate) struct HistoryEntry {
    offset: u64,
    /// Channel of the message. Only set in the history of a pattern.
    #[serde(skip_serializing_if = "Option::is_none")]
    channel: Option<String>,
    /// Epoch of that channel, for clients.
    #[serde(skip_serializing_if = "Option::is_none")]
    channel_epoch: Option<String>,
    /// Offset of the message in that channel, for clients.
    #[serde(skip_serializing_if = "Option::is_none")]
    channel_offset: Option<u64>,
    /// User whose client published the message, if it was not anonymous.
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<String>,
    /// For clients of channels whose messages have the time.
    #[serde(skip_serializing_if = "Option::is_none")]
    at_ms: Option<u64>,
    /// For the API.
    #[serde(skip_serializing_if = "Option::is_none")]
    age_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<Box<RawValue>>,
    /// Session that joined the channel. Set instead of `data`.
    #[serde(skip_serializing_if = "Option::is_none")]
    joined: Option<Box<RawValue>>,
    /// Session that left the channel. Set instead of `data`.
    #[serde(skip_serializing_if = "Option::is_none")]
    left: Option<Box<RawValue>>,
}

impl HistoryEntry {
    /// Returns the message with the fields that its subscribers have received.
    pub(crate) fn for_client(message: HistoryMessage) -> Self {
        let (at_ms, origin) = (message.at_ms, message.origin.clone());
        let (channel_epoch, channel_offset) =
            origin.map(|Origin { epoch, offset, .. }| (epoch.to_string(), offset)).unzip();
        Self { channel_epoch, channel_offset, at_ms, ..Self::new(message) }
    }

    /// Returns the message with its age.
    pub(crate) fn for_api(message: HistoryMessage, age_ms: f64) -> Self {
        Self { age_ms: Some(age_ms), ..Self::new(message) }
    }

    fn new(message: HistoryMessage) -> Self {
        let json = RawValue::from_string(message.data).expect("what is published was read as JSON before");
        let (data, joined, left) = match message.kind {
            ContentKind::Data => (Some(json), None, None),
            ContentKind::Joined => (None, Some(json), None),
            ContentKind::Left => (None, None, Some(json)),
        };
        Self {
            offset: message.offset,
            channel: message.origin.map(|origin| origin.channel.to_string()),
            channel_epoch: None,
            channel_offset: None,
            user: message.user,
            at_ms: None,
            age_ms: None,
            data,
            joined,
            left,
        }
    }
}
