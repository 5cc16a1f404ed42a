use std::collections::VecDeque;
use std::future::{IntoFuture, Ready};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use encke_core::dialect::json::Json;
use encke_core::dialect::{Dialect, Since};
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Either};

use super::event::Bare;
use super::positions::Positions;
use crate::channel::ChannelName;
use crate::client::{Attachment, unsubscribed};
use crate::session::{NotSubscribed, Subscribed};
use crate::timeouts::Sleep;

type Outcome = Result<Subscribed, NotSubscribed>;

/// A channel that a stream asks for, and what its client has of it.
pub(crate) type Asked = (ChannelName, Option<Since<'static>>);

/// The channels that a stream asked for, one after the other. Only then is it greeted: with the hello, its client gets to know
/// where it is in each of them.
pub(super) struct Following {
    channels: VecDeque<Asked>,
    /// The answer for the first of them, once it was asked for.
    answer: Option<Either<Ready<Outcome>, BoxFuture<'static, Outcome>>>,
    /// They come too fast: none is asked for before this has passed.
    pause: Option<Sleep>,
    /// The session is the one that the client asked for.
    recovered: bool,
    /// Events about channels that it does not get, or may no longer follow.
    refusals: Vec<u8>,
}

/// What a stream is greeted with.
pub(super) struct Greeting {
    pub(super) recovered: bool,
    pub(super) refusals: Vec<u8>,
}

impl Following {
    pub(super) fn new(channels: Vec<Asked>, recovered: bool, revoked: &[ChannelName]) -> Box<Self> {
        let mut following =
            Self { channels: channels.into(), answer: None, pause: None, recovered, refusals: Vec::new() };
        revoked.iter().for_each(|channel| refuse(&mut following.refusals, channel, "forbidden"));
        Box::new(following)
    }

    /// Follows one channel after the other, as the engine answers. Ready when none is left.
    pub(super) fn poll(
        &mut self,
        task: &mut Context<'_>,
        attachment: &Attachment,
        positions: &mut Positions,
    ) -> Poll<Greeting> {
        loop {
            if self.answer.is_none() && !self.channels.is_empty() {
                ready!(self.poll_rate(task, attachment));
            }
            let Some((channel, since)) = self.channels.front_mut() else { break };
            let Attachment { session, link, context, .. } = attachment;
            let answer = self.answer.get_or_insert_with(|| {
                context.sessions.subscribe(session, link, channel, since.as_ref()).into_future()
            });
            let Poll::Ready(outcome) = answer.poll_unpin(task) else { return Poll::Pending };
            match outcome {
                Ok(subscribed) => positions.follow(&subscribed, since.take(), self.recovered),
                Err(error) => {
                    tracing::debug!(%channel, %error, "not subscribed");
                    let reason = if error == NotSubscribed::Forbidden { "forbidden" } else { "limit" };
                    refuse(&mut self.refusals, channel, reason);
                }
            }
            self.answer = None;
            self.channels.pop_front();
        }
        Poll::Ready(Greeting { recovered: self.recovered, refusals: std::mem::take(&mut self.refusals) })
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

fn refuse(refusals: &mut Vec<u8>, channel: &ChannelName, reason: &'static str) {
    Json::default().notify(&unsubscribed(channel, reason), &mut Bare(refusals));
}
