use std::collections::VecDeque;
use std::future::{IntoFuture, Ready};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use encke_broker::channel::ChannelName;
use encke_core::dialect::{CommandError, ErrorCode, StartPosition};
use encke_timeouts::Sleep;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Either};

use crate::client::Attachment;
use crate::commands::subscribe_to;
use crate::session::{CommandSource, SubscribeOutcome};

type SubscribeResult = Result<SubscribeOutcome, CommandError>;

/// A channel that a request asks for, and where its subscription begins.
pub(crate) type RequestedChannel = (ChannelName, StartPosition<'static>);

/// Channels that a request asks for, subscribed to one after the other.
pub(crate) struct PendingSubscriptions {
    channels: VecDeque<RequestedChannel>,
    /// Pending result of subscribing to the first channel, once requested.
    result: Option<Either<Ready<SubscribeResult>, BoxFuture<'static, SubscribeResult>>>,
    /// Pause before the next subscription, set while subscriptions exceed the rate limit.
    pause: Option<Sleep>,
    refused: Vec<RefusedChannel>,
}

/// A channel whose subscription was refused or revoked, and the reason.
pub(crate) type RefusedChannel = (ChannelName, &'static str);

impl PendingSubscriptions {
    /// `revoked` lists the channels that the client may no longer subscribe to.
    pub(crate) fn new(
        channels: impl IntoIterator<Item = RequestedChannel>,
        revoked: Vec<ChannelName>,
    ) -> Box<Self> {
        let refused = revoked.into_iter().map(|channel| (channel, "forbidden")).collect();
        Box::new(Self { channels: channels.into_iter().collect(), result: None, pause: None, refused })
    }

    /// Subscribes to the channels one after the other, each as soon as the engine has replied for the
    /// previous one, and calls `followed` for each success. Once no channel is left, returns the channels
    /// that were refused.
    pub(super) fn poll(
        &mut self,
        task: &mut Context<'_>,
        attachment: &Attachment,
        mut followed: impl FnMut(&ChannelName, &SubscribeOutcome, StartPosition<'static>),
    ) -> Poll<Vec<RefusedChannel>> {
        loop {
            if self.result.is_none() && !self.channels.is_empty() {
                ready!(self.poll_rate(task, attachment));
            }
            let Some((channel, begin)) = self.channels.front() else { break };
            let answer = self
                .result
                .get_or_insert_with(|| subscribe_to(attachment.into(), channel, begin).into_future());
            let Poll::Ready(outcome) = answer.poll_unpin(task) else { return Poll::Pending };
            self.result = None;
            let Some((channel, begin)) = self.channels.pop_front() else { break };
            match outcome {
                Ok(subscribed) => followed(&channel, &subscribed, begin),
                Err(error) => {
                    tracing::debug!(%channel, %error, "subscription refused");
                    let reason = match error.code {
                        // Hide the backend's own error codes, which are meant for the backend's own clients.
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

    /// Waits until the rate limits admit another subscription. Each subscription counts as a command of the
    /// session, and of its user or address. Excess subscriptions are delayed rather than rejected, because no client
    /// would read an error.
    fn poll_rate(&mut self, task: &mut Context<'_>, attachment: &Attachment) -> Poll<()> {
        let Attachment { session, services, mailbox, .. } = attachment;
        let clock = services.timeouts.clock();
        loop {
            if let Some(pause) = &mut self.pause {
                ready!(Pin::new(pause).poll(task));
                self.pause = None;
            }
            let (now, identity) = (clock.now(), session.identity());
            let mut next_at = session.commands.next_at();
            if next_at <= now {
                let (user, address) = (identity.user(), CommandSource::connection(mailbox).address());
                if services.limits.try_count_command(user, address, 1, now) {
                    session.commands.count_input(1, services.settings.commands_per_second, now);
                    return Poll::Ready(());
                }
                next_at = services.limits.next_command_at(user, address);
            }
            self.pause = Some(services.timeouts.sleep_until(next_at));
        }
    }
}
