use encke_base::quota::QuotaOwner;
use encke_base::trace;
use encke_broker::channel::{ChannelName, PublishId, Published, Publisher};
use encke_broker::engine::EngineError;
use encke_core::dialect::PublishKey;
use encke_core::message::{CompactJson, Content};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::task::yield_now;

use super::call::ApiCall;
use crate::admin::context::Context;
use crate::http::body::parse_object;
use crate::http::reply::{ErrorBody, json};
use crate::http::{ApiError, ApiErrorCode, Reply};

/// Maximum number of channels in one broadcast.
const MAX_BROADCAST_CHANNELS: usize = 1000;

/// Number of appends in a broadcast before the task yields to others. Each append may have to wake a
/// channel's subscribers.
const APPENDS_PER_BATCH: usize = 16;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PublishRequest<'a> {
    channel: String,
    #[serde(borrow)]
    data: &'a RawValue,
    #[serde(borrow)]
    key: Option<PublishKey<'a>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BroadcastRequest<'a> {
    channels: Vec<String>,
    #[serde(borrow)]
    data: &'a RawValue,
    /// Publish key, which applies to each of the channels.
    #[serde(borrow)]
    key: Option<PublishKey<'a>>,
}

#[derive(Serialize)]
pub(super) struct PublishedPosition<'a> {
    offset: u64,
    epoch: &'a str,
}

impl<'a> PublishedPosition<'a> {
    pub(super) fn of(published: &'a Published) -> Self {
        Self { offset: published.offset, epoch: &published.epoch }
    }
}

#[derive(Serialize)]
struct BroadcastResponse<'a> {
    /// Results, in the order in which the request lists the channels.
    published: Vec<ChannelResult<'a>>,
}

#[derive(Serialize)]
struct ChannelResult<'a> {
    channel: &'a str,
    #[serde(flatten)]
    outcome: PublishOutcome,
}

#[derive(Serialize)]
#[serde(untagged)]
enum PublishOutcome {
    Published { offset: u64, epoch: String },
    Refused { error: ErrorBody },
}

/// `POST /api/publish`
pub(super) async fn publish(call: ApiCall) -> Result<Reply, ApiError> {
    let request: PublishRequest<'_> = parse_object(&call.body)?;
    check_length(&call.context, request.data)?;
    let (content, id) = (content(request.data)?, publish_id(request.key));
    let trace = call.trace.publish(&request.channel, request.data.get().len());
    let published = append(&call.context, &request.channel, &content, id.as_ref(), trace).await?;
    Ok(json(&PublishedPosition::of(&published)))
}

/// `POST /api/broadcast`: publishes a message on several channels. A failure on one channel does not affect
/// the others.
pub(super) async fn broadcast(call: ApiCall) -> Result<Reply, ApiError> {
    let ApiCall { context, body, trace, .. } = call;
    let request: BroadcastRequest<'_> = parse_object(&body)?;
    if !(1..=MAX_BROADCAST_CHANNELS).contains(&request.channels.len()) {
        return Err(ApiError::bad_request(format!("channels must be from 1 to {MAX_BROADCAST_CHANNELS}")));
    }
    check_length(&context, request.data)?;
    let content = content(request.data)?;
    let id = publish_id(request.key);
    trace.broadcast(request.channels.len());
    let mut published = Vec::with_capacity(request.channels.len());
    for some in request.channels.chunks(APPENDS_PER_BATCH) {
        for channel in some {
            let trace = trace.publish_one_of_many(channel, request.data.get().len());
            let appended = append(&context, channel, &content, id.as_ref(), trace).await;
            published.push(ChannelResult::of(channel, appended));
        }
        yield_now().await;
    }
    Ok(json(&BroadcastResponse { published }))
}

impl<'a> ChannelResult<'a> {
    fn of(channel: &'a str, result: Result<Published, ApiError>) -> Self {
        let outcome = match result {
            Ok(Published { offset, epoch }) => PublishOutcome::Published { offset, epoch: epoch.into() },
            Err(error) => PublishOutcome::Refused { error: error.into_body() },
        };
        Self { channel, outcome }
    }
}

/// Returns an error if the data is longer than the data that a client could send.
pub(super) fn check_length(context: &Context, data: &RawValue) -> Result<(), ApiError> {
    let limit = context.client.settings.max_message;
    if data.get().len() <= limit {
        return Ok(());
    }
    let message = format!("data has more than {limit} bytes (limits.max_message)");
    Err(ApiError::new(ApiErrorCode::TooLarge, message))
}

/// Wraps data in a message without a user.
pub(super) fn content(data: &RawValue) -> Result<Content<'_>, ApiError> {
    CompactJson::parse(data.get())
        .map(Content::from)
        .map_err(|error| ApiError::new(ApiErrorCode::Malformed, error.to_string()))
}

/// Returns the id of a publish by an operator. All operators count as one publisher.
fn publish_id(key: Option<PublishKey<'_>>) -> Option<PublishId> {
    key.map(|key| PublishId { publisher: Publisher::Operator, key: key.as_str().into() })
}

async fn append(
    context: &Context,
    channel: &str,
    content: &Content<'_>,
    id: Option<&PublishId>,
    trace: trace::PublishTrace,
) -> Result<Published, ApiError> {
    let client = &context.client;
    let name = match ChannelName::for_publish(channel, client.settings.channel_name_bytes) {
        Ok(name) => name,
        Err(error) => {
            trace.refused("bad_channel");
            return Err(error.into());
        }
    };
    let published = client.logs.engine.append_traced(&name, &QuotaOwner::Operator, content, id, &trace).await;
    trace.answered(match &published {
        Ok(published) => Ok((published.offset, &published.epoch)),
        Err(error) => Err(code(*error).into()),
    });
    Ok(published?)
}

/// Maps the error to a status other than 409: the request is valid and may succeed later, when unused
/// channels have been removed or the engine is reachable again.
impl From<EngineError> for ApiError {
    fn from(error: EngineError) -> Self {
        Self::new(code(error), error.to_string())
    }
}

fn code(error: EngineError) -> ApiErrorCode {
    match error {
        EngineError::TooManyChannels(_) => ApiErrorCode::Limit,
        EngineError::Draining => ApiErrorCode::Draining,
        EngineError::Unavailable => ApiErrorCode::Unavailable,
        EngineError::OutcomeUnknown => ApiErrorCode::OutcomeUnknown,
        EngineError::Overloaded => ApiErrorCode::Overloaded,
    }
}
