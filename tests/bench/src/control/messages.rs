//! Messages that both controls send and understand. They are as long as the server's, so that the same number
//! of bytes is sent.

use serde::Deserialize;
use serde_json::value::RawValue;

pub(crate) const HELLO: &str = concat!(
    r#"{"hello":{"version":1,"session":"s_AAAAAAAAAAAAAAAAAAAAAA","#,
    r#""resume":"s_AAAAAAAAAAAAAAAAAAAAAA.AAAAAAAAAAAAAAAAAAAAAA","recovered":false,"seq":0,"#,
    r#""ping_interval_ms":10000,"pong_timeout_ms":5000,"reconnect_window_ms":120000}}"#,
);

/// Payload of a ping. The server sends a number instead.
pub(crate) const PING_PAYLOAD: [u8; 8] = [0; 8];

const EPOCH: &str = "AAAAAAAAAAAAAAAAAAAAAA";

#[derive(Debug)]
pub(crate) enum ControlCommand<'a> {
    Subscribe { id: u64, channel: &'a str },
    Publish { id: u64, channel: &'a str, data: &'a RawValue },
}

#[derive(Deserialize)]
struct CommandText<'a> {
    id: u64,
    #[serde(borrow)]
    subscribe: Option<SubscribeFields<'a>>,
    #[serde(borrow)]
    publish: Option<PublishFields<'a>>,
}

#[derive(Deserialize)]
struct SubscribeFields<'a> {
    channel: &'a str,
}

#[derive(Deserialize)]
struct PublishFields<'a> {
    channel: &'a str,
    #[serde(borrow)]
    data: &'a RawValue,
}

impl<'a> ControlCommand<'a> {
    /// Parses a command. Returns `None` if the text is neither of the two.
    pub(crate) fn read(text: &'a str) -> Option<Self> {
        match serde_json::from_str(text).ok()? {
            CommandText { id, subscribe: Some(SubscribeFields { channel }), .. } => {
                Some(Self::Subscribe { id, channel })
            }
            CommandText { id, publish: Some(PublishFields { channel, data }), .. } => {
                Some(Self::Publish { id, channel, data })
            }
            _ => None,
        }
    }
}

/// Formats the reply to a `subscribe`.
pub(crate) fn subscribed(id: u64, channel: &str, offset: usize) -> String {
    format!(r#"{{"reply":{{"id":{id},"ok":{{"channel":"{channel}","epoch":"{EPOCH}","offset":{offset}}}}}}}"#)
}

/// Formats the reply to a `publish`.
pub(crate) fn published(id: u64, offset: usize) -> String {
    format!(r#"{{"reply":{{"id":{id},"ok":{{"offset":{offset},"epoch":"{EPOCH}"}}}}}}"#)
}

pub(crate) fn message(offset: usize, channel: &str, data: &RawValue) -> String {
    format!(r#"{{"message":{{"seq":{offset},"channel":"{channel}","offset":{offset},"data":{data}}}}}"#)
}
