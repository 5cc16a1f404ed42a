use std::time::Duration;

use encke_broker::channel::ChannelName;
use minicbor::{Decode, Encode};
use serde_json::value::RawValue;

use super::reminder::{BadReminder, MAX_DELAY, PendingReminder, ReminderAction, ReminderKey, compact};

/// A reminder in a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub(crate) struct ReminderRecord {
    #[n(0)]
    pub(crate) key: String,
    /// Time left until the reminder is due.
    #[n(1)]
    remaining_ns: u64,
    /// JSON text.
    #[n(2)]
    data: String,
    /// Channel to publish to. Exactly one of `channel` and `webhook` is set.
    #[n(3)]
    channel: Option<String>,
    /// Name of the webhook to notify.
    #[n(4)]
    webhook: Option<String>,
}

impl ReminderRecord {
    pub(super) fn new(key: &ReminderKey, waiting: &PendingReminder) -> Self {
        let (data, channel, webhook) = match &waiting.action {
            ReminderAction::Publish { channel, data } => (data, Some(channel.as_str().to_owned()), None),
            ReminderAction::Webhook { name, data } => (data, None, Some(name.to_string())),
        };
        Self {
            key: key.as_str().to_owned(),
            remaining_ns: u64::try_from(waiting.due_in.as_nanos()).unwrap_or(u64::MAX),
            data: data.get().to_owned(),
            channel,
            webhook,
        }
    }

    /// Time left until the reminder is due.
    pub(crate) fn remaining(&self) -> Duration {
        Duration::from_nanos(self.remaining_ns)
    }

    /// The inverse of [`Self::new`].
    pub(super) fn parse(&self) -> Result<(ReminderKey, PendingReminder), BadReminder> {
        let data: &RawValue = serde_json::from_str(&self.data).map_err(|_| BadReminder::NotJson)?;
        let data = compact(data)?;
        let action = match (&self.channel, &self.webhook) {
            (Some(channel), None) => {
                ReminderAction::Publish { channel: ChannelName::for_publish(channel, usize::MAX)?, data }
            }
            (None, Some(name)) => ReminderAction::Webhook { name: name.as_str().into(), data },
            _ => return Err(BadReminder::NotOneAction),
        };
        Ok((
            ReminderKey::new(&self.key)?,
            PendingReminder { due_in: self.remaining().min(MAX_DELAY), action },
        ))
    }
}
