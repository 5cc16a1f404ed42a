use std::future::IntoFuture;
use std::sync::Arc;

use encke_broker::channel::ChannelName;
use encke_broker::engine::EngineResponse;
use encke_core::dialect::{CommandError, StartPosition, Success};
use futures_util::FutureExt;

use super::errors::invalid_answer;
use super::{CommandContext, StartedCommand};
use crate::backend::{HookKind, HookRequest};
use crate::session::SubscribeOutcome;

pub(super) fn subscribe(
    context: CommandContext<'_>,
    channel: &str,
    begin: &StartPosition<'_>,
) -> StartedCommand {
    let name = context.channel_name(channel)?;
    Ok(subscribe_to(context, &name, begin).map(|subscribed| {
        let subscribed = subscribed?;
        Ok(Success::Subscribed {
            channel: subscribed.channel.name().as_str().to_owned().into(),
            epoch: subscribed.channel.epoch().to_owned().into(),
            offset: subscribed.offset,
            recovered: subscribed.recovered,
        })
    }))
}

/// Subscribes the client's session to a channel, if the backend allows it. The backend may change the
/// channel.
pub(crate) fn subscribe_to(
    context: CommandContext<'_>,
    name: &ChannelName,
    begin: &StartPosition<'_>,
) -> EngineResponse<Result<SubscribeOutcome, CommandError>> {
    let CommandContext { session, services, source } = context;
    // If the session is already subscribed, nothing changes and the backend is not called.
    let needs_hook = services.access.backend.is_some()
        && !services.sessions.subscriptions.is_subscribed(session, name.as_str());
    let request = || HookRequest { channel: Some(name.as_str()), ..HookRequest::default() };
    let Some(answer) = needs_hook.then(|| context.ask(HookKind::Subscribe, request)).flatten() else {
        let subscribed = services.sessions.subscriptions.subscribe(session, source, name, begin);
        return subscribed.map(|subscribed| subscribed.map_err(CommandError::from));
    };
    let (sessions, session) = (Arc::clone(&services.sessions), services.sessions.table.clone_handle(session));
    let (name, begin) = (name.clone(), begin.clone().into_owned());
    let max_name_bytes = services.settings.channel_name_bytes;
    let subscribed = async move {
        let channel = answer.await?.channel;
        let name = channel.map_or(Ok(name), |channel| ChannelName::new(&channel, max_name_bytes));
        let name = name.map_err(|error| invalid_answer(&error))?;
        Ok(sessions.subscriptions.subscribe(&session, source, &name, &begin).into_future().await?)
    };
    EngineResponse::Pending(subscribed.boxed())
}

pub(super) fn unsubscribe<'c>(
    context: CommandContext<'_>,
    channels: impl IntoIterator<Item = &'c str>,
) -> StartedCommand {
    for channel in channels {
        context.services.sessions.subscriptions.unsubscribe(context.session, context.source, channel);
    }
    Ok(EngineResponse::Ready(Ok(Success::Done)))
}
