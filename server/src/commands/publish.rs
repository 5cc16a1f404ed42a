use std::future::IntoFuture;
use std::sync::Arc;

use encke_broker::channel::{PublishId, Published};
use encke_broker::engine::{EngineError, EngineResponse};
use encke_core::dialect::{PublishKey, Success};
use encke_core::message::{CompactJson, Content};
use futures_util::FutureExt;

use super::errors::{bad_data, engine_failed, invalid_answer};
use super::{CommandContext, CommandOutcome, StartedCommand};
use crate::auth::Permission;
use crate::backend::{Approval, HookKind, HookRequest};

/// Publishes a message, if the backend allows it. The backend may change the channel and the data.
pub(super) fn publish(
    context: CommandContext<'_>,
    channel: &str,
    data: &str,
    key: Option<&PublishKey<'_>>,
) -> StartedCommand {
    let CommandContext { session, services, source } = context;
    let channel = context.allowed_channel(Permission::Publish, channel)?;
    let data = CompactJson::parse(data).map_err(bad_data)?;
    let (creator, identity) = (session.quota_owner(source), session.identity());
    let id = key.map(|key| PublishId { publisher: session.publisher(), key: key.as_str().into() });
    let content = Content { user: identity.user().map(Into::into), ..data.into() };
    let Some(answer) = context.ask::<Approval>(HookKind::Publish, || HookRequest {
        channel: Some(channel.as_str()),
        data: serde_json::from_str(content.data.as_str()).ok(),
        ..HookRequest::default()
    }) else {
        let published = services.logs.engine.append(&channel, &creator, &content, id.as_ref());
        return Ok(published.map(outcome));
    };
    let (services, content) = (Arc::clone(services), content.into_owned());
    let published = async move {
        let Approval { channel: other, data, .. } = answer.await?;
        let replace = |other: String| {
            services.replaced_channel(HookKind::Publish, &identity, Permission::Publish, &other)
        };
        let channel = other.map_or(Ok(channel), replace)?;
        let data = data.as_deref().map(|data| CompactJson::parse(data.get()));
        let content = match data.transpose().map_err(|error| invalid_answer(&error))? {
            Some(data) => Content { data, ..content },
            None => content,
        };
        outcome(services.logs.engine.append(&channel, &creator, &content, id.as_ref()).into_future().await)
    };
    Ok(EngineResponse::Pending(published.boxed()))
}

fn outcome(published: Result<Published, EngineError>) -> CommandOutcome {
    let Published { offset, epoch } = published.map_err(engine_failed)?;
    Ok(Success::Published { offset, epoch: String::from(epoch).into() })
}
