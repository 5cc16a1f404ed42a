use std::sync::Arc;

use encke_core::session::Transition;
use serde::ser::SerializeStruct;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::RawValue;
use strum::{EnumMessage, VariantArray};

use crate::channel::ChannelName;
use crate::clock::UnixTime;
use crate::session::SessionId;

/// What a webhook may be told of, by the names of the configuration and of the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, EnumMessage, VariantArray)]
pub(crate) enum EventName {
    /// A session began.
    #[serde(rename = "session.opened")]
    SessionOpened,
    /// It lost its connection, and waits for another.
    #[serde(rename = "session.suspended")]
    SessionSuspended,
    /// It got a new connection.
    #[serde(rename = "session.resumed")]
    SessionResumed,
    /// Its client did not come back in time.
    #[serde(rename = "session.expired")]
    SessionExpired,
    /// It was ended.
    #[serde(rename = "session.closed")]
    SessionClosed,
    /// The first session follows the channel.
    #[serde(rename = "channel.occupied")]
    ChannelOccupied,
    /// The last one has left it, or ended.
    #[serde(rename = "channel.vacated")]
    ChannelVacated,
    /// Told to the webhook that the reminder names, and to no other.
    #[serde(rename = "reminder.due")]
    ReminderDue,
}

impl EventName {
    pub(super) fn of(transition: Transition) -> Self {
        match transition {
            Transition::Opened => Self::SessionOpened,
            Transition::Suspended(_) => Self::SessionSuspended,
            Transition::Resumed(_) => Self::SessionResumed,
            Transition::Expired => Self::SessionExpired,
            Transition::Closed(_) => Self::SessionClosed,
        }
    }

    pub(super) fn is_of_channel(self) -> bool {
        matches!(self, Self::ChannelOccupied | Self::ChannelVacated)
    }
}

/// Something that has happened.
#[derive(Clone, Debug)]
pub(super) struct Event {
    /// The same at every try, and another for every other event of any server.
    pub(super) id: Box<str>,
    pub(super) name: EventName,
    pub(super) at: UnixTime,
    pub(super) subject: Subject,
}

/// What it has happened to.
#[derive(Clone, Debug)]
pub(super) enum Subject {
    Session {
        id: SessionId,
        /// The `sub` of its client's token.
        user: Option<Arc<str>>,
        /// Counts the events of the session from 1.
        number: u32,
        reason: &'static str,
    },
    Channel(ChannelName),
    Reminder {
        key: Box<str>,
        data: Arc<RawValue>,
    },
}

impl Event {
    /// What the backend has chosen the length of.
    pub(super) fn data_bytes(&self) -> usize {
        match &self.subject {
            Subject::Reminder { data, .. } => data.get().len(),
            Subject::Session { .. } | Subject::Channel(_) => 0,
        }
    }
}

/// What does not apply is left out.
impl Serialize for Event {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_struct("Event", 8)?;
        object.serialize_field("id", &self.id)?;
        object.serialize_field("event", &self.name)?;
        match &self.subject {
            Subject::Session { id, user, number, reason } => {
                object.serialize_field("number", number)?;
                object.serialize_field("session", &id.to_string())?;
                if let Some(user) = user {
                    object.serialize_field("user", &**user)?;
                }
                object.serialize_field("reason", reason)?;
            }
            Subject::Channel(channel) => object.serialize_field("channel", channel.as_str())?,
            Subject::Reminder { key, data } => {
                object.serialize_field("key", key)?;
                object.serialize_field("data", &**data)?;
            }
        }
        object.serialize_field("at_ms", &self.at.as_millis())?;
        object.end()
    }
}
