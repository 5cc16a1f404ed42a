use std::time::Duration;

use serde::{Serialize, Serializer};

/// Advice to a client on how to continue. For omitted fields, the client keeps the values it received before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Advice {
    /// Whether and how to reconnect.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reconnect: Option<Reconnect>,
    /// Time to wait before the next request.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "millis")]
    pub interval: Option<Duration>,
    /// How long the server holds a request.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "millis")]
    pub timeout: Option<Duration>,
    /// How long the session waits for its client.
    #[serde(rename = "maxInterval", skip_serializing_if = "Option::is_none", serialize_with = "millis")]
    pub max_interval: Option<Duration>,
    /// Whether the server already holds a request from another page of the same browser, in which case this
    /// page's requests are answered immediately.
    #[serde(rename = "multiple-clients", skip_serializing_if = "std::ops::Not::not")]
    pub multiple_clients: bool,
}

/// How a client reconnects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Reconnect {
    /// Reconnect to the same session.
    Retry,
    /// Reconnect with a new handshake. Some clients accept this only in an unsuccessful reply.
    Handshake,
    /// Do not reconnect automatically.
    None,
}

impl Advice {
    /// Advises the client to retry after `interval`.
    #[must_use]
    pub fn pause(interval: Duration) -> Self {
        Self { reconnect: Some(Reconnect::Retry), interval: Some(interval), ..Self::default() }
    }

    /// Whether the advice makes the client wait before every subsequent request.
    #[must_use]
    pub fn is_pause(&self) -> bool {
        self.reconnect == Some(Reconnect::Retry) && self.interval.is_some_and(|interval| !interval.is_zero())
    }

    /// Advises the client to open a new session after `interval`.
    #[must_use]
    pub fn handshake(interval: Duration) -> Self {
        Self { reconnect: Some(Reconnect::Handshake), interval: Some(interval), ..Self::default() }
    }

    /// Advises the client not to reconnect.
    #[must_use]
    pub fn none() -> Self {
        Self { reconnect: Some(Reconnect::None), ..Self::default() }
    }
}

#[expect(clippy::ref_option, reason = "serde gives a reference to the field")]
fn millis<S: Serializer>(duration: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    duration.map(|duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)).serialize(serializer)
}
