//! Bayeux responses: arrays of messages and of replies to the client's messages, in any order.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::dialect::objects;
use crate::reader::code_of;
use crate::transport::websocket::ConnectionEnd;

#[derive(Debug, Default)]
pub(super) struct BayeuxResponse {
    /// Messages and replies to commands.
    pub(super) texts: Vec<String>,
    pub(super) connect: Option<MetaReply>,
    pub(super) handshake: Option<MetaReply>,
}

/// Reply to a connect or a handshake.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct MetaReply {
    channel: String,
    pub(super) successful: bool,
    pub(super) error: String,
    pub(super) client_id: Option<String>,
    pub(super) advice: Advice,
    ext: Option<Extensions>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Advice {
    /// In milliseconds, like `interval`.
    pub(super) timeout: Option<u64>,
    pub(super) interval: Option<u64>,
    #[serde(rename = "multiple-clients")]
    pub(super) multiple_clients: bool,
}

#[derive(Debug, Deserialize)]
struct Extensions {
    ack: Option<Box<RawValue>>,
    /// Extension that only Encke sends.
    encke: Option<EnckeExtension>,
}

#[derive(Debug, Deserialize)]
struct EnckeExtension {
    #[serde(default)]
    gaps: Vec<Box<RawValue>>,
}

pub(super) fn parse_response(body: &[u8]) -> Result<BayeuxResponse, ConnectionEnd> {
    let mut response = BayeuxResponse::default();
    for text in objects(body)? {
        // Parse only objects that contain `/meta/`: most objects are messages and do not.
        let reply: Option<MetaReply> =
            if text.contains(r#""/meta/"#) { serde_json::from_str(text).ok() } else { None };
        match reply {
            Some(reply) if reply.channel == "/meta/connect" => {
                let gaps = reply.ext.iter().flat_map(|ext| &ext.encke).flat_map(|encke| &encke.gaps);
                response.texts.extend(gaps.map(|gap| format!(r#"{{"gap":{gap}}}"#)));
                response.connect = Some(reply);
            }
            Some(reply) if reply.channel == "/meta/handshake" => response.handshake = Some(reply),
            _ => response.texts.push(text.to_owned()),
        }
    }
    Ok(response)
}

impl MetaReply {
    /// Returns how an unsuccessful connect ends the session. The error number serves as the status.
    pub(super) fn refusal(&self) -> Option<ConnectionEnd> {
        let end = || code_of(&self.error).parse().map_or(ConnectionEnd::Closed(None), ConnectionEnd::Status);
        (!self.successful).then(end)
    }

    fn ack(&self) -> Option<&str> {
        self.ext.as_ref()?.ack.as_deref().map(RawValue::get)
    }

    /// Returns the number of the last batch that the client has received completely, as JSON.
    pub(super) fn batch(&self) -> Option<&str> {
        self.ack().filter(|ack| ack.parse::<i64>().is_ok())
    }

    /// Returns whether the server supports the acknowledgement extension. Any value except `false` and `null`
    /// means that it does: some servers answer with an object.
    pub(super) fn acknowledges(&self) -> bool {
        self.ack().is_some_and(|ack| ack != "false" && ack != "null")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::websocket::ProtocolFault;

    fn parse(body: &str) -> BayeuxResponse {
        parse_response(body.as_bytes()).expect("the response is valid")
    }

    #[test]
    fn messages_and_replies_come_in_any_order() {
        let event = r#"{"channel":"/news","data":"\"/meta/connect\""}"#;
        let reply = r#"{"channel":"/meta/subscribe","successful":true,"id":"s"}"#;
        let gap = r#"{"gap":{"channel":"/news","epoch":"e","from":1,"to":2}}"#;
        let connect = r#"{"id":"c","clientId":"x","channel":"/meta/connect","successful":true,
            "advice":{"interval":7,"multiple-clients":true,"new":1},
            "ext":{"ack":9,"encke":{"gaps":[{"channel":"/news","epoch":"e","from":1,"to":2}]}}}"#;
        for body in [format!("[{connect},{event},{reply}]"), format!("[{event},{reply},{connect}]")] {
            let mut response = parse(&body);
            response.texts.sort();
            assert_eq!(response.texts, [reply, event, gap]);
            let connect = response.connect.expect("it has a connect reply");
            assert_eq!((connect.refusal(), connect.batch()), (None, Some("9")));
            assert_eq!((connect.advice.interval, connect.advice.multiple_clients), (Some(7), true));
        }
        assert_eq!(parse_response(b"{}").err(), Some(ConnectionEnd::Fault(ProtocolFault::Answer)));
    }

    #[test]
    fn replies_to_connects_and_handshakes_are_parsed() {
        for (error, end) in [
            (r#","error":"402:x:unknown""#, ConnectionEnd::Status(402)),
            (r#","error":"what?""#, ConnectionEnd::Closed(None)),
            ("", ConnectionEnd::Closed(None)),
        ] {
            let body = format!(r#"[{{"channel":"/meta/connect","successful":false{error}}}]"#);
            assert_eq!(parse(&body).connect.and_then(|connect| connect.refusal()), Some(end), "{error}");
        }
        let body = r#"[{"channel":"/meta/handshake","successful":true,"clientId":"x","ext":{"ack":true},
            "advice":{"reconnect":"retry","interval":0,"timeout":30000,"maxInterval":120000}}]"#;
        let reply = parse(body).handshake.expect("it has a handshake reply");
        let timeout = reply.advice.timeout;
        assert_eq!(
            (reply.client_id.as_deref(), reply.acknowledges(), timeout),
            (Some("x"), true, Some(30_000))
        );
    }
}
