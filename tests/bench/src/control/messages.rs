//! Messages that both controls send. They are as long as the server's, so that the same number of bytes is
//! sent.

pub(crate) const HELLO: &str = concat!(
    r#"{"hello":{"version":1,"session":"s_AAAAAAAAAAAAAAAAAAAAAA","#,
    r#""resume":"s_AAAAAAAAAAAAAAAAAAAAAA.AAAAAAAAAAAAAAAAAAAAAA","recovered":false,"seq":0,"#,
    r#""ping_interval_ms":10000,"pong_timeout_ms":5000,"reconnect_window_ms":120000}}"#,
);

/// Payload of a ping. The server sends a number instead.
pub(crate) const PING_PAYLOAD: [u8; 8] = [0; 8];

const EPOCH: &str = "AAAAAAAAAAAAAAAAAAAAAA";

/// Formats the reply to a `subscribe`.
pub(crate) fn subscribed(id: u64, channel: &str, offset: usize) -> String {
    format!(r#"{{"reply":{{"id":{id},"ok":{{"channel":"{channel}","epoch":"{EPOCH}","offset":{offset}}}}}}}"#)
}

/// Formats the reply to a `publish`.
pub(crate) fn published(id: u64, offset: usize) -> String {
    format!(r#"{{"reply":{{"id":{id},"ok":{{"offset":{offset},"epoch":"{EPOCH}"}}}}}}"#)
}

pub(crate) fn message(offset: usize, channel: &str, data: &str) -> String {
    format!(r#"{{"message":{{"seq":{offset},"channel":"{channel}","offset":{offset},"data":{data}}}}}"#)
}
