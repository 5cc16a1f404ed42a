use std::collections::VecDeque;
use std::future::{IntoFuture, Ready};
use std::task::{Context, Poll};

use encke_core::dialect::json::Json;
use encke_core::dialect::{Dialect, Since};
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Either};

use super::event::Bare;
use super::positions::Positions;
use crate::channel::ChannelName;
use crate::client::{Attachment, unsubscribed};
use crate::session::{NotSubscribed, Subscribed};

type Outcome = Result<Subscribed, NotSubscribed>;

/// A channel that a stream asks for, and what its client has of it.
pub(crate) type Asked = (ChannelName, Option<Since<'static>>);

/// The channels that a stream asked for, one after the other. Only then is it greeted: with the hello, its client gets to know
/// where it is in each of them.
pub(super) struct Following {
    channels: VecDeque<Asked>,
    /// The answer for the first of them, once it was asked for.
    answer: Option<Either<Ready<Outcome>, BoxFuture<'static, Outcome>>>,
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
        let mut following = Self { channels: channels.into(), answer: None, recovered, refusals: Vec::new() };
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
        while let Some((channel, since)) = self.channels.front_mut() {
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
}

fn refuse(refusals: &mut Vec<u8>, channel: &ChannelName, reason: &'static str) {
    Json::default().notify(&unsubscribed(channel, reason), &mut Bare(refusals));
}
