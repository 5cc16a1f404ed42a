use std::sync::Arc;
use std::time::Duration;

use encke_core::message::{BadJson, CompactJson};
use serde_json::value::RawValue;

use encke_broker::channel::{ChannelName, InvalidChannelName};

/// Maximum delay of a reminder.
pub(crate) const MAX_DELAY: Duration = Duration::from_hours(30 * 24);

/// Maximum length of a key, in bytes.
const MAX_KEY_BYTES: usize = 255;

/// Key of a reminder: text without control characters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ReminderKey(Box<str>);

/// Action to execute when a reminder is due.
#[derive(Clone, Debug)]
pub(crate) enum ReminderAction {
    /// Publishes a message without a user.
    Publish { channel: ChannelName, data: Arc<RawValue> },
    /// Notifies the webhook with this name.
    Webhook { name: Box<str>, data: Arc<RawValue> },
}

impl ReminderAction {
    pub(super) fn data(&self) -> &RawValue {
        let (Self::Publish { data, .. } | Self::Webhook { data, .. }) = self;
        data
    }
}

/// A pending reminder.
#[derive(Clone, Debug)]
pub(crate) struct PendingReminder {
    pub(crate) due_in: Duration,
    pub(crate) action: ReminderAction,
}

/// Why a reminder is invalid.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BadReminder {
    #[error("a reminder's key must have 1 to {MAX_KEY_BYTES} bytes")]
    KeyLength,
    #[error("a reminder's key must not contain control characters")]
    KeyCharacter,
    #[error(transparent)]
    Channel(#[from] InvalidChannelName),
    #[error(transparent)]
    Data(#[from] BadJson),
    #[error("the data is not valid JSON")]
    NotJson,
    #[error("a reminder must have exactly one action")]
    NotOneAction,
}

impl ReminderKey {
    /// Validates `text`.
    pub(crate) fn new(text: &str) -> Result<Self, BadReminder> {
        if !(1..=MAX_KEY_BYTES).contains(&text.len()) {
            return Err(BadReminder::KeyLength);
        }
        if text.chars().any(char::is_control) {
            return Err(BadReminder::KeyCharacter);
        }
        Ok(Self(text.into()))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// Normalises data: removes white space, and rejects JSON that some parsers do not accept.
pub(crate) fn compact(data: &RawValue) -> Result<Arc<RawValue>, BadJson> {
    let compact = CompactJson::parse(data.get())?;
    let text = compact.as_str().to_owned();
    Ok(RawValue::from_string(text).expect("compact JSON is valid JSON").into())
}

/// Converts the output of [`compact`].
pub(super) fn already_compact(data: &RawValue) -> CompactJson<'_> {
    CompactJson::parse(data.get()).expect("parsed when the reminder was created")
}
