//! What the backend wants done later, under a key by which it changes its mind.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use percent_encoding::percent_decode_str;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use super::millis;
use super::publish::check_length;
use super::routes::Call;
use crate::admin::Context;
use crate::channel::ChannelName;
use crate::http::body::parse_object;
use crate::http::reply::{json, no_content};
use crate::http::{ApiError, ApiErrorCode, Reply};
use crate::reminders::{Action, BadReminder, LONGEST, NotKept, ReminderKey, Waiting, compact};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Put<'a> {
    after: String,
    #[serde(borrow, default, deserialize_with = "if_there")]
    publish: Option<Publish<'a>>,
    #[serde(default, deserialize_with = "if_there")]
    webhook: Option<String>,
    /// For the webhook.
    #[serde(borrow, default, deserialize_with = "if_there")]
    data: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Publish<'a> {
    channel: String,
    #[serde(borrow)]
    data: &'a RawValue,
}

/// A reminder that waits.
#[derive(Serialize)]
struct Reminder<'a> {
    key: &'a str,
    due_in_ms: f64,
    #[serde(flatten)]
    done: Done<'a>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Done<'a> {
    Publish { publish: Message<'a> },
    Webhook { webhook: &'a str, data: &'a RawValue },
}

#[derive(Serialize)]
struct Message<'a> {
    channel: &'a str,
    data: &'a RawValue,
}

/// `GET /api/reminders/{key}`
pub(super) fn show(call: &Call<'_>) -> Result<Reply, ApiError> {
    let key = key_of(call)?;
    let waiting = call.context.client.reminders.get(&key).ok_or_else(|| missing(&key))?;
    Ok(reply(&key, &waiting))
}

/// `PUT /api/reminders/{key}`
pub(super) fn put(call: &Call<'_>) -> BoxFuture<'static, Result<Reply, ApiError>> {
    let key = key_of(call);
    let (context, body) = (Arc::clone(call.context), call.body.clone());
    async move {
        let key = key?;
        let request: Put<'_> = parse_object(&body)?;
        let due_in = after(&request.after)?;
        let action = action(&context, &request)?;
        context.client.reminders.put(key.clone(), due_in, action.clone())?;
        Ok(reply(&key, &Waiting { due_in, action }))
    }
    .boxed()
}

/// `DELETE /api/reminders/{key}`
pub(super) fn delete(call: &Call<'_>) -> Result<Reply, ApiError> {
    let key = key_of(call)?;
    if call.context.client.reminders.delete(&key)? { Ok(no_content()) } else { Err(missing(&key)) }
}

fn reply(key: &ReminderKey, waiting: &Waiting) -> Reply {
    let done = match &waiting.action {
        Action::Publish { channel, data } => {
            Done::Publish { publish: Message { channel: channel.as_str(), data } }
        }
        Action::Webhook { name, data } => Done::Webhook { webhook: name, data },
    };
    json(&Reminder { key: key.as_str(), due_in_ms: millis(waiting.due_in), done })
}

/// The key in the path.
fn key_of(call: &Call<'_>) -> Result<ReminderKey, ApiError> {
    let key = percent_decode_str(call.parameter).decode_utf8();
    let key = key.map_err(|_| ApiError::bad_request("a reminder's key must be UTF-8"))?;
    Ok(ReminderKey::new(&key)?)
}

fn after(text: &str) -> Result<Duration, ApiError> {
    let after = humantime::parse_duration(text);
    let after = after.map_err(|_| ApiError::bad_request("after must be a duration such as \"30s\""))?;
    if after > LONGEST {
        return Err(ApiError::bad_request("after must be from 0s to 30days"));
    }
    Ok(after)
}

fn action(context: &Context, request: &Put<'_>) -> Result<Action, ApiError> {
    let data = |data: &RawValue| {
        check_length(context, data)?;
        compact(data).map_err(|error| ApiError::from(BadReminder::from(error)))
    };
    match request {
        Put { publish: Some(publish), webhook: None, data: None, .. } => {
            let limit = context.client.settings.channel_name_bytes;
            let channel = ChannelName::to_publish(&publish.channel, limit)?;
            Ok(Action::Publish { channel, data: data(publish.data)? })
        }
        Put { publish: None, webhook: Some(name), data: Some(raw), .. } => {
            if !context.client.reminders.has_webhook(name) {
                return Err(ApiError::bad_request(format!("webhook: none has the name {name:?}")));
            }
            Ok(Action::Webhook { name: name.as_str().into(), data: data(raw)? })
        }
        _ => Err(ApiError::bad_request("either publish, or webhook and data, must be there, and not both")),
    }
}

/// Unlike `Option`, it takes null for a value.
fn if_there<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
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

/// Not 429: nothing is wrong with the request, and it may succeed later.
impl From<NotKept> for ApiError {
    fn from(error: NotKept) -> Self {
        let code = match error {
            NotKept::TooMany(_) => ApiErrorCode::Limit,
            NotKept::Draining => ApiErrorCode::Draining,
        };
        Self::new(code, error.to_string())
    }
}
