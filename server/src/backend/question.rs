//! Questions and answers, as they are on the wire.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::asking::NoAnswer;

/// Who comes, before it has a session. What does not apply is left out.
#[derive(Debug, Serialize)]
pub(crate) struct WhoComes<'a> {
    /// `websocket`, `sse` or `poll`.
    pub(crate) transport: &'static str,
    /// `json` or `bayeux`.
    pub(crate) dialect: &'static str,
    pub(crate) address: IpAddr,
    /// The `sub` of its token, if the server has looked at that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) user: Option<&'a str>,
    /// The token that it came with, if the server has no keys and has not looked at it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) token: Option<&'a str>,
    /// Those that are to be passed on (`backend.headers`, `backend.cookies`).
    pub(crate) headers: BTreeMap<&'a str, Cow<'a, str>>,
    pub(crate) cookies: BTreeMap<&'a str, &'a str>,
}

/// What is asked on behalf of a session. What does not apply is left out.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Question<'a> {
    pub(crate) session: Option<String>,
    /// The `sub` of its client's token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) user: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) method: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) channel: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) data: Option<&'a RawValue>,
}

/// What the backend answers when it has nothing against it.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Answered {
    /// Of a call, its result; of a publish, what is published in place of what the client has sent.
    #[serde(default)]
    pub(crate) data: Option<Box<RawValue>>,
    /// Of a subscribe or a publish, the channel that it is for in place of the one that was asked for.
    #[serde(default)]
    pub(crate) channel: Option<String>,
}

#[derive(Deserialize)]
struct Refusal<'a> {
    #[serde(borrow, default)]
    error: Option<RefusalReason<'a>>,
}

#[derive(Deserialize)]
struct RefusalReason<'a> {
    #[serde(borrow, default)]
    code: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    message: Option<Cow<'a, str>>,
}

/// What a client is told where the backend gives no reason.
const REFUSED: &str = "the backend refuses it";

/// The longest code and the longest message of the backend that a client is told, in bytes.
const LONGEST_CODE: usize = 64;
const LONGEST_MESSAGE: usize = 1024;

/// Reads an answer: an object, with `error` where it is a refusal. `None` if it is none.
pub(super) fn read<T: DeserializeOwned>(body: &[u8]) -> Option<Result<T, NoAnswer>> {
    // Nothing in particular is a yes.
    let body = if body.is_empty() { b"{}" } else { body };
    // A list would be taken for the fields of an object.
    if body.trim_ascii_start().first() != Some(&b'{') {
        return None;
    }
    let Refusal { error } = serde_json::from_slice(body).ok()?;
    let Some(RefusalReason { code, message }) = error else {
        return serde_json::from_slice(body).ok().map(Ok);
    };
    let code = code.filter(|code| !code.is_empty() && code.len() <= LONGEST_CODE);
    let message = message.filter(|message| message.len() <= LONGEST_MESSAGE);
    Some(Err(NoAnswer::Refused {
        code: code.map(|code| code.into_owned().into()),
        message: message.map_or_else(|| REFUSED.to_owned(), Cow::into_owned),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers() {
        let read = |text: &str| super::read::<Answered>(text.as_bytes());
        let refused = |code: Option<&str>, message: &str| {
            Err(NoAnswer::Refused { code: code.map(Into::into), message: message.to_owned() })
        };
        let long = "x".repeat(LONGEST_CODE + 1);
        let table = [
            ("", Some(Ok((None, None)))),
            ("{}", Some(Ok((None, None)))),
            (r#"{"ok":true}"#, Some(Ok((None, None)))),
            (r#"{"data":{"a": 1}}"#, Some(Ok((Some(r#"{"a": 1}"#), None)))),
            (r#"{"channel":"b","data":null}"#, Some(Ok((None, Some("b"))))),
            (r#"{"error":null}"#, Some(Ok((None, None)))),
            (r#"{"error":{"code":"x","message":"no\n"}}"#, Some(refused(Some("x"), "no\n"))),
            (r#"{"error":{}}"#, Some(refused(None, REFUSED))),
            (&*format!(r#"{{"error":{{"code":"{long}","message":"m"}}}}"#), Some(refused(None, "m"))),
            (r#"{"error":"no"}"#, None),
            ("no", None),
            ("[]", None),
            (r#"{"channel":7}"#, None),
        ];
        for (text, expected) in table {
            let answered = read(text);
            let answered = answered.as_ref().map(|read| match read {
                Ok(Answered { data, channel }) => {
                    Ok((data.as_deref().map(RawValue::get), channel.as_deref()))
                }
                Err(error) => Err(error.clone()),
            });
            assert_eq!(answered, expected, "{text}");
        }
    }
}
