use std::sync::Arc;

use encke_core::dialect::PublishKey;
use encke_core::message::{CompactJson, Content};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::task::yield_now;

use super::routes::Call;
use super::task::in_task;
use crate::admin::Context;
use crate::admission::Holder;
use crate::channel::{ChannelName, PublishId, Published, Publisher};
use crate::engine::EngineError;
use crate::http::body::parse_object;
use crate::http::reply::{ErrorBody, json};
use crate::http::{ApiError, ApiErrorCode, Reply};
use crate::trace::{self, Root};

/// Channels of one broadcast.
const MOST_CHANNELS: usize = 1000;

/// Appends of a broadcast before others get their turn. Each may wake the first of an audience.
const APPENDS_AT_ONCE: usize = 16;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Publish<'a> {
    channel: String,
    #[serde(borrow)]
    data: &'a RawValue,
    #[serde(borrow)]
    key: Option<PublishKey<'a>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Broadcast<'a> {
    channels: Vec<String>,
    #[serde(borrow)]
    data: &'a RawValue,
    /// On each of them.
    #[serde(borrow)]
    key: Option<PublishKey<'a>>,
}

#[derive(Serialize)]
pub(super) struct Position<'a> {
    offset: u64,
    epoch: &'a str,
}

impl<'a> Position<'a> {
    pub(super) fn of(published: &'a Published) -> Self {
        Self { offset: published.offset, epoch: &published.epoch }
    }
}

#[derive(Serialize)]
struct Results<'a> {
    /// In the order of the request.
    published: Vec<ResultFor<'a>>,
}

#[derive(Serialize)]
struct ResultFor<'a> {
    channel: &'a str,
    #[serde(flatten)]
    outcome: Outcome,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Outcome {
    Published { offset: u64, epoch: String },
    Refused { error: ErrorBody },
}

/// `POST /api/publish`
pub(super) fn publish(call: &Call<'_>) -> BoxFuture<'static, Result<Reply, ApiError>> {
    let (context, body, trace) = (Arc::clone(call.context), call.body.clone(), call.trace.clone());
    async move {
        let request: Publish<'_> = parse_object(&body)?;
        check_length(&context, request.data)?;
        let (content, id) = (content(request.data)?, publish_id(request.key));
        let trace = trace.publish(&request.channel, request.data.get().len());
        let published = append(&context, &request.channel, &content, id.as_ref(), trace).await?;
        Ok(json(&Position::of(&published)))
    }
    .boxed()
}

/// `POST /api/broadcast`: the same message to each of some channels. One that is refused keeps it from no other.
pub(super) fn broadcast(call: &Call<'_>) -> BoxFuture<'static, Result<Reply, ApiError>> {
    let (context, body, trace) = (Arc::clone(call.context), call.body.clone(), call.trace.clone());
    in_task(async move { append_to_each(&context, &body, &trace).await })
}

async fn append_to_each(context: &Context, body: &[u8], trace: &Root) -> Result<Reply, ApiError> {
    let request: Broadcast<'_> = parse_object(body)?;
    if !(1..=MOST_CHANNELS).contains(&request.channels.len()) {
        return Err(ApiError::bad_request(format!("channels must be from 1 to {MOST_CHANNELS}")));
    }
    check_length(context, request.data)?;
    let content = content(request.data)?;
    let id = publish_id(request.key);
    trace.broadcast(request.channels.len());
    let mut published = Vec::with_capacity(request.channels.len());
    for some in request.channels.chunks(APPENDS_AT_ONCE) {
        for channel in some {
            let trace = trace.one_of_many(channel, request.data.get().len());
            let appended = append(context, channel, &content, id.as_ref(), trace).await;
            published.push(ResultFor::of(channel, appended));
        }
        yield_now().await;
    }
    Ok(json(&Results { published }))
}

impl<'a> ResultFor<'a> {
    fn of(channel: &'a str, result: Result<Published, ApiError>) -> Self {
        let outcome = match result {
            Ok(Published { offset, epoch }) => Outcome::Published { offset, epoch: epoch.into() },
            Err(error) => Outcome::Refused { error: error.into_body() },
        };
        Self { channel, outcome }
    }
}

/// A client could not have sent it either.
pub(super) fn check_length(context: &Context, data: &RawValue) -> Result<(), ApiError> {
    let limit = context.client.settings.max_message;
    if data.get().len() <= limit {
        return Ok(());
    }
    let message = format!("data has more than {limit} bytes (limits.max_message)");
    Err(ApiError::new(ApiErrorCode::TooLarge, message))
}

/// The API has no user.
pub(super) fn content(data: &RawValue) -> Result<Content<'_>, ApiError> {
    CompactJson::parse(data.get())
        .map(Content::from)
        .map_err(|error| ApiError::new(ApiErrorCode::Malformed, error.to_string()))
}

/// Whoever uses the API is one publisher.
fn publish_id(key: Option<PublishKey<'_>>) -> Option<PublishId> {
    key.map(|key| PublishId { publisher: Publisher::Operator, key: key.as_str().into() })
}

async fn append(
    context: &Context,
    channel: &str,
    content: &Content<'_>,
    id: Option<&PublishId>,
    trace: trace::Publish,
) -> Result<Published, ApiError> {
    let client = &context.client;
    let name = match ChannelName::to_publish(channel, client.settings.channel_name_bytes) {
        Ok(name) => name,
        Err(error) => {
            trace.refused("bad_channel");
            return Err(error.into());
        }
    };
    let published = client.logs.engine.append_traced(&name, &Holder::Operator, content, id, &trace).await;
    trace.answered(match &published {
        Ok(published) => Ok((published.offset, &published.epoch)),
        Err(error) => Err(code(*error).into()),
    });
    Ok(published?)
}

/// Not 409: nothing is wrong with the request. Channels that nobody uses go away, and engines come back, so it may succeed later.
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
