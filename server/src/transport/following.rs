use std::collections::VecDeque;
use std::future::{IntoFuture, Ready};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use encke_core::dialect::{Beginning, CommandError, ErrorCode};
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Either};

use crate::channel::ChannelName;
use crate::client::Attachment;
use crate::session::Subscribed;
use crate::timeouts::Sleep;

type Outcome = Result<Subscribed, CommandError>;

/// A channel that a request asks for, and what its client wants of it.
pub(super) type Asked = (ChannelName, Beginning<'static>);

/// The channels that a request asked for, one after the other.
pub(super) struct Following {
    channels: VecDeque<Asked>,
    /// The answer for the first of them, once it was asked for.
    answer: Option<Either<Ready<Outcome>, BoxFuture<'static, Outcome>>>,
    /// They come too fast: none is asked for before this has passed.
    pause: Option<Sleep>,
    refused: Vec<Refused>,
}

/// A channel that the client does not get, or may no longer follow, and why.
pub(super) type Refused = (ChannelName, &'static str);

impl Following {
    /// `revoked` are channels that the client may no longer follow.
    pub(super) fn new(channels: impl IntoIterator<Item = Asked>, revoked: Vec<ChannelName>) -> Box<Self> {
        let refused = revoked.into_iter().map(|channel| (channel, "forbidden")).collect();
        Box::new(Self { channels: channels.into_iter().collect(), answer: None, pause: None, refused })
    }

    /// Follows one channel after the other, as the engine answers, and says so. Ready when none is left, with those that the client
    /// does not get.
    pub(super) fn poll(
        &mut self,
        task: &mut Context<'_>,
        attachment: &Attachment,
        mut followed: impl FnMut(&Subscribed, Beginning<'static>),
    ) -> Poll<Vec<Refused>> {
        loop {
            if self.answer.is_none() && !self.channels.is_empty() {
                ready!(self.poll_rate(task, attachment));
            }
            let Some((channel, begin)) = self.channels.front() else { break };
            let answer = self
                .answer
                .get_or_insert_with(|| attachment.speaker().subscribe(channel, begin).into_future());
            let Poll::Ready(outcome) = answer.poll_unpin(task) else { return Poll::Pending };
            self.answer = None;
            let Some((channel, begin)) = self.channels.pop_front() else { break };
            match outcome {
                Ok(subscribed) => followed(&subscribed, begin),
                Err(error) => {
                    tracing::debug!(%channel, %error, "not subscribed");
                    let reason = match error.code {
                        // The backend's own codes are for its own clients.
                        ErrorCode::Forbidden | ErrorCode::Backend(_) => "forbidden",
                        ErrorCode::Limit => "limit",
                        ErrorCode::Draining => "draining",
                        _ => "unavailable",
                    };
                    self.refused.push((channel, reason));
                }
            }
        }
        Poll::Ready(std::mem::take(&mut self.refused))
    }

    /// Each channel counts as a command of the session and of its user. Nobody would read an error: so it waits.
    fn poll_rate(&mut self, task: &mut Context<'_>, attachment: &Attachment) -> Poll<()> {
        let Attachment { session, context, .. } = attachment;
        let clock = context.timeouts.clock();
        loop {
            if let Some(pause) = &mut self.pause {
                ready!(Pin::new(pause).poll(task));
                self.pause = None;
            }
            let (now, identity) = (clock.now(), session.identity());
            let mut next_at = session.commands.next_at();
            if next_at <= now {
                match identity.user() {
                    Some(user) if !context.user_rates.take(user, now) => {
                        next_at = context.user_rates.next_at(user)
                    }
                    _ => {
                        session.commands.count(1, context.settings.commands_per_second, now);
                        return Poll::Ready(());
                    }
                }
            }
            self.pause = Some(context.timeouts.sleep_until(next_at));
        }
    }
}
