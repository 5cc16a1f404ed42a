use std::collections::VecDeque;
use std::future::{IntoFuture, Ready};
use std::task::{Context, Poll};

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Either};

use super::event::Events;
use crate::channel::ChannelName;
use crate::client::{Attachment, unsubscribed};
use crate::session::{NotSubscribed, Subscribed};

type Outcome = Result<Subscribed, NotSubscribed>;

/// The channels that a stream asked for and that its session does not follow yet, one after the other.
pub(super) struct Following {
    channels: VecDeque<ChannelName>,
    /// The answer for the first of them, once it was asked for.
    answer: Option<Either<Ready<Outcome>, BoxFuture<'static, Outcome>>>,
}

impl Following {
    pub(super) fn new(channels: Vec<ChannelName>) -> Box<Self> {
        Box::new(Self { channels: channels.into(), answer: None })
    }

    /// Follows one channel after the other, as the engine answers. Ready when none is left. A refusal is an event.
    pub(super) fn poll(
        &mut self,
        task: &mut Context<'_>,
        attachment: &Attachment,
        mut events: Events<'_>,
    ) -> Poll<()> {
        while let Some(channel) = self.channels.front() {
            let Attachment { session, link, context, .. } = attachment;
            let answer = self.answer.get_or_insert_with(|| {
                context.sessions.subscribe(session, link, channel, None).into_future()
            });
            let Poll::Ready(outcome) = answer.poll_unpin(task) else { return Poll::Pending };
            if let Err(error) = outcome {
                tracing::debug!(%channel, %error, "not subscribed");
                let reason = if error == NotSubscribed::Forbidden { "forbidden" } else { "limit" };
                events.plain(&unsubscribed(channel, reason));
            }
            self.answer = None;
            self.channels.pop_front();
        }
        Poll::Ready(())
    }
}
