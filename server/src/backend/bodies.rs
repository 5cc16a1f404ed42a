//! Bodies of hook requests and responses.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

use encke_base::nearest::nearest;
use serde::de::{DeserializeOwned, Error, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use super::hook::{HookError, HookKind};
use super::malformed::MalformedResponse;
use crate::auth::BackendClaims;

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

/// Body of an approving response to a `subscribe` or `publish` hook request.
#[derive(Debug, Deserialize)]
pub(crate) struct Approval {
    /// Must be true. `false` denies the request.
    #[serde(rename = "allow")]
    _allow: bool,
    /// Data to publish instead of the client's.
    #[serde(default, deserialize_with = "replacement")]
    pub(crate) data: Option<Box<RawValue>>,
    /// Channel to subscribe or publish to instead of the requested one.
    #[serde(default, deserialize_with = "replacement")]
    pub(crate) channel: Option<String>,
}

/// Reads a replacement. It must not be `null`, which might be meant to replace, or not to replace.
fn replacement<'de, D: Deserializer<'de>, T: Deserialize<'de>>(json: D) -> Result<Option<T>, D::Error> {
    let value = Option::deserialize(json)?;
    value.map(Some).ok_or_else(|| Error::custom("is null: omit it to keep that of the client"))
}

/// Body of a successful response to a `call` hook request.
#[derive(Debug, Deserialize)]
pub(crate) struct CallResult {
    pub(crate) data: Box<RawValue>,
}

#[derive(Deserialize)]
struct Refusal<'a> {
    #[serde(borrow, default)]
    error: Option<RefusalReason<'a>>,
    allow: Option<bool>,
}

#[derive(Default, Deserialize)]
#[serde(expecting = "an object with `code` and `message`")]
struct RefusalReason<'a> {
    #[serde(borrow, default)]
    code: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    message: Option<Cow<'a, str>>,
}

/// Default message for the client, used if the backend gives no reason.
const DEFAULT_REFUSAL: &str = "denied by the backend";

/// Maximum sizes of the backend's error code and message, in bytes.
const MAX_CODE_BYTES: usize = 64;
const MAX_MESSAGE_BYTES: usize = 1024;

impl HookKind {
    /// Returns the fields of an approving response.
    fn approval_fields(self) -> &'static [&'static str] {
        match self {
            Self::Connect => &BackendClaims::FIELDS,
            Self::Subscribe => &["allow", "channel"],
            Self::Publish => &["allow", "channel", "data"],
            Self::Call => &["data"],
        }
    }
}

/// Parses the body of a response: a JSON object that has an `error` field, or `"allow":false`, if the backend
/// denies the request. A response that does not name what it allows is malformed, and so is an approving one with an
/// unknown field, which may be a misspelled restriction.
///
/// # Errors
/// [`MalformedResponse`] if the body does not have this form.
pub(super) fn parse_response<T: DeserializeOwned>(
    hook: HookKind,
    body: &[u8],
) -> Result<Result<T, HookError>, MalformedResponse> {
    if body.is_empty() {
        return Err(MalformedResponse::new("the body is empty"));
    }
    // Check for an object, because serde would also accept an array of the struct's fields.
    if body.trim_ascii_start().first() != Some(&b'{') {
        return Err(MalformedResponse::new("the body is not a JSON object"));
    }
    let Refusal { error, allow } = parse(body)?;
    let Some(RefusalReason { code, message }) = error.or((allow == Some(false)).then(Default::default))
    else {
        check_fields(hook, body)?;
        return parse(body).map(Ok);
    };
    for (name, text, limit) in [("code", &code, MAX_CODE_BYTES), ("message", &message, MAX_MESSAGE_BYTES)] {
        if text.as_ref().is_some_and(|text| text.len() > limit) {
            return Err(MalformedResponse::too_long(&format!(
                "the error's `{name}` has more than {limit} bytes"
            )));
        }
    }
    Ok(Err(HookError::Refused {
        code: code.filter(|code| !code.is_empty()).map(|code| code.into_owned().into()),
        message: message.map_or_else(|| DEFAULT_REFUSAL.to_owned(), Cow::into_owned),
    }))
}

/// Parses JSON. The error names the invalid field, if there is one.
fn parse<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, MalformedResponse> {
    let mut json = serde_json::Deserializer::from_slice(body);
    let parsed = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let path = error.path().to_string();
        match error.inner().is_data() && path != "." {
            true => MalformedResponse::new(&format!("`{path}`: {}", error.inner())),
            false => MalformedResponse::new(&error.inner().to_string()),
        }
    })?;
    json.end().map_err(|error| MalformedResponse::new(&error.to_string()))?;
    Ok(parsed)
}

/// Names of the fields of a JSON object, none of which may be repeated.
struct FieldNames(Vec<String>);

impl<'de> Deserialize<'de> for FieldNames {
    fn deserialize<D: Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
        struct NameVisitor;

        impl<'de> Visitor<'de> for NameVisitor {
            type Value = FieldNames;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<FieldNames, A::Error> {
                let mut names: Vec<String> = Vec::new();
                while let Some((name, IgnoredAny)) = fields.next_entry::<String, _>()? {
                    if names.contains(&name) {
                        return Err(A::Error::custom(format_args!("duplicate field `{name}`")));
                    }
                    names.push(name);
                }
                Ok(FieldNames(names))
            }
        }

        json.deserialize_map(NameVisitor)
    }
}

