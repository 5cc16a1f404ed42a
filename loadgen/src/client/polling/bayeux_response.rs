//! Bayeux responses: arrays of messages and of replies to the client's messages, in any order.

use std::borrow::Cow;
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::json_response::objects;
use crate::client::bayeux_reader::code_of;
use crate::transport::websocket::ConnectionEnd;

/// Contents of a response.
#[derive(Debug, Default)]
pub(super) struct BayeuxResponse {
    /// Messages and replies to commands.
    pub(super) texts: Vec<Box<str>>,
    pub(super) connect: Option<ConnectReply>,
    pub(super) handshake: Option<HandshakeReply>,
}

#[derive(Debug)]
pub(super) struct ConnectReply {
    is_successful: bool,
    error: String,
    pub(super) advice: Advice,
    /// Number of the last batch that the client has received completely, as JSON.
    pub(super) ack: Option<Box<str>>,
}

#[derive(Debug)]
pub(super) struct HandshakeReply {
    pub(super) refusal: Option<String>,
    pub(super) client_id: Option<String>,
    pub(super) acknowledges: bool,
    pub(super) advice: Advice,
}

/// Advice from the server to the client.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Advice {
    pub(super) timeout: Option<Duration>,
    pub(super) interval: Option<Duration>,
    pub(super) max_interval: Option<Duration>,
    pub(super) multiple_clients: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct MetaReply<'a> {
    #[serde(borrow)]
    channel: Cow<'a, str>,
    #[serde(default)]
    successful: bool,
    #[serde(borrow, default)]
    error: Cow<'a, str>,
    client_id: Option<String>,
    #[serde(default)]
    advice: AdviceFields,
    #[serde(borrow, default)]
    ext: Option<Extensions<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct AdviceFields {
    timeout: Option<u64>,
    interval: Option<u64>,
    max_interval: Option<u64>,
    #[serde(rename = "multiple-clients")]
    multiple_clients: bool,
}

#[derive(Deserialize)]
struct Extensions<'a> {
    #[serde(borrow)]
    ack: Option<&'a RawValue>,
    /// Extension that only Encke sends.
    #[serde(borrow)]
    encke: Option<EnckeExtension<'a>>,
}

#[derive(Deserialize)]
struct EnckeExtension<'a> {
    #[serde(borrow, default)]
    gaps: Vec<&'a RawValue>,
}

