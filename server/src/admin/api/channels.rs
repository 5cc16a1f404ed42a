use std::sync::Arc;

use encke_core::message::Kind;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use percent_encoding::percent_decode_str;
use serde::Serialize;
use serde_json::value::RawValue;

use super::routes::Call;
use super::{DEFAULT_LIMIT, millis, parse_limit, unknown_parameter};
use crate::channel::{BadChannelName, ChannelName, HistoryMessage, HistoryPart};
use crate::http::reply::json;
use crate::http::{ApiError, ApiErrorCode, Reply};
use crate::session::Channel;

#[derive(Serialize)]
struct Page {
    channels: Vec<Summary>,
    next_cursor: Option<String>,
}

#[derive(Serialize)]
struct Summary {
    channel: String,
    /// It stands for channels, and has what is published to these.
    pattern: bool,
    epoch: String,
    /// The oldest message there is; beyond `last` if there is none.
    first: u64,
    last: u64,
    messages: usize,
    bytes: usize,
    subscribers: usize,
}

#[derive(Serialize)]
struct History<'a> {
    channel: &'a str,
    epoch: &'a str,
    first: u64,
    last: u64,
    messages: Vec<Message>,
}

#[derive(Serialize)]
struct Message {
    offset: u64,
    /// Where it was published, in the history of a pattern.
    #[serde(skip_serializing_if = "Option::is_none")]
    channel: Option<String>,
    /// Whose client has published it.
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<String>,
    age_ms: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<Box<RawValue>>,
    /// Rather than data: a session that has come to the channel,
    #[serde(skip_serializing_if = "Option::is_none")]
    joined: Option<Box<RawValue>>,
    /// or gone.
    #[serde(skip_serializing_if = "Option::is_none")]
    left: Option<Box<RawValue>>,
}

/// `GET /api/channels?limit=&cursor=`
pub(super) fn list(call: &Call<'_>) -> Result<Reply, ApiError> {
    let (mut limit, mut cursor) = (DEFAULT_LIMIT, None);
    for (name, value) in form_urlencoded::parse(call.query.as_bytes()) {
        match &*name {
            "limit" => limit = parse_limit(&value)?,
            "cursor" => cursor = Some(value),
            _ => return Err(unknown_parameter(&name)),
        }
    }
    // One more, to know whether there is more.
    let mut channels = call.context.client.logs.channels.public_after(cursor.as_deref(), limit + 1);
    let more = channels.len() > limit;
    channels.truncate(limit);
    let last = channels.last().filter(|_| more);
    let next_cursor = last.map(|channel| channel.name().as_str().to_owned());
    Ok(json(&Page { channels: channels.iter().map(|channel| Summary::of(channel)).collect(), next_cursor }))
}

/// `GET /api/channels/{name}`
pub(super) fn show(call: &Call<'_>) -> Result<Reply, ApiError> {
    Ok(json(&Summary::of(&*find(call)?)))
}

/// `GET /api/channels/{name}/history?since=&before=&limit=`
pub(super) fn history(call: &Call<'_>) -> BoxFuture<'static, Result<Reply, ApiError>> {
    let asked = HistoryQuery::parse(call);
    let engine = Arc::clone(&call.context.client.logs.engine);
    async move {
        let HistoryQuery { name, part, limit } = asked?;
        let history = engine.read(&name, part, limit).await?.ok_or_else(|| no_such_channel(&name))?;
        Ok(json(&History {
            channel: name.as_str(),
            epoch: &history.epoch,
            first: history.bounds.first,
            last: history.bounds.last,
            messages: history.messages.into_iter().map(Message::from).collect(),
        }))
    }
    .boxed()
}

struct HistoryQuery {
    name: ChannelName,
    part: HistoryPart,
    limit: usize,
}

impl HistoryQuery {
    fn parse(call: &Call<'_>) -> Result<Self, ApiError> {
        let (mut since, mut before, mut limit) = (0, None, DEFAULT_LIMIT);
        for (name, value) in form_urlencoded::parse(call.query.as_bytes()) {
            match &*name {
                "since" => since = parse_number("since", &value)?,
                "before" => before = Some(parse_number("before", &value)?),
                "limit" => limit = parse_limit(&value)?,
                _ => return Err(unknown_parameter(&name)),
            }
        }
        let part = match before {
            None => HistoryPart::After(since),
            Some(before) => HistoryPart::Between { after: since, before },
        };
        Ok(Self { name: name_of(call)?, part, limit })
    }
}

fn find(call: &Call<'_>) -> Result<Arc<Channel>, ApiError> {
    let name = name_of(call)?;
    call.context.client.logs.channels.get(name.as_str()).ok_or_else(|| no_such_channel(&name))
}

/// The name in the path.
pub(super) fn name_of(call: &Call<'_>) -> Result<ChannelName, ApiError> {
    let decoded = percent_decode_str(call.parameter).decode_utf8();
    let text = decoded.map_err(|_| bad_channel("a channel's name must be UTF-8".to_owned()))?;
    Ok(ChannelName::new(&text, call.context.client.settings.channel_name_bytes)?)
}

fn no_such_channel(name: &ChannelName) -> ApiError {
    ApiError::not_found(format!("no such channel: {name}"))
}

/// A number too large for 64 bits counts as the largest: nothing comes after it.
pub(super) fn parse_number(name: &str, text: &str) -> Result<u64, ApiError> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(ApiError::bad_request(format!("{name} must be a number, not negative")));
    }
    Ok(text.parse().unwrap_or(u64::MAX))
}

fn bad_channel(message: String) -> ApiError {
    ApiError::new(ApiErrorCode::BadChannel, message)
}

impl From<BadChannelName> for ApiError {
    fn from(error: BadChannelName) -> Self {
        bad_channel(error.to_string())
    }
}

impl Summary {
    fn of(channel: &Channel) -> Self {
        let view = channel.view();
        Self {
            pattern: view.name.is_pattern(),
            channel: view.name.to_string(),
            epoch: view.epoch,
            first: view.bounds.first,
            last: view.bounds.last,
            messages: view.messages,
            bytes: view.bytes,
            subscribers: view.subscribers,
        }
    }
}

impl From<HistoryMessage> for Message {
    fn from(message: HistoryMessage) -> Self {
        let json = RawValue::from_string(message.data).expect("what is published was read as JSON before");
        let (data, joined, left) = match message.kind {
            Kind::Data => (Some(json), None, None),
            Kind::Joined => (None, Some(json), None),
            Kind::Left => (None, None, Some(json)),
        };
        Self {
            offset: message.offset,
            channel: message.channel.map(|channel| channel.to_string()),
            user: message.user,
            age_ms: millis(message.age),
            data,
            joined,
            left,
        }
    }
}