/// Checks that an approving response has no unknown fields. Every response may have `allow`, but only some hooks need
/// it, so the error suggests it only for these.
fn check_fields(hook: HookKind, body: &[u8]) -> Result<(), MalformedResponse> {
    let known = [hook.approval_fields(), &["error"]].concat();
    let FieldNames(names) = parse(body)?;
    let unknown = names.iter().find(|name| *name != "allow" && !known.contains(&name.as_str()));
    let Some(unknown) = unknown else { return Ok(()) };
    let hint = match nearest(unknown, &known) {
        Some(name) => format!("did you mean `{name}`?"),
        None => format!("`{}` accepts {}", <&str>::from(hook), known.join(", ")),
    };
    Err(MalformedResponse::new(&format!("unknown field `{unknown}`; {hint}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed<T: DeserializeOwned>(text: &str) -> Result<Result<T, HookError>, String> {
        parse_response(HookKind::Publish, text.as_bytes()).map_err(|malformed| malformed.to_string())
    }

    #[test]
    fn approvals_are_stated() {
        let approved = |text: &str| {
            let Ok(Ok(Approval { data, channel, .. })) = parsed(text) else {
                panic!("not an approval: {text}")
            };
            (data.map(|data| data.get().to_owned()), channel)
        };
        assert_eq!(approved(r#"{"allow":true}"#), (None, None));
        assert_eq!(approved(r#"{"allow":true,"error":null}"#), (None, None));
        assert_eq!(approved(r#"{"allow":true,"data":{"a": 1}}"#), (Some(r#"{"a": 1}"#.to_owned()), None));
        assert_eq!(approved(r#"{"channel":"b","allow":true}"#), (None, Some("b".to_owned())));
        let long = format!(r#"{{"error":{{"code":"{}"}}}}"#, "x".repeat(MAX_CODE_BYTES + 1));
        for (text, problem) in [
            ("", "the body is empty"),
            ("no", "the body is not a JSON object"),
            ("[true]", "the body is not a JSON object"),
            ("{}", "missing field `allow`"),
            (r#"{"data":1}"#, "missing field `allow`"),
            (r#"{"channel":"b"}"#, "missing field `allow`"),
            (r#"{"allow":"true"}"#, "`allow`: invalid type: string"),
            (r#"{"allow":true,"channel":7}"#, "`channel`: invalid type: integer"),
            (r#"{"allow":true,"channel":null}"#, "`channel`: is null: omit it"),
            (r#"{"allow":true,"data":null}"#, "`data`: is null: omit it"),
            (r#"{"error":"no"}"#, "`error`: invalid type: string"),
            (r#"{"allow":true"#, "EOF"),
            (r#"{"allow":true}x"#, "trailing characters"),
            (&*long, "the error's `code` has more than 64 bytes"),
        ] {
            let error = parsed::<Approval>(text).expect_err(text);
            assert!(error.starts_with(problem), "{text}: {error}");
        }
    }

    /// A misspelled field could be a restriction that is not applied.
    #[test]
    fn unknown_fields_are_refused() {
        use HookKind::{Call, Connect, Publish, Subscribe};
        for (hook, text, expected) in [
            (
                Publish,
                r#"{"allow":true,"chanel":"b"}"#,
                Some("unknown field `chanel`; did you mean `channel`?"),
            ),
            (Publish, r#"{"allow":true,"dta":1}"#, Some("unknown field `dta`; did you mean `data`?")),
            (Publish, r#"{"alow":false}"#, Some("unknown field `alow`; did you mean `allow`?")),
            (
                Subscribe,
                r#"{"allow":true,"data":1}"#,
                Some("unknown field `data`; `subscribe` accepts allow, channel, error"),
            ),
            (
                Call,
                r#"{"data":1,"channel":"b"}"#,
                Some("unknown field `channel`; `call` accepts data, error"),
            ),
            (Call, r#"{"alow":true}"#, Some("unknown field `alow`; `call` accepts data, error")),
            (Connect, r#"{"sub":"a","sub":"b"}"#, Some("duplicate field `sub` at line 1 column 21")),
            (Connect, r#"{"sub":"a","expp":1}"#, Some("unknown field `expp`; did you mean `exp`?")),
            (Connect, r#"{"sub":"a","exp":1,"iss":"b","channels":{"x":[]},"allow":true,"error":null}"#, None),
            (Subscribe, r#"{"allow":true,"channel":"b"}"#, None),
            (Publish, r#"{"allow":true,"channel":"b","data":1}"#, None),
            (Call, r#"{"allow":true,"data":{"chanel":1}}"#, None),
        ] {
            let error =
                parse_response::<IgnoredAny>(hook, text.as_bytes()).err().map(|error| error.to_string());
            assert_eq!(error.as_deref(), expected, "{text}");
        }
        let refused = parsed::<Approval>(r#"{"error":{"code":"x"},"request":7}"#);
        assert!(matches!(refused, Ok(Err(HookError::Refused { .. }))), "it is a refusal: {refused:?}");
    }

    #[test]
    fn refusals_may_have_a_code_and_a_message() {
        for (text, code, message) in [
            (r#"{"error":{"code":"x","message":"no\n"}}"#, Some("x"), "no\n"),
            (r#"{"error":{"code":""},"allow":true}"#, None, DEFAULT_REFUSAL),
            (r#"{"allow":false}"#, None, DEFAULT_REFUSAL),
        ] {
            let refusal = HookError::Refused { code: code.map(Into::into), message: message.to_owned() };
            assert_eq!(parsed::<Approval>(text).map(Result::unwrap_err), Ok(refusal), "{text}");
        }
    }

    #[test]
    fn a_call_has_a_result() {
        let called = |text: &str| {
            let called = parse_response::<CallResult>(HookKind::Call, text.as_bytes());
            called
                .map(|called| called.map(|called| called.data.get().to_owned()))
                .map_err(|error| error.to_string())
        };
        assert_eq!(called(r#"{"data":null}"#), Ok(Ok("null".to_owned())));
        assert!(called("{}").is_err_and(|error| error.starts_with("missing field `data`")));
    }
}
