//! Backend hooks for the commands of clients. The server's own checks come first. If the backend raises no
//! objection, the command is carried out as usual.

use std::fmt::Display;
use std::future::IntoFuture;
use std::sync::Arc;

use encke_core::dialect::{CommandError, ErrorCode, PublishKey, StartPosition, Success};
use encke_core::message::{CompactJson, Content};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::value::RawValue;

use super::command_handler::CommandOutcome;
use super::errors::forbidden;
use super::{CommandContext, Services};
use crate::backend::{Backend, HookCaller, HookError, HookKind, HookRequest, HookResponse};
use crate::channel::{ChannelName, PublishId};
use crate::engine::EngineResponse;
use crate::session::SubscribeOutcome;

/// Maximum length of a method name, in bytes.
const MAX_METHOD_BYTES: usize = 255;

/// A client's message that has passed the checks.
pub(super) struct Publication<'a> {
    pub(super) channel: ChannelName,
    pub(super) data: CompactJson<'a>,
    pub(super) key: Option<&'a PublishKey<'a>>,
}

impl CommandContext<'_> {
    /// Subscribes the client's session to a channel, if the backend allows it.
    pub(crate) fn subscribe(
        self,
        name: &ChannelName,
        begin: &StartPosition<'_>,
    ) -> EngineResponse<Result<SubscribeOutcome, CommandError>> {
        let CommandContext { session, services, source } = self;
        // If the session is already subscribed, nothing changes and the backend is not called.
        let needs_hook = !services.sessions.is_subscribed(session, name.as_str());
        let Some(backend) = services.backend_for(HookKind::Subscribe).filter(|_| needs_hook) else {
            let subscribed = services.sessions.subscribe(session, source, name, begin);
            return subscribed.map(|subscribed| subscribed.map_err(CommandError::from));
        };
        let request = HookRequest { channel: Some(name.as_str()), ..HookRequest::default() };
        let response = self.call_hook(backend, HookKind::Subscribe, request);
        let (sessions, session) = (Arc::clone(&services.sessions), services.sessions.clone_handle(session));
        let (name, begin) = (name.clone(), begin.clone().into_owned());
        let max_name_bytes = services.settings.channel_name_bytes;
        let joined = async move {
            let channel = response.await?.channel;
            let name = channel.map_or(Ok(name), |channel| ChannelName::new(&channel, max_name_bytes));
            let name = name.map_err(|error| invalid_answer(&error))?;
            Ok(sessions.subscribe(&session, source, &name, &begin).into_future().await?)
        };
        EngineResponse::Pending(joined.boxed())
    }

    /// Publishes a message if the backend allows it. The backend may change the channel and the data.
    pub(super) fn publish(self, publication: Publication<'_>) -> EngineResponse<CommandOutcome> {
        let CommandContext { session, services, source } = self;
        let Publication { channel, data, key } = publication;
        let (creator, identity) = (session.quota_owner(source), session.identity());
        let user = identity.user().map(Into::into);
        let id = key.map(|key| PublishId { publisher: session.publisher(), key: key.as_str().into() });
        let Some(backend) = services.backend_for(HookKind::Publish) else {
            let content = Content { user, ..data.into() };
            let published = services.logs.engine.append(&channel, &creator, &content, id.as_ref());
            return published.map(|published| Ok(success(published?)));
        };
        let raw = serde_json::from_str(data.as_str()).ok();
        let request = HookRequest { channel: Some(channel.as_str()), data: raw, ..HookRequest::default() };
        let response = self.call_hook(backend, HookKind::Publish, request);
        let engine = Arc::clone(&services.logs.engine);
        let content = Content { user, ..data.into() }.into_owned();
        let max_name_bytes = services.settings.channel_name_bytes;
        let published = async move {
            let HookResponse { channel: other, data: new_data } = response.await?;
            let channel = other.map_or(Ok(channel), |name| ChannelName::for_publish(&name, max_name_bytes));
            let channel = channel.map_err(|error| invalid_answer(&error))?;
            let new_data = new_data.as_deref().map(|data| CompactJson::parse(data.get()));
            let content = match new_data.transpose().map_err(|error| invalid_answer(&error))? {
                Some(data) => Content { data, ..content },
                None => content,
            };
            let published = engine.append(&channel, &creator, &content, id.as_ref()).into_future().await?;
            Ok(success(published))
        };
        EngineResponse::Pending(published.boxed())
    }

    /// Calls a method of the backend.
    pub(super) fn call(self, method: &str, data: &str) -> EngineResponse<CommandOutcome> {
        let Some(backend) = self.services.backend_for(HookKind::Call) else {
            let message = "no backend accepts calls (backend.call)".to_owned();
            return EngineResponse::Ready(Err(CommandError { code: ErrorCode::UnknownCommand, message }));
        };
        if method.is_empty() || method.len() > MAX_METHOD_BYTES {
            let message = format!("a method name must have 1 to {MAX_METHOD_BYTES} bytes");
            return EngineResponse::Ready(Err(CommandError { code: ErrorCode::Malformed, message }));
        }
        let data = serde_json::from_str(data).ok();
        let response = self.call_hook(
            backend,
            HookKind::Call,
            HookRequest { method: Some(method), data, ..HookRequest::default() },
        );
        let called = async move {
            let data = response.await?.data;
            // Make the data compact, because it has to fit on one line of an event stream.
            let data = data.as_deref().map_or(Ok("null".to_owned()), compact)?;
            Ok(Success::Called { data: data.into() })
        };
        EngineResponse::Pending(called.boxed())
    }

    fn call_hook(
        self,
        backend: &Arc<Backend>,
        hook: HookKind,
        request: HookRequest<'_>,
    ) -> BoxFuture<'static, Result<HookResponse, CommandError>> {
        let (id, identity) = (self.session.id(), self.session.identity());
        let request = HookRequest { session: Some(id.to_string()), user: identity.user(), ..request };
        backend
            .call::<HookResponse>(hook, HookCaller::Session(id.number()), &request)
            .map(|answer| answer.map_err(CommandError::from))
            .boxed()
    }
}

impl Services {
    /// Returns the backend, if this hook is enabled.
    pub(super) fn backend_for(&self, hook: HookKind) -> Option<&Arc<Backend>> {
        self.backend.as_ref().filter(|backend| backend.has_hook(hook))
    }
}

fn success(published: crate::channel::Published) -> Success<'static> {
    Success::Published { offset: published.offset, epoch: String::from(published.epoch).into() }
}

/// Removes white space, and checks that the JSON is valid for every parser.
fn compact(data: &RawValue) -> Result<String, CommandError> {
    let compact = CompactJson::parse(data.get()).map_err(|error| invalid_answer(&error))?;
    Ok(compact.as_str().to_owned())
}

/// Returns the error for an unusable response from the backend. The client is not at fault.
fn invalid_answer(error: &dyn Display) -> CommandError {
    let message = format!("invalid answer from the backend: {error}");
    CommandError { code: ErrorCode::Unavailable, message }
}

impl From<HookError> for CommandError {
    fn from(error: HookError) -> Self {
        let message = error.to_string();
        let code = match error {
            HookError::Refused { code: Some(code), .. } => ErrorCode::Backend(code),
            HookError::Refused { code: None, .. } => return forbidden(message),
            HookError::Unavailable => ErrorCode::Unavailable,
            HookError::TimedOut => ErrorCode::Timeout,
            HookError::Overloaded => ErrorCode::Overloaded,
            HookError::TooLarge => ErrorCode::TooLarge,
        };
        Self { code, message }
    }
}
