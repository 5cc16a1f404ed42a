use encke_core::session::ConnectionKind;

/// How a connection's bytes are transported. The names appear in the admin API and in metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, strum::IntoStaticStr)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub(crate) enum Transport {
    WebSocket,
    /// Server-sent events.
    #[serde(rename = "sse")]
    #[strum(serialize = "sse")]
    Events,
    /// Long polling: a request is held until there is something to send.
    Poll,
}

impl From<ConnectionKind> for Transport {
    fn from(kind: ConnectionKind) -> Self {
        match kind {
            ConnectionKind::Stream(_) => Self::WebSocket,
            ConnectionKind::Events => Self::Events,
            ConnectionKind::Poll { .. } => Self::Poll,
        }
    }
}
