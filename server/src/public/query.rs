use std::borrow::Cow;
use std::num::ParseIntError;

use encke_core::dialect::DialectName;
use encke_core::dialect::json::Json;
use encke_core::session::{ConnectionKind, Heartbeat};

use encke_broker::channel::ChannelName;
use hyper::Request;

use crate::client::{AdmitRequest, ClientSettings};
use crate::http::ApiError;
use crate::http::request::parameters;
use crate::session::{ReportedPositions, SessionRequest};

/// Query parameters of a client that cannot send commands over its connection.
pub(super) struct Query {
    pub(super) wanted: AdmitRequest,
    /// Channels to subscribe to.
    pub(super) channels: Vec<ChannelName>,
    /// Number of newest messages to send first, for each channel in which the client has no position.
    pub(super) last: u64,
}

impl Query {
    pub(super) fn read<B>(
        request: &Request<B>,
        kind: ConnectionKind,
        settings: &ClientSettings,
    ) -> Result<Self, ApiError> {
        let (mut wanted, mut channels, mut last) = (admit_request(kind), Vec::new(), 0);
        for (name, value) in parameters(request.uri()) {
            match &*name {
                "last" => {
                    last = value.parse().map_err(|_| ApiError::bad_request("last must be a number"))?;
                }
                "channels" => {
                    for text in value.split(',') {
                        let channel = ChannelName::new(text, settings.channel_name_bytes)
                            .map_err(|error| ApiError::bad_request(format!("channels: {error}")))?;
                        channels.push(channel);
                    }
                }
                _ => read_parameter(&mut wanted, &name, value)
                    .map_err(|_| ApiError::bad_request("seq must be a number"))?,
            }
        }
        let limit = settings.max_subscriptions;
        if channels.len() > limit {
            let message = format!("channels: too many for one session (limits.max_subscriptions = {limit})");
            return Err(ApiError::bad_request(message));
        }
        Ok(Self { wanted, channels, last })
    }
}

/// Parses the query of an upgrade request. Returns `None` if a value is malformed. Other names are
/// ignored: `parameter_names` checks them.
pub(crate) fn parse_query(query: &str) -> Option<(AdmitRequest, Json)> {
    let (mut wanted, mut dialect) =
        (admit_request(ConnectionKind::Stream(Heartbeat::Frame)), Json::default());
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        match &*name {
            "heartbeat" => {
                dialect.heartbeat = match &*value {
                    "frame" => Heartbeat::Frame,
                    "message" => Heartbeat::Message,
                    _ => return None,
                }
            }
            "positions" => match &*value {
                "1" => wanted.session.positions = ReportedPositions::Announced,
                _ => return None,
            },
            _ => read_parameter(&mut wanted, &name, value).ok()?,
        }
    }
    wanted.session.kind = ConnectionKind::Stream(dialect.heartbeat);
    Some((wanted, dialect))
}

/// Creates the request of an anonymous client for a new session.
fn admit_request(kind: ConnectionKind) -> AdmitRequest {
    AdmitRequest { token: None, session: SessionRequest::new(kind, DialectName::Json) }
}

/// Reads a parameter that all transports have in common. Other names are ignored.
fn read_parameter(wanted: &mut AdmitRequest, name: &str, value: Cow<'_, str>) -> Result<(), ParseIntError> {
    match name {
        "resume" => wanted.session.resume = Some(value.into_owned()),
        "seq" => wanted.session.seq = Some(value.parse()?),
        "token" => wanted.token = Some(value.into_owned()),
        _ => {}
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_read() {
        let (wanted, dialect) =
            parse_query("resume=s_a%2Eb&seq=7&token=a.b.c&heartbeat=message&x=y").expect("a valid query");
        let session = SessionRequest {
            resume: Some("s_a.b".into()),
            seq: Some(7),
            ..SessionRequest::new(ConnectionKind::Stream(Heartbeat::Message), DialectName::Json)
        };
        assert!(wanted == AdmitRequest { token: Some("a.b.c".into()), session });
        assert_eq!(dialect.heartbeat, Heartbeat::Message);
        let (wanted, dialect) = parse_query("").expect("a valid query");
        assert!(wanted == admit_request(ConnectionKind::Stream(Heartbeat::Frame)));
        assert_eq!(dialect.heartbeat, Heartbeat::Frame);
    }

    #[test]
    fn bad_values_are_refused() {
        for query in ["seq=", "seq=-1", "seq=18446744073709551616", "heartbeat=", "heartbeat=none"] {
            assert!(parse_query(query).is_none(), "{query}");
        }
    }
}
