//! The backend has a session follow a channel, or leave it.

use std::sync::Arc;

use encke_core::dialect::{Beginning, Since};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};

use super::routes::Call;
use super::sessions::{find, moved};
use super::task::in_task;
use crate::channel::ChannelName;
use crate::http::body::parse_object;
use crate::http::reply::{json, no_content};
use crate::http::{ApiError, ApiErrorCode, Reply};
use crate::session::NotSubscribed;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Subscribe {
    channel: String,
    since: Option<Position>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Position {
    epoch: String,
    offset: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Unsubscribe {
    channel: String,
}

/// As a client's own subscribe is answered.
#[derive(Serialize)]
struct Subscribed<'a> {
    channel: &'a str,
    epoch: &'a str,
    /// The last message of the channel.
    offset: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    recovered: Option<bool>,
}

/// `POST /api/sessions/{id}/subscribe`
pub(super) fn subscribe(call: &Call<'_>) -> BoxFuture<'static, Result<Reply, ApiError>> {
    let session = find(call);
    let (context, body) = (Arc::clone(call.context), call.body.clone());
    in_task(async move {
        let session = session?;
        let Subscribe { channel, since } = parse_object(&body)?;
        let name = ChannelName::new(&channel, context.client.settings.channel_name_bytes)?;
        let begin = since.map_or(Beginning::Now, |Position { epoch, offset }| {
            Beginning::After(Since { epoch: epoch.into(), offset })
        });
        let subscribed = context.client.sessions.subscribe_for(&session, &name, &begin).await?;
        Ok(json(&Subscribed {
            channel: name.as_str(),
            epoch: subscribed.channel.epoch(),
            offset: subscribed.offset,
            recovered: subscribed.recovered,
        }))
    })
}

/// `POST /api/sessions/{id}/unsubscribe`
pub(super) fn unsubscribe(call: &Call<'_>) -> BoxFuture<'static, Result<Reply, ApiError>> {
    let session = find(call);
    let (context, body) = (Arc::clone(call.context), call.body.clone());
    async move {
        let session = session?;
        let Unsubscribe { channel } = parse_object(&body)?;
        let name = ChannelName::new(&channel, context.client.settings.channel_name_bytes)?;
        context.client.sessions.unsubscribe_for(&session, &name)?;
        Ok(no_content())
    }
    .boxed()
}

impl From<NotSubscribed> for ApiError {
    fn from(error: NotSubscribed) -> Self {
        match error {
            NotSubscribed::Ended | NotSubscribed::Detached => Self::not_found(error.to_string()),
            NotSubscribed::Draining => moved(),
            NotSubscribed::Engine(error) => error.into(),
            NotSubscribed::TooManySubscriptions { .. } | NotSubscribed::Forbidden => {
                Self::new(ApiErrorCode::Limit, error.to_string())
            }
        }
    }
}
