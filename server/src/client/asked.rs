//! What the backend is asked about the commands of clients. Our own checks have come first; what it has nothing against goes on from there.

use std::fmt::Display;
use std::future::IntoFuture;
use std::sync::Arc;

use encke_core::dialect::{Beginning, CommandError, ErrorCode, PublishKey, Success};
use encke_core::message::{CompactJson, Content};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::value::RawValue;

use super::errors::forbidden;
use super::exchange::Outcome;
use super::{Context, Speaker};
use crate::backend::{Answered, Ask, Asker, Backend, NoAnswer, Question};
use crate::channel::{ChannelName, PublishId};
use crate::engine::Answer;
use crate::session::Subscribed;

/// The longest name of a method, in bytes.
const LONGEST_METHOD: usize = 255;

/// A message of a client, checked.
pub(super) struct Publication<'a> {
    pub(super) channel: ChannelName,
    pub(super) data: CompactJson<'a>,
    pub(super) key: Option<&'a PublishKey<'a>>,
}

impl Speaker<'_> {
    /// Has the client's session follow a channel, if the backend does not mind.
    pub(crate) fn subscribe(
        self,
        name: &ChannelName,
        begin: &Beginning<'_>,
    ) -> Answer<Result<Subscribed, CommandError>> {
        let Speaker { session, context, via } = self;
        // Nothing changes for it, so there is nothing to ask.
        let is_asked = !context.sessions.follows(session, name.as_str());
        let Some(backend) = context.backend_for(Ask::Subscribe).filter(|_| is_asked) else {
            let subscribed = context.sessions.subscribe(session, via, name, begin);
            return subscribed.map(|subscribed| subscribed.map_err(CommandError::from));
        };
        let question = Question { channel: Some(name.as_str()), ..Question::default() };
        let asked = self.ask(backend, Ask::Subscribe, question);
        let (sessions, session) = (Arc::clone(&context.sessions), context.sessions.hold(session));
        let (name, begin) = (name.clone(), begin.clone().into_owned());
        let longest_name = context.settings.channel_name_bytes;
        let joined = async move {
            let channel = asked.await?.channel;
            let name = channel.map_or(Ok(name), |channel| ChannelName::new(&channel, longest_name));
            let name = name.map_err(|error| unusable(&error))?;
            Ok(sessions.subscribe(&session, via, &name, &begin).into_future().await?)
        };
        Answer::Later(joined.boxed())
    }

    /// Publishes, if the backend does not mind, what it makes of it.
    pub(super) fn publish(self, publication: Publication<'_>) -> Answer<Outcome> {
        let Speaker { session, context, via } = self;
        let Publication { channel, data, key } = publication;
        let (maker, identity) = (session.holder(via), session.identity());
        let user = identity.user().map(Into::into);
        let id = key.map(|key| PublishId { publisher: session.publisher(), key: key.as_str().into() });
        let Some(backend) = context.backend_for(Ask::Publish) else {
            let content = Content { user, ..data.into() };
            let published = context.logs.engine.append(&channel, &maker, &content, id.as_ref());
            return published.map(|published| Ok(success(published?)));
        };
        let raw = serde_json::from_str(data.as_str()).ok();
        let question = Question { channel: Some(channel.as_str()), data: raw, ..Question::default() };
        let asked = self.ask(backend, Ask::Publish, question);
        let engine = Arc::clone(&context.logs.engine);
        let content = Content { user, ..data.into() }.into_owned();
        let longest_name = context.settings.channel_name_bytes;
        let published = async move {
            let Answered { channel: other, data: rewritten } = asked.await?;
            let channel = other.map_or(Ok(channel), |name| ChannelName::to_publish(&name, longest_name));
            let channel = channel.map_err(|error| unusable(&error))?;
            let rewritten = rewritten.as_deref().map(|data| CompactJson::parse(data.get()));
            let content = match rewritten.transpose().map_err(|error| unusable(&error))? {
                Some(data) => Content { data, ..content },
                None => content,
            };
            let published = engine.append(&channel, &maker, &content, id.as_ref()).into_future().await?;
            Ok(success(published))
        };
        Answer::Later(published.boxed())
    }

    /// Calls a method of the backend's.
    pub(super) fn call(self, method: &str, data: &str) -> Answer<Outcome> {
        let Some(backend) = self.context.backend_for(Ask::Call) else {
            let message = "there is no backend to be called (backend.call)".to_owned();
            return Answer::Ready(Err(CommandError { code: ErrorCode::UnknownCommand, message }));
        };
        if method.is_empty() || method.len() > LONGEST_METHOD {
            let message = format!("a method's name must have from 1 to {LONGEST_METHOD} bytes");
            return Answer::Ready(Err(CommandError { code: ErrorCode::Malformed, message }));
        }
        let data = serde_json::from_str(data).ok();
        let asked =
            self.ask(backend, Ask::Call, Question { method: Some(method), data, ..Question::default() });
        let called = async move {
            let data = asked.await?.data;
            // It goes into one line of an event stream, too.
            let data = data.as_deref().map_or(Ok("null".to_owned()), compact)?;
            Ok(Success::Called { data: data.into() })
        };
        Answer::Later(called.boxed())
    }

    fn ask(
        self,
        backend: &Arc<Backend>,
        ask: Ask,
        question: Question<'_>,
    ) -> BoxFuture<'static, Result<Answered, CommandError>> {
        let (id, identity) = (self.session.id(), self.session.identity());
        let question = Question { session: Some(id.to_string()), user: identity.user(), ..question };
        backend
            .ask::<Answered>(ask, Asker::Session(id.number()), &question)
            .map(|answer| answer.map_err(CommandError::from))
            .boxed()
    }
}

impl Context {
    /// The backend, if it is asked this.
    pub(super) fn backend_for(&self, ask: Ask) -> Option<&Arc<Backend>> {
        self.backend.as_ref().filter(|backend| backend.is_asked(ask))
    }
}

fn success(published: crate::channel::Published) -> Success<'static> {
    Success::Published { offset: published.offset, epoch: String::from(published.epoch).into() }
}

/// Without white space, and such that every parser takes it.
fn compact(data: &RawValue) -> Result<String, CommandError> {
    let compact = CompactJson::parse(data.get()).map_err(|error| unusable(&error))?;
    Ok(compact.as_str().to_owned())
}

/// It is no fault of the client's.
fn unusable(error: &dyn Display) -> CommandError {
    let message = format!("the backend's answer cannot be used: {error}");
    CommandError { code: ErrorCode::Unavailable, message }
}

impl From<NoAnswer> for CommandError {
    fn from(error: NoAnswer) -> Self {
        let message = error.to_string();
        let code = match error {
            NoAnswer::Refused { code: Some(code), .. } => ErrorCode::Backend(code),
            NoAnswer::Refused { code: None, .. } => return forbidden(message),
            NoAnswer::Unavailable => ErrorCode::Unavailable,
            NoAnswer::TimedOut => ErrorCode::Timeout,
            NoAnswer::Overloaded => ErrorCode::Overloaded,
            NoAnswer::TooLarge => ErrorCode::TooLarge,
        };
        Self { code, message }
    }
}
