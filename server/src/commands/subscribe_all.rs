use std::borrow::Cow;
use std::future::IntoFuture;
use std::sync::Arc;

use encke_broker::channel::ChannelName;
use encke_broker::engine::{EngineResponse, join_responses};
use encke_core::dialect::{CommandError, StartPosition, Success};
use futures_util::FutureExt;

use super::errors::forbidden;
use super::{CommandContext, CommandOutcome, StartedCommand};
use crate::auth::Permission;
use crate::session::{CommandSource, SessionHandle, Sessions, SubscribeError};

/// Subscribes to all channels or to none. Each channel after the first counts as an additional command.
pub(super) fn subscribe_all(context: CommandContext<'_>, channels: &[Cow<'_, str>]) -> StartedCommand {
    let CommandContext { session, services, source } = context;
    let names = channels.iter().map(|channel| context.allowed_channel(Permission::Subscribe, channel));
    let names = names.collect::<Result<Vec<_>, _>>()?;
    let limit = services.settings.max_subscriptions;
    if names.len() > limit {
        return Err(SubscribeError::TooManySubscriptions { limit }.into());
    }
    let (now, rate) = (services.timeouts.clock().now(), services.settings.commands_per_second);
    // Count at most one second's worth. Otherwise the session would be closed for its next command.
    let others = (names.len() - 1).min(rate as usize);
    session.commands.count_input(others, rate, now);
    let is_new = |name: &ChannelName| !services.sessions.subscriptions.is_subscribed(session, name.as_str());
    let new: Vec<ChannelName> = names.into_iter().filter(is_new).collect();
    let (sessions, session) = (Arc::clone(&services.sessions), services.sessions.table.clone_handle(session));
    let approved = new.iter().map(|name| context.approved_channel(Permission::Subscribe, name));
    // Wait for all decisions before the first subscription begins: other clients may be notified of it.
    let approved = match join_responses(approved.collect()) {
        EngineResponse::Ready(approved) => {
            check_names(&new, approved)?;
            return Ok(subscribe_to_new(sessions, session, source, new));
        }
        EngineResponse::Pending(approved) => approved,
    };
    let subscribed = async move {
        check_names(&new, approved.await)?;
        subscribe_to_new(sessions, session, source, new).into_future().await
    };
    Ok(EngineResponse::Pending(subscribed.boxed()))
}

/// Checks that all channels are approved, and none of them replaced: the reply cannot name another channel.
fn check_names(
    names: &[ChannelName],
    approved: Vec<Result<ChannelName, CommandError>>,
) -> Result<(), CommandError> {
    for (name, approved) in names.iter().zip(approved) {
        if approved? != *name {
            return Err(forbidden("the backend has replaced a channel"));
        }
    }
    Ok(())
}

/// Subscribes to channels that the client may subscribe to: to all or to none.
fn subscribe_to_new(
    sessions: Arc<Sessions>,
    session: SessionHandle,
    source: CommandSource,
    new: Vec<ChannelName>,
) -> EngineResponse<CommandOutcome> {
    let subscribe = |name| sessions.subscriptions.subscribe(&session, source, name, &StartPosition::Now);
    let responses = new.iter().map(subscribe).collect();
    join_responses(responses).map(move |results| {
        let Some(error) = results.iter().find_map(|result| result.as_ref().err().cloned()) else {
            return Ok(Success::SubscribedAll);
        };
        for subscribed in results.iter().flatten() {
            sessions.subscriptions.unsubscribe(&session, source, subscribed.channel.name().as_str());
        }
        Err(CommandError::from(error))
    })
}
