use std::sync::Arc;

use encke_broker::channel::{
    BusyChannel, Busyness, ChannelName, ChannelView, HistoryMessage, HistoryPart, InvalidChannelName,
    MAX_BUSIEST,
};
use percent_encoding::percent_decode_str;
use serde::Serialize;

use super::call::ApiCall;
use super::millis;
use crate::admin::context::Context;
use crate::client::HistoryEntry;
use crate::http::reply::json;
use crate::http::{ApiError, ApiErrorCode, Reply};
use crate::session::Channel;

#[derive(Serialize)]
struct ChannelPage<T> {
    channels: Vec<T>,
    next_cursor: Option<String>,
}

#[derive(Serialize)]
struct ChannelSummary {
    channel: String,
    /// Whether this is a pattern. The log of a pattern contains the messages of all matching channels.
    pattern: bool,
    epoch: String,
    /// Offset of the oldest message in the log, or `last + 1` if the log is empty.
    first: u64,
    last: u64,
    messages: usize,
    bytes: usize,
    subscribers: usize,
}

#[derive(Serialize)]
struct BusiestSummary {
    #[serde(flatten)]
    summary: ChannelSummary,
    /// Recent messages per second.
    rate: f64,
}

#[derive(Serialize)]
struct ChannelHistory<'a> {
    channel: &'a str,
    epoch: &'a str,
    first: u64,
    last: u64,
    messages: Vec<HistoryEntry>,
}

/// `GET /api/channels?sort=&limit=&cursor=`
pub(super) async fn list(call: ApiCall) -> Result<Reply, ApiError> {
    let query = call.query();
    let (limit, cursor) = (query.limit()?, query.get("cursor"));
    let Some(sort) = query.get("sort") else { return Ok(by_name(&call.context, limit, cursor)) };
    let by = match sort {
        "rate" => Busyness::Rate,
        "bytes" => Busyness::Bytes,
        "subscribers" => Busyness::Subscribers,
        _ => return Err(ApiError::bad_request("sort must be rate, bytes or subscribers")),
    };
    if cursor.is_some() {
        return Err(ApiError::bad_request("cursor cannot be combined with sort"));
    }
    if limit > MAX_BUSIEST {
        return Err(ApiError::bad_request(format!("with sort, limit must be from 1 to {MAX_BUSIEST}")));
    }
    let busiest = call.context.busiest.get(&call.context.client).await;
    let channels = busiest.by(by).iter().take(limit).map(BusiestSummary::of).collect();
    // There is only one page.
    Ok(json(&ChannelPage::<BusiestSummary> { channels, next_cursor: None }))
}

fn by_name(context: &Context, limit: usize, cursor: Option<&str>) -> Reply {
    // Request one more channel, to find out whether there is another page.
    let mut channels = context.client.logs.channels.public_after(cursor, limit + 1);
    let more = channels.len() > limit;
    channels.truncate(limit);
    let last = channels.last().filter(|_| more);
    let next_cursor = last.map(|channel| channel.name().as_str().to_owned());
    json(&ChannelPage {
        channels: channels.iter().map(|channel| ChannelSummary::of(channel.view())).collect(),
        next_cursor,
    })
}

/// `GET /api/channels/{name}`
pub(super) fn show(call: &ApiCall) -> Result<Reply, ApiError> {
    Ok(json(&ChannelSummary::of(find(call)?.view())))
}

/// `GET /api/channels/{name}/history?since=&before=&limit=`
pub(super) async fn history(call: ApiCall) -> Result<Reply, ApiError> {
    let query = call.query();
    let after = query.number("since")?.unwrap_or(0);
    let part = match query.number("before")? {
        None => HistoryPart::After(after),
        Some(before) => HistoryPart::Between { after, before },
    };
    let (limit, name) = (query.limit()?, name_of(&call)?);
    let history = call.context.client.logs.engine.read(&name, part, limit.into()).await?;
    let history = history.ok_or_else(|| no_such_channel(&name))?;
    let entry = |message: HistoryMessage| {
        let age_ms = millis(message.age);
        HistoryEntry::for_api(message, age_ms)
    };
    Ok(json(&ChannelHistory {
        channel: name.as_str(),
        epoch: &history.epoch,
        first: history.bounds.first,
        last: history.bounds.last,
        messages: history.messages.into_iter().map(entry).collect(),
    }))
}

fn find(call: &ApiCall) -> Result<Arc<Channel>, ApiError> {
    let name = name_of(call)?;
    call.context.client.logs.channels.get(name.as_str()).ok_or_else(|| no_such_channel(&name))
}

/// Returns the channel name in the path.
pub(super) fn name_of(call: &ApiCall) -> Result<ChannelName, ApiError> {
    let decoded = percent_decode_str(&call.parameter).decode_utf8();
    let text = decoded.map_err(|_| bad_channel("a channel's name must be UTF-8".to_owned()))?;
    Ok(ChannelName::new(&text, call.context.client.settings.channel_name_bytes)?)
}

fn no_such_channel(name: &ChannelName) -> ApiError {
    ApiError::not_found(format!("no such channel: {name}"))
}

fn bad_channel(message: String) -> ApiError {
    ApiError::new(ApiErrorCode::BadChannel, message)
}

impl From<InvalidChannelName> for ApiError {
    fn from(error: InvalidChannelName) -> Self {
        bad_channel(error.to_string())
    }
}

impl ChannelSummary {
    fn of(view: ChannelView) -> Self {
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

impl BusiestSummary {
    #[expect(clippy::cast_precision_loss, reason = "a log has far fewer messages than 2^53")]
    fn of(busy: &BusyChannel) -> Self {
        Self { summary: ChannelSummary::of(busy.view.clone()), rate: busy.millirate as f64 / 1e3 }
    }
}
