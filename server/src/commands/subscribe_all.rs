use std::borrow::Cow;
use std::sync::Arc;

use encke_broker::channel::ChannelName;
use encke_broker::engine::join_responses;
use encke_core::dialect::{CommandError, StartPosition, Success};

use super::errors::forbidden;
use super::subscribe::subscribe_to;
use super::{CommandContext, StartedCommand};
use crate::auth::Permission;
use crate::session::{SubscribeError, SubscribeOutcome};

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
    let responses = new.iter().map(|name| subscribe_to(context, name, &StartPosition::Now)).collect();
    let (sessions, session) = (Arc::clone(&services.sessions), services.sessions.table.clone_handle(session));
    let conclude = move |results: Vec<Result<SubscribeOutcome, CommandError>>| {
        // A reply for several channels cannot report that the backend has replaced one of them.
        let error = results.iter().zip(&new).find_map(|(result, name)| match result {
            Ok(subscribed) if subscribed.channel.name() == name => None,
            Ok(_) => Some(forbidden("the backend has replaced a channel")),
            Err(error) => Some(error.clone()),
        });
        let Some(error) = error else { return Ok(Success::SubscribedAll) };
        for subscribed in results.iter().flatten() {
            sessions.subscriptions.unsubscribe(&session, source, subscribed.channel.name().as_str());
        }
        Err(error)
    };
    Ok(join_responses(responses).map(conclude))
}