/// Parses a response.
pub(super) fn parse_response(body: &[u8]) -> Result<BayeuxResponse, ConnectionEnd> {
    let mut response = BayeuxResponse::default();
    for text in objects(body)? {
        // Parse only objects that contain `/meta/`: most objects are messages and do not.
        let reply: Option<MetaReply<'_>> =
            if text.contains(r#""/meta/"#) { serde_json::from_str(text).ok() } else { None };
        match reply {
            Some(reply) if reply.channel == "/meta/connect" => {
                response.texts.extend(reply.gaps());
                response.connect = Some(reply.into_connect());
            }
            Some(reply) if reply.channel == "/meta/handshake" => {
                response.handshake = Some(reply.into_handshake())
            }
            _ => response.texts.push(text.into()),
        }
    }
    Ok(response)
}

impl BayeuxResponse {
    /// Adds the contents of a later response.
    pub(super) fn add(&mut self, later: Self) {
        self.texts.extend(later.texts);
        self.connect = later.connect.or(self.connect.take());
        self.handshake = later.handshake.or(self.handshake.take());
    }
}

impl ConnectReply {
    /// Returns how an unsuccessful reply ends the session. The error number serves as the status.
    pub(super) fn refusal(&self) -> Option<ConnectionEnd> {
        if self.is_successful {
            return None;
        }
        Some(code_of(&self.error).parse().map_or(ConnectionEnd::Closed(None), ConnectionEnd::Status))
    }
}

impl MetaReply<'_> {
    /// Returns the gaps in the messages, each as a JSON object.
    fn gaps(&self) -> Vec<Box<str>> {
        let encke = self.ext.as_ref().and_then(|ext| ext.encke.as_ref());
        let gaps = encke.map_or(&[][..], |encke| &encke.gaps);
        gaps.iter().map(|gap| format!(r#"{{"gap":{}}}"#, gap.get()).into()).collect()
    }

    fn ack(&self) -> Option<&str> {
        self.ext.as_ref().and_then(|ext| ext.ack).map(RawValue::get)
    }

    fn into_connect(self) -> ConnectReply {
        let is_number = |ack: &&str| ack.parse::<i64>().is_ok();
        let ack = self.ack().filter(is_number).map(Into::into);
        ConnectReply {
            is_successful: self.successful,
            error: self.error.into_owned(),
            advice: self.advice.into(),
            ack,
        }
    }

    fn into_handshake(self) -> HandshakeReply {
        // Any value except `false` and `null` means that the server supports the extension: some servers
        // answer with an object.
        let acknowledges = self.ack().is_some_and(|ack| ack != "false" && ack != "null");
        HandshakeReply {
            refusal: (!self.successful).then(|| self.error.into_owned()),
            client_id: self.client_id,
            acknowledges,
            advice: self.advice.into(),
        }
    }
}

impl From<AdviceFields> for Advice {
    fn from(fields: AdviceFields) -> Self {
        Self {
            timeout: fields.timeout.map(Duration::from_millis),
            interval: fields.interval.map(Duration::from_millis),
            max_interval: fields.max_interval.map(Duration::from_millis),
            multiple_clients: fields.multiple_clients,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::websocket::ProtocolFault;

    #[test]
    fn messages_and_replies_come_in_any_order() {
        let event = r#"{"channel":"/news","data":"\"/meta/connect\""}"#;
        let reply = r#"{"channel":"/meta/subscribe","successful":true,"id":"s"}"#;
        let connect = r#"{"id":"c","clientId":"x","channel":"/meta/connect","successful":true,
            "advice":{"interval":7,"multiple-clients":true,"new":1},
            "ext":{"ack":9,"encke":{"gaps":[{"channel":"/news","epoch":"e","from":1,"to":2}]}}}"#;
        for body in [format!("[{connect},{event},{reply}]"), format!("[{event},{reply},{connect}]")] {
            let mut response = parse_response(body.as_bytes()).expect("the response is valid");
            response.texts.sort();
            let gap = r#"{"gap":{"channel":"/news","epoch":"e","from":1,"to":2}}"#;
            assert_eq!(response.texts, [reply, event, gap].map(Box::from));
            let connect = response.connect.expect("it has a connect reply");
            assert_eq!((connect.refusal(), connect.ack.as_deref()), (None, Some("9")));
            assert_eq!(connect.advice.interval, Some(Duration::from_millis(7)));
            assert!(connect.advice.multiple_clients);
        }
        assert_eq!(parse_response(b"{}").err(), Some(ConnectionEnd::Fault(ProtocolFault::Answer)));
    }

    #[test]
    fn refusals_may_have_a_number() {
        for (error, end) in [
            (r#","error":"402:x:unknown""#, ConnectionEnd::Status(402)),
            (r#","error":"what?""#, ConnectionEnd::Closed(None)),
            ("", ConnectionEnd::Closed(None)),
        ] {
            let body = format!(r#"[{{"channel":"/meta/connect","successful":false{error}}}]"#);
            let connect = parse_response(body.as_bytes())
                .expect("the response is valid")
                .connect
                .expect("it has a connect reply");
            assert_eq!(connect.refusal(), Some(end), "{error}");
        }
    }

    #[test]
    fn handshake_reply_is_parsed() {
        let body = r#"[{"channel":"/meta/handshake","successful":true,"clientId":"x","ext":{"ack":true},
            "advice":{"reconnect":"retry","interval":0,"timeout":30000,"maxInterval":120000}}]"#;
        let reply = parse_response(body.as_bytes())
            .expect("the response is valid")
            .handshake
            .expect("it has a handshake reply");
        assert_eq!((reply.client_id.as_deref(), reply.acknowledges, reply.refusal), (Some("x"), true, None));
        assert_eq!(reply.advice.timeout, Some(Duration::from_secs(30)));
        assert_eq!(reply.advice.max_interval, Some(Duration::from_secs(120)));
    }
}
