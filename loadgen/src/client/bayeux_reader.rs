//! Channel messages and replies of Bayeux. Bayeux messages are not numbered.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::Received;

/// Reads messages for the subscribers of one channel.
#[derive(Debug)]
pub(super) struct BayeuxReader {
    channel: String,
    /// Text that precedes a message's data when the fields are in the usual order.
    before: String,
}

#[derive(Deserialize)]
struct BayeuxMessage<'a> {
    #[serde(borrow)]
    channel: Option<Cow<'a, str>>,
    successful: Option<bool>,
    #[serde(borrow)]
    error: Option<Cow<'a, str>>,
    #[serde(borrow)]
    data: Option<&'a RawValue>,
    #[serde(borrow)]
    gap: Option<GapNotice<'a>>,
}

/// Encke's extension that reports messages it no longer has.
#[derive(Deserialize)]
struct GapNotice<'a> {
    #[serde(borrow)]
    channel: Cow<'a, str>,
    from: Option<u64>,
    to: Option<u64>,
}

impl BayeuxReader {
    pub(super) fn new(channel: &str) -> Self {
        let quoted = serde_json::Value::from(channel);
        Self { channel: channel.to_owned(), before: format!(r#"{{"channel":{quoted},"data":"#) }
    }

    pub(super) fn read<'a>(&self, text: &'a str) -> Received<'a> {
        // This code runs for every delivery, so it reads messages in the usual form without a JSON parser.
        let data = text.strip_prefix(&self.before).and_then(|rest| rest.strip_suffix('}'));
        if let Some(data) = data.filter(|data| is_simple_string(data)) {
            return Received::UnnumberedMessage { data };
        }
        self.parse(text).unwrap_or(Received::Other)
    }

    fn parse<'a>(&self, text: &'a str) -> Option<Received<'a>> {
        let message: BayeuxMessage<'a> = serde_json::from_str(text).ok()?;
        if let Some(GapNotice { channel, from, to }) = message.gap {
            let messages = from.zip(to).and_then(|(from, to)| (to + 1).checked_sub(from)).unwrap_or(0);
            return (channel == self.channel).then_some(Received::UnnumberedGap { messages });
        }
        match message.successful {
            Some(true) => Some(Received::Reply(None)),
            Some(false) => Some(Received::Reply(Some(code_of(&message.error.unwrap_or_default()).into()))),
            None => {
                let data = message.data.filter(|_| message.channel.as_deref() == Some(&self.channel))?;
                Some(Received::UnnumberedMessage { data: data.get() })
            }
        }
    }
}

/// Returns the number at the beginning of an error like `402:client-id:reason`.
pub(super) fn code_of(error: &str) -> String {
    let code = error.split(':').next().unwrap_or_default();
    let is_code = !code.is_empty() && code.bytes().all(|byte| byte.is_ascii_digit());
    if is_code { code.to_owned() } else { "unsuccessful".to_owned() }
}

/// Returns whether the text is a JSON string without escapes.
fn is_simple_string(text: &str) -> bool {
    let inner = text.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
    inner.is_some_and(|inner| !inner.contains(['"', '\\']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_in_any_form() {
        let reader = BayeuxReader::new("/news");
        for (text, expected) in [
            (r#"{"channel":"/news","data":"a"}"#, Received::UnnumberedMessage { data: r#""a""# }),
            (r#"{"channel":"/news","data":"a","id":"7"}"#, Received::UnnumberedMessage { data: r#""a""# }),
            (
                r#"{"id":"7", "data":{"a":1},"channel":"/news"}"#,
                Received::UnnumberedMessage { data: r#"{"a":1}"# },
            ),
            (r#"{"channel":"/other","data":"a"}"#, Received::Other),
            (r#"{"channel":"/meta/subscribe","id":"1","successful":true}"#, Received::Reply(None)),
            (r#"{"channel":"/news","successful":true,"id":"1"}"#, Received::Reply(None)),
            (
                r#"{"channel":"/news","successful":false,"error":"403:/news:no"}"#,
                Received::Reply(Some("403".into())),
            ),
            (r#"{"channel":"/news","successful":false}"#, Received::Reply(Some("unsuccessful".into()))),
            (
                r#"{"gap":{"channel":"/news","epoch":"e","from":3,"to":5}}"#,
                Received::UnnumberedGap { messages: 3 },
            ),
            (r#"{"gap":{"channel":"/other","epoch":"e"}}"#, Received::Other),
            ("x", Received::Other),
        ] {
            assert_eq!(reader.read(text), expected, "{text}");
        }
    }
}
