use std::sync::Arc;

use encke_broker::channel::ChannelName;
use encke_core::session::Transition;
use encke_timeouts::clock::UnixTime;
use serde::ser::SerializeStruct;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::RawValue;
use strum::{EnumMessage, VariantArray};

use crate::session::SessionId;

/// Name of an event that a webhook can subscribe to. The configuration and the wire format use the same
/// names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, EnumMessage, VariantArray)]
pub enum EventName {
    /// A session was opened.
    #[serde(rename = "session.opened")]
    SessionOpened,
    /// A session lost its connection, and can be resumed.
    #[serde(rename = "session.suspended")]
    SessionSuspended,
    /// A session has a new connection.
    #[serde(rename = "session.resumed")]
    SessionResumed,
    /// A session's client did not reconnect in time.
    #[serde(rename = "session.expired")]
    SessionExpired,
    /// A session was closed.
    #[serde(rename = "session.closed")]
    SessionClosed,
    /// A channel without subscribers got a subscriber.
    #[serde(rename = "channel.occupied")]
    ChannelOccupied,
    /// The last subscriber of a channel unsubscribed, or the session of this subscriber ended.
    #[serde(rename = "channel.vacated")]
    ChannelVacated,
    /// A user who was not online has opened or resumed a session. Anonymous clients are not users.
    #[serde(rename = "user.online")]
    UserOnline,
    /// Each session of a user has ended, or has had no connection for `session.offline_after`.
    #[serde(rename = "user.offline")]
    UserOffline,
    /// A reminder is due. This event is sent only to the webhook that the reminder names.
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

    pub(super) fn is_channel_event(self) -> bool {
        matches!(self, Self::ChannelOccupied | Self::ChannelVacated)
    }

    pub(super) fn is_user_event(self) -> bool {
        matches!(self, Self::UserOnline | Self::UserOffline)
    }
}

/// An event to deliver.
#[derive(Clone, Debug)]
pub(super) struct WebhookEvent {
    /// Unique across all servers, and the same in every attempt.
    pub(super) id: Box<str>,
    pub(super) name: EventName,
    pub(super) at: UnixTime,
    pub(super) subject: EventSubject,
}

/// Object that the event is about.
#[derive(Clone, Debug)]
pub(super) enum EventSubject {
    Session {
        id: SessionId,
        /// The `sub` claim of the client's token.
        user: Option<Arc<str>>,
        /// Number of the event within its session, counted from 1.
        number: u32,
        reason: &'static str,
    },
    Channel(ChannelName),
    /// The `sub` claim of the user's tokens.
    User(Arc<str>),
    Reminder {
        key: Box<str>,
        data: Arc<RawValue>,
    },
}

impl WebhookEvent {
    /// Size of the data supplied by the backend; the other fields are small.
    pub(super) fn data_bytes(&self) -> usize {
        match &self.subject {
            EventSubject::Reminder { data, .. } => data.get().len(),
            EventSubject::Session { .. } | EventSubject::Channel(_) | EventSubject::User(_) => 0,
        }
    }
}

/// Serializes the event as a JSON object. Fields that do not apply are omitted.
impl Serialize for WebhookEvent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_struct("Event", 8)?;
        object.serialize_field("id", &self.id)?;
        object.serialize_field("event", &self.name)?;
        match &self.subject {
            EventSubject::Session { id, user, number, reason } => {
                object.serialize_field("number", number)?;
                object.serialize_field("session", &id.to_string())?;
                if let Some(user) = user {
                    object.serialize_field("user", &**user)?;
                }
                object.serialize_field("reason", reason)?;
            }
            EventSubject::Channel(channel) => object.serialize_field("channel", channel.as_str())?,
            EventSubject::User(user) => object.serialize_field("user", &**user)?,
            EventSubject::Reminder { key, data } => {
                object.serialize_field("key", key)?;
                object.serialize_field("data", &**data)?;
            }
        }
        object.serialize_field("at_ms", &self.at.as_millis())?;
        object.end()
    }
}
