use encke_core::dialect::DialectName;
use encke_core::dialect::json::Json;
use encke_core::session::{ConnectionKind, Heartbeat};

use hyper::Request;

use crate::channel::ChannelName;
use crate::client::{AdmitRequest, ClientSettings};
use crate::http::ApiError;
use crate::transport::websocket::ConnectParams;

/// Query parameters of a client that cannot send commands over its connection.
#[derive(Default)]
pub(super) struct Query {
    /// Unverified resume token.
    pub(super) resume: Option<String>,
    /// Seq of the last message that the client has received.
    pub(super) seq: Option<u64>,
    /// Unverified JWT.
    pub(super) token: Option<String>,
    /// Channels to subscribe to.
    pub(super) channels: Vec<ChannelName>,
    /// Number of newest messages to send first, for each channel in which the client has no position.
    pub(super) last: u64,
}

impl Query {
    pub(super) fn read<B>(request: &Request<B>, settings: &ClientSettings) -> Result<Self, ApiError> {
        let mut read = Self::default();
        for (name, value) in form_urlencoded::parse(request.uri().query().unwrap_or_default().as_bytes()) {
            match &*name {
                "resume" => read.resume = Some(value.into_owned()),
                "seq" => {
                    let seq = value.parse().map_err(|_| ApiError::bad_request("seq must be a number"))?;
                    read.seq = Some(seq);
                }
                "last" => {
                    let last = value.parse().map_err(|_| ApiError::bad_request("last must be a number"))?;
                    read.last = last;
                }
                "token" => read.token = Some(value.into_owned()),
                "channels" => {
                    for text in value.split(',') {
                        let channel = ChannelName::new(text, settings.channel_name_bytes)
                            .map_err(|error| ApiError::bad_request(format!("channels: {error}")))?;
                        read.channels.push(channel);
                    }
                }
                _ => {}
            }
        }
        let limit = settings.max_subscriptions;
        if read.channels.len() > limit {
            let message = format!("channels: too many for one session (limits.max_subscriptions = {limit})");
            return Err(ApiError::bad_request(message));
        }
        Ok(read)
    }

    /// Returns the request for a session, with the tokens taken out of the query.
    pub(super) fn admit_request(&mut self, kind: ConnectionKind) -> AdmitRequest {
        AdmitRequest {
            token: self.token.take(),
            resume: self.resume.take(),
            seq: self.seq,
            // An `EventSource` without channels would receive nothing in a new session.
            only_resume: kind == ConnectionKind::Events && self.channels.is_empty(),
            ..AdmitRequest::new(kind, DialectName::Json)
        }
    }
}

/// Parses the query of an upgrade request. Returns `None` if a value is malformed. Unknown names are ignored.
pub(crate) fn parse_query(query: &str) -> Option<ConnectParams<Json>> {
    let mut wanted = ConnectParams::<Json>::default();
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        match &*name {
            "resume" => wanted.resume = Some(value.into_owned()),
            "seq" => wanted.seq = Some(value.parse().ok()?),
            "token" => wanted.token = Some(value.into_owned()),
            "heartbeat" => wanted.dialect.heartbeat = heartbeat(&value)?,
            _ => {}
        }
    }
    Some(wanted)
}

fn heartbeat(value: &str) -> Option<Heartbeat> {
    match value {
        "frame" => Some(Heartbeat::Frame),
        "message" => Some(Heartbeat::Message),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_read() {
        let read =
            parse_query("resume=s_a%2Eb&seq=7&token=a.b.c&heartbeat=message&x=y").expect("a valid query");
        let expected = ConnectParams {
            resume: Some("s_a.b".into()),
            seq: Some(7),
            token: Some("a.b.c".into()),
            dialect: Json { heartbeat: Heartbeat::Message },
        };
        assert!(read == expected);
        assert!(parse_query("") == Some(ConnectParams::default()));
    }

    #[test]
    fn bad_values_are_refused() {
        for query in ["seq=", "seq=-1", "seq=18446744073709551616", "heartbeat=", "heartbeat=none"] {
            assert!(parse_query(query).is_none(), "{query}");
        }
    }
}
