//! Creates and ends a session's subscriptions on behalf of the backend.

use encke_broker::channel::ChannelName;
use encke_core::dialect::{Since, StartPosition};
use serde::{Deserialize, Serialize};

use super::call::ApiCall;
use super::sessions::{find, moved};
use crate::http::body::parse_object;
use crate::http::reply::{json, no_content};
use crate::http::{ApiError, ApiErrorCode, Reply};
use crate::session::SubscribeError;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SubscribeRequest<'a> {
    channel: String,
    #[serde(borrow)]
    since: Option<Since<'a>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UnsubscribeRequest {
    channel: String,
}

/// Response with the same fields as the reply to a client's subscribe command.
#[derive(Serialize)]
struct SubscribeResponse<'a> {
    channel: &'a str,
    epoch: &'a str,
    /// Offset of the channel's last message.
    offset: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    recovered: Option<bool>,
}

/// `POST /api/sessions/{id}/subscribe`
pub(super) async fn subscribe(call: ApiCall) -> Result<Reply, ApiError> {
    let session = find(&call)?;
    let client = &call.context.client;
    let SubscribeRequest { channel, since } = parse_object(&call.body)?;
    let name = ChannelName::new(&channel, client.settings.channel_name_bytes)?;
    let begin = since.map_or(StartPosition::Now, StartPosition::After);
    let subscribed = client.sessions.subscriptions.subscribe_by_backend(&session, &name, &begin).await?;
    Ok(json(&SubscribeResponse {
        channel: name.as_str(),
        epoch: subscribed.channel.epoch(),
        offset: subscribed.offset,
        recovered: subscribed.recovered,
    }))
}

/// `POST /api/sessions/{id}/unsubscribe`
pub(super) fn unsubscribe(call: &ApiCall) -> Result<Reply, ApiError> {
    let session = find(call)?;
    let client = &call.context.client;
    let UnsubscribeRequest { channel } = parse_object(&call.body)?;
    let name = ChannelName::new(&channel, client.settings.channel_name_bytes)?;
    client.sessions.subscriptions.unsubscribe_by_backend(&session, &name)?;
    Ok(no_content())
}

impl From<SubscribeError> for ApiError {
    fn from(error: SubscribeError) -> Self {
        match error {
            SubscribeError::Ended | SubscribeError::Detached => Self::not_found(error.to_string()),
            SubscribeError::Draining => moved(),
            SubscribeError::Engine(error) => error.into(),
            SubscribeError::TooManySubscriptions { .. } | SubscribeError::Forbidden => {
                Self::new(ApiErrorCode::Limit, error.to_string())
            }
        }
    }
}
