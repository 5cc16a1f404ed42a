use std::sync::Arc;
use std::time::Duration;

use encke_core::message::{BadJson, CompactJson};
use serde_json::value::RawValue;

use crate::channel::{BadChannelName, ChannelName};

/// The longest time that one may wait.
pub(crate) const LONGEST: Duration = Duration::from_hours(30 * 24);

/// The longest key, in bytes.
const LONGEST_KEY: usize = 255;

/// What a reminder is known by: some text without control characters.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ReminderKey(Box<str>);

/// What is done when a reminder is due.
#[derive(Clone, Debug)]
pub(crate) enum Action {
    /// A message of nobody by name.
    Publish { channel: ChannelName, data: Arc<RawValue> },
    /// The webhook of this name is told.
    Webhook { name: Box<str>, data: Arc<RawValue> },
}

/// This is no reminder.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BadReminder {
    #[error("a reminder's key must have from 1 to {LONGEST_KEY} bytes")]
    KeyLength,
    #[error("a reminder's key must not have control characters")]
    KeyCharacter,
    #[error(transparent)]
    Channel(#[from] BadChannelName),
    #[error(transparent)]
    Data(#[from] BadJson),
    #[error("its data is no JSON")]
    NotJson,
    #[error("it is for nothing, or for more than one thing")]
    NotOneAction,
}

impl ReminderKey {
    /// Checks `text`.
    pub(crate) fn new(text: &str) -> Result<Self, BadReminder> {
        if !(1..=LONGEST_KEY).contains(&text.len()) {
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

/// Data as a reminder keeps it: without white space, and such as every parser takes.
pub(crate) fn compact(data: &RawValue) -> Result<Arc<RawValue>, BadJson> {
    let compact = CompactJson::parse(data.get())?;
    let text = compact.as_str().to_owned();
    Ok(RawValue::from_string(text).expect("it was JSON with white space, too").into())
}

/// What [`compact`] has made.
pub(super) fn already_compact(data: &RawValue) -> CompactJson<'_> {
    CompactJson::parse(data.get()).expect("it was parsed when the reminder was made")
}
