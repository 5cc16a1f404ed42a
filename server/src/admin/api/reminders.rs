//! Reminders: actions that the backend schedules with a key, and can change or cancel by that key.

use std::borrow::Cow;
use std::time::Duration;

use encke_broker::channel::ChannelName;
use percent_encoding::percent_decode_str;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use super::call::ApiCall;
use super::millis;
use super::publish::check_length;
use crate::admin::context::Context;
use crate::http::body::parse_object;
use crate::http::reply::{json, no_content};
use crate::http::{ApiError, ApiErrorCode, Reply};
use crate::reminders::{
    BadReminder, MAX_DELAY, PendingReminder, ReminderAction, ReminderKey, ReminderRejected, compact,
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PutRequest<'a> {
    #[serde(borrow)]
    after: &'a RawValue,
    #[serde(borrow, default, deserialize_with = "not_null")]
    publish: Option<ReminderPublish<'a>>,
    #[serde(default, deserialize_with = "not_null")]
    webhook: Option<String>,
    /// Data for the webhook.
    #[serde(borrow, default, deserialize_with = "not_null")]
    data: Option<&'a RawValue>,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct ReminderPublish<'a> {
    #[serde(borrow)]
    channel: Cow<'a, str>,
    #[serde(borrow)]
    data: &'a RawValue,
}

/// A pending reminder.
#[derive(Serialize)]
struct ReminderResponse<'a> {
    key: &'a str,
    due_in_ms: f64,
    #[serde(flatten)]
    done: ActionResponse<'a>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum ActionResponse<'a> {
    Publish { publish: ReminderPublish<'a> },
    Webhook { webhook: &'a str, data: &'a RawValue },
}

#[derive(Serialize)]
struct ReminderPage<'a> {
    reminders: Vec<ReminderResponse<'a>>,
    /// Key of the last reminder on this page.
    next_cursor: Option<&'a str>,
}

/// `GET /api/reminders?limit=&cursor=`
pub(super) fn list(call: &ApiCall) -> Result<Reply, ApiError> {
    let query = call.query();
    let cursor = query.get("cursor").map(ReminderKey::new).transpose()?;
    let reminders = &call.context.client.reminders;
    let page = reminders.page(cursor.as_ref(), query.limit()?);
    let last = page.last().map(|(key, _)| &**key);
    let has_more = last.is_some_and(|last| !reminders.page(Some(last), 1).is_empty());
    Ok(json(&ReminderPage {
        reminders: page.iter().map(|(key, waiting)| response(key, waiting)).collect(),
        next_cursor: last.filter(|_| has_more).map(ReminderKey::as_str),
    }))
}

/// `GET /api/reminders/{key}`
pub(super) fn show(call: &ApiCall) -> Result<Reply, ApiError> {
    let key = key_of(call)?;
    let waiting = call.context.client.reminders.get(&key).ok_or_else(|| missing(&key))?;
    Ok(reply(&key, &waiting))
}

/// `PUT /api/reminders/{key}`
pub(super) fn put(call: &ApiCall) -> Result<Reply, ApiError> {
    let key = key_of(call)?;
    let request: PutRequest<'_> = parse_object(&call.body)?;
    let due_in = after(request.after)?;
    let action = action(&call.context, &request)?;
    call.context.client.reminders.put(key.clone(), due_in, action.clone())?;
    Ok(reply(&key, &PendingReminder { due_in, action }))
}

/// `DELETE /api/reminders/{key}`
pub(super) fn delete(call: &ApiCall) -> Result<Reply, ApiError> {
    let key = key_of(call)?;
    if call.context.client.reminders.delete(&key)? { Ok(no_content()) } else { Err(missing(&key)) }
}

fn reply(key: &ReminderKey, waiting: &PendingReminder) -> Reply {
    json(&response(key, waiting))
}

fn response<'a>(key: &'a ReminderKey, waiting: &'a PendingReminder) -> ReminderResponse<'a> {
    let done = match &waiting.action {
        ReminderAction::Publish { channel, data } => {
            ActionResponse::Publish { publish: ReminderPublish { channel: channel.as_str().into(), data } }
        }
        ReminderAction::Webhook { name, data } => ActionResponse::Webhook { webhook: name, data },
    };
    ReminderResponse { key: key.as_str(), due_in_ms: millis(waiting.due_in), done }
}

/// Returns the key in the path.
fn key_of(call: &ApiCall) -> Result<ReminderKey, ApiError> {
    let key = percent_decode_str(&call.parameter).decode_utf8();
    let key = key.map_err(|_| ApiError::bad_request("a reminder's key must be UTF-8"))?;
    Ok(ReminderKey::new(&key)?)
}

fn after(value: &RawValue) -> Result<Duration, ApiError> {
    let text: Option<String> = serde_json::from_str(value.get()).ok();
    let after = text.and_then(|text| humantime::parse_duration(&text).ok());
    let after = after.ok_or_else(|| ApiError::bad_request("after must be a duration such as \"30s\""))?;
    if after > MAX_DELAY {
        return Err(ApiError::bad_request("after must be from 0s to 30days"));
    }
    Ok(after)
}

fn action(context: &Context, request: &PutRequest<'_>) -> Result<ReminderAction, ApiError> {
    let data = |data: &RawValue| {
        check_length(context, data)?;
        compact(data).map_err(|error| ApiError::from(BadReminder::from(error)))
    };
    match request {
        PutRequest { publish: Some(publish), webhook: None, data: None, .. } => {
            let limit = context.client.settings.channel_name_bytes;
            let channel = ChannelName::for_publish(&publish.channel, limit)?;
            Ok(ReminderAction::Publish { channel, data: data(publish.data)? })
        }
        PutRequest { publish: None, webhook: Some(name), data: Some(raw), .. } => {
            if !context.client.reminders.has_webhook(name) {
                return Err(ApiError::bad_request(format!("no webhook has the name {name:?}")));
            }
            Ok(ReminderAction::Webhook { name: name.as_str().into(), data: data(raw)? })
        }
        _ => Err(ApiError::bad_request("send either publish, or webhook and data")),
    }
}

/// Deserializes a field that may be missing. Unlike `Option`'s own implementation, accepts null as a value.
fn not_null<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

fn missing(key: &ReminderKey) -> ApiError {
    ApiError::not_found(format!("no such reminder: {}", key.as_str()))
}

impl From<BadReminder> for ApiError {
    fn from(error: BadReminder) -> Self {
        match error {
            BadReminder::Channel(error) => error.into(),
            BadReminder::Data(error) => Self::new(ApiErrorCode::Malformed, error.to_string()),
            error => Self::bad_request(error.to_string()),
        }
    }
}

/// Maps the error to a status other than 429: the request is valid and may succeed later.
impl From<ReminderRejected> for ApiError {
    fn from(error: ReminderRejected) -> Self {
        let code = match error {
            ReminderRejected::TooMany(_) => ApiErrorCode::Limit,
            ReminderRejected::Draining => ApiErrorCode::Draining,
        };
        Self::new(code, error.to_string())
    }
}
