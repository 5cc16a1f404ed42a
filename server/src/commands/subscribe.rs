use std::future::IntoFuture;
use std::sync::Arc;

use encke_broker::channel::ChannelName;
use encke_broker::engine::EngineResponse;
use encke_core::dialect::{CommandError, StartPosition, Success};
use futures_util::FutureExt;

use super::{CommandContext, StartedCommand};
use crate::auth::Permission;
use crate::session::{Rename, SubscribeOutcome};

pub(super) fn subscribe(
    context: CommandContext<'_>,
    channel: &str,
    begin: &StartPosition<'_>,
) -> StartedCommand {
    let name = context.allowed_channel(Permission::Subscribe, channel)?;
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

/// Subscribes the client's session to a channel that passes the server's own checks, if the backend allows it.
/// The backend may change the channel.
pub(crate) fn subscribe_to(
    context: CommandContext<'_>,
    name: &ChannelName,
    begin: &StartPosition<'_>,
) -> EngineResponse<Result<SubscribeOutcome, CommandError>> {
    let CommandContext { session, services, source } = context;
    let approved = match context.approved_channel(Permission::Subscribe, name) {
        EngineResponse::Ready(Ok(name)) => {
            let subscribed = services.sessions.subscriptions.subscribe(session, source, &name, begin);
            return subscribed.map(|subscribed| subscribed.map_err(CommandError::from));
        }
        EngineResponse::Ready(Err(error)) => return EngineResponse::Ready(Err(error)),
        EngineResponse::Pending(approved) => approved,
    };
    let (sessions, session) = (Arc::clone(&services.sessions), services.sessions.table.clone_handle(session));
    let (requested, begin) = (name.clone(), begin.clone().into_owned());
    let subscribed = async move {
        let actual = approved.await?;
        let subscriptions = &sessions.subscriptions;
        let outcome = subscriptions.subscribe(&session, source, &actual, &begin).into_future().await?;
        subscriptions.add_rename(&session, Rename { requested, actual });
        Ok(outcome)
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
