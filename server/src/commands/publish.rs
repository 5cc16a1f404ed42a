use std::future::IntoFuture;
use std::sync::Arc;

use encke_broker::channel::{PublishId, Published};
use encke_broker::engine::{EngineError, EngineResponse};
use encke_core::dialect::{PublishKey, Success};
use encke_core::message::{CompactJson, Content};
use futures_util::FutureExt;

use super::errors::{bad_data, engine_failed};
use super::permission::approved_name;
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
    let request = || HookRequest {
        channel: Some(channel.as_str()),
        data: serde_json::from_str(content.data.as_str()).ok(),
        ..HookRequest::default()
    };
    let max_bytes = services.settings.channel_name_bytes;
    let interpret = move |Approval { channel, data, .. }: Approval| {
        let data = data.as_deref().map(|data| CompactJson::parse(data.get()).map(CompactJson::into_owned));
        let data = data.transpose().map_err(|error| format!("`data`: {error}"))?;
        Ok((approved_name(Permission::Publish, channel, max_bytes)?, data))
    };
    let Some(answer) = context.ask(HookKind::Publish, request, interpret) else {
        let published = services.logs.engine.append(&channel, &creator, &content, id.as_ref());
        return Ok(published.map(outcome));
    };
    let (services, content) = (Arc::clone(services), content.into_owned());
    let published = async move {
        let (other, data) = answer.await?;
        if let Some(other) = &other {
            services.check(&identity, Permission::Publish, other)?;
        }
        let (channel, data) = (other.unwrap_or(channel), data.unwrap_or(content.data));
        let content = Content { data, ..content };
        outcome(services.logs.engine.append(&channel, &creator, &content, id.as_ref()).into_future().await)
    };
    Ok(EngineResponse::Pending(published.boxed()))
}

fn outcome(published: Result<Published, EngineError>) -> CommandOutcome {
    let Published { offset, epoch } = published.map_err(engine_failed)?;
    Ok(Success::Published { offset, epoch: String::from(epoch).into() })
}
