//! Bodies of hook requests and responses.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::hook::HookError;

/// Body of a `connect` hook request, sent for a client that has no session yet. Fields that do not apply are
/// omitted.
#[derive(Serialize)]
pub(crate) struct ConnectHookRequest<'a> {
    /// `websocket`, `sse` or `poll`.
    pub(crate) transport: &'static str,
    /// `json` or `bayeux`.
    pub(crate) dialect: &'static str,
    pub(crate) address: IpAddr,
    /// The `sub` claim of the client's token, if the server has verified it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) user: Option<&'a str>,
    /// The client's token, unverified. Sent if the server has no keys to verify it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) token: Option<&'a str>,
    /// Headers and cookies listed in `backend.headers` and `backend.cookies`.
    pub(crate) headers: BTreeMap<&'a str, Cow<'a, str>>,
    pub(crate) cookies: BTreeMap<&'a str, &'a str>,
}

/// Body of a `subscribe`, `publish` or `call` hook request, sent on behalf of a session. Fields that do not
/// apply are omitted.
#[derive(Debug, Default, Serialize)]
pub(crate) struct HookRequest<'a> {
    pub(crate) session: Option<String>,
    /// The `sub` claim of the client's token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) user: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) method: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) channel: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) data: Option<&'a RawValue>,
}

/// Body of an approving response.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct HookResponse {
    /// The result of a call, or the data to publish instead of the client's.
    pub(crate) data: Option<Box<RawValue>>,
    /// The channel to subscribe or publish to instead of the requested one.
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

/// Default message for the client, used if the backend gives no reason.
const DEFAULT_REFUSAL: &str = "denied by the backend";

/// Maximum sizes of the backend's error code and message, in bytes. Longer ones are not passed to the client.
const MAX_CODE_BYTES: usize = 64;
const MAX_MESSAGE_BYTES: usize = 1024;

/// Parses the body of a response: a JSON object that has an `error` field if the backend denies the request.
/// Returns `None` if the body is malformed.
pub(super) fn parse_response<T: DeserializeOwned>(body: &[u8]) -> Option<Result<T, HookError>> {
    // An empty body means approval.
    let body = if body.is_empty() { b"{}" } else { body };
    // Check for an object, because serde would also accept an array of the struct's fields.
    if body.trim_ascii_start().first() != Some(&b'{') {
        return None;
    }
    let Refusal { error } = serde_json::from_slice(body).ok()?;
    let Some(RefusalReason { code, message }) = error else {
        return serde_json::from_slice(body).ok().map(Ok);
    };
    let code = code.filter(|code| !code.is_empty() && code.len() <= MAX_CODE_BYTES);
    let message = message.filter(|message| message.len() <= MAX_MESSAGE_BYTES);
    Some(Err(HookError::Refused {
        code: code.map(|code| code.into_owned().into()),
        message: message.map_or_else(|| DEFAULT_REFUSAL.to_owned(), Cow::into_owned),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn responses_are_parsed() {
        let read = |text: &str| super::parse_response::<HookResponse>(text.as_bytes());
        let refused = |code: Option<&str>, message: &str| {
            Err(HookError::Refused { code: code.map(Into::into), message: message.to_owned() })
        };
        let long = "x".repeat(MAX_CODE_BYTES + 1);
        let table = [
            ("", Some(Ok((None, None)))),
            ("{}", Some(Ok((None, None)))),
            (r#"{"ok":true}"#, Some(Ok((None, None)))),
            (r#"{"data":{"a": 1}}"#, Some(Ok((Some(r#"{"a": 1}"#), None)))),
            (r#"{"channel":"b","data":null}"#, Some(Ok((None, Some("b"))))),
            (r#"{"error":null}"#, Some(Ok((None, None)))),
            (r#"{"error":{"code":"x","message":"no\n"}}"#, Some(refused(Some("x"), "no\n"))),
            (r#"{"error":{}}"#, Some(refused(None, DEFAULT_REFUSAL))),
            (&*format!(r#"{{"error":{{"code":"{long}","message":"m"}}}}"#), Some(refused(None, "m"))),
            (r#"{"error":"no"}"#, None),
            ("no", None),
            ("[]", None),
            (r#"{"channel":7}"#, None),
        ];
        for (text, expected) in table {
            let answered = read(text);
            let answered = answered.as_ref().map(|read| match read {
                Ok(HookResponse { data, channel }) => {
                    Ok((data.as_deref().map(RawValue::get), channel.as_deref()))
                }
                Err(error) => Err(error.clone()),
            });
            assert_eq!(answered, expected, "{text}");
        }
    }
}
