use std::time::Duration;

use serde::{Serialize, Serializer};

/// What a client is to do next. It keeps what it was told before of all that is left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Advice {
    /// Whether to come back, and how.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reconnect: Option<Reconnect>,
    /// How long to wait before the next request.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "millis")]
    pub interval: Option<Duration>,
    /// How long a request is held.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "millis")]
    pub timeout: Option<Duration>,
    /// How long the session waits for its client.
    #[serde(rename = "maxInterval", skip_serializing_if = "Option::is_none", serialize_with = "millis")]
    pub max_interval: Option<Duration>,
    /// Another page of the same browser has a request held: this one's are answered at once.
    #[serde(rename = "multiple-clients", skip_serializing_if = "std::ops::Not::not")]
    pub multiple_clients: bool,
}

/// How a client comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Reconnect {
    /// To the same session.
    Retry,
    /// To a new one. Some clients take this only from an unsuccessful reply.
    Handshake,
    /// Not by itself.
    None,
}

impl Advice {
    /// To wait for so long, and then go on.
    #[must_use]
    pub fn pause(interval: Duration) -> Self {
        Self { reconnect: Some(Reconnect::Retry), interval: Some(interval), ..Self::default() }
    }

    /// Whether the client is to wait, and keeps that in mind.
    #[must_use]
    pub fn is_pause(&self) -> bool {
        self.reconnect == Some(Reconnect::Retry) && self.interval.is_some_and(|interval| !interval.is_zero())
    }

    /// To open a new session, in so long.
    #[must_use]
    pub fn handshake(interval: Duration) -> Self {
        Self { reconnect: Some(Reconnect::Handshake), interval: Some(interval), ..Self::default() }
    }

    /// To stay away.
    #[must_use]
    pub fn none() -> Self {
        Self { reconnect: Some(Reconnect::None), ..Self::default() }
    }
}

#[expect(clippy::ref_option, reason = "serde gives a reference to the field")]
fn millis<S: Serializer>(duration: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    duration.map(|duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)).serialize(serializer)
}
