use std::time::Duration;

use minicbor::{Decode, Encode};
use serde_json::value::RawValue;

use super::Waiting;
use super::reminder::{Action, BadReminder, LONGEST, ReminderKey, compact};
use crate::channel::ChannelName;

/// A reminder, as a snapshot has it.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub(crate) struct ReminderRecord {
    #[n(0)]
    pub(crate) key: String,
    /// What remains of its time.
    #[n(1)]
    remaining_ns: u64,
    /// The text of JSON.
    #[n(2)]
    data: String,
    /// Where it is published, or
    #[n(3)]
    channel: Option<String>,
    /// which webhook is told.
    #[n(4)]
    webhook: Option<String>,
}

impl ReminderRecord {
    pub(super) fn of(key: &ReminderKey, waiting: &Waiting) -> Self {
        let (data, channel, webhook) = match &waiting.action {
            Action::Publish { channel, data } => (data, Some(channel.as_str().to_owned()), None),
            Action::Webhook { name, data } => (data, None, Some(name.to_string())),
        };
        Self {
            key: key.as_str().to_owned(),
            remaining_ns: u64::try_from(waiting.due_in.as_nanos()).unwrap_or(u64::MAX),
            data: data.get().to_owned(),
            channel,
            webhook,
        }
    }

    /// What remains of its time.
    pub(crate) fn remaining(&self) -> Duration {
        Duration::from_nanos(self.remaining_ns)
    }

    /// The reverse of [`Self::of`].
    pub(super) fn read(&self) -> Result<(ReminderKey, Waiting), BadReminder> {
        let data: &RawValue = serde_json::from_str(&self.data).map_err(|_| BadReminder::NotJson)?;
        let data = compact(data)?;
        let action = match (&self.channel, &self.webhook) {
            (Some(channel), None) => {
                Action::Publish { channel: ChannelName::to_publish(channel, usize::MAX)?, data }
            }
            (None, Some(name)) => Action::Webhook { name: name.as_str().into(), data },
            _ => return Err(BadReminder::NotOneAction),
        };
        Ok((ReminderKey::new(&self.key)?, Waiting { due_in: self.remaining().min(LONGEST), action }))
    }
}
