//! Replies to `presence`, shared by the clients that ask about a channel at about the same time. Listing the
//! subscribers costs far more than asking for the list.

use std::collections::HashMap;
use std::time::Duration;

use encke_base::locks::Mutex;
use encke_broker::channel::ChannelName;
use encke_broker::engine::EngineResponse;
use encke_core::Timestamp;
use encke_core::dialect::{CommandError, SharedJson};
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared, ready};

/// How long a reply is shared. In the meantime, its phases may be outdated, but not the list of this server's
/// subscribers.
const SHARED_FOR: Duration = Duration::from_millis(10);

/// How long a request for which no reply has arrived is shared. A reply arrives only while a client waits for
/// it.
const PENDING_FOR: Duration = Duration::from_secs(1);

/// Maximum number of replies that are kept. Replies beyond it are not shared.
const MAX_REPLIES: usize = 16;

pub(crate) type PresenceReply = Result<SharedJson, CommandError>;

/// The latest replies, by channel.
#[derive(Default)]
pub(crate) struct PresenceReplies(Mutex<HashMap<ChannelName, RecentReply>>);

struct RecentReply {
    asked_at: Timestamp,
    /// Number of changes to this server's subscribers of the channel before the reply.
    changes: u64,
    reply: Shared<BoxFuture<'static, PresenceReply>>,
}

impl RecentReply {
    /// Whether the reply may still be shared.
    fn is_current(&self, now: Timestamp) -> bool {
        let limit = if self.reply.peek().is_some() { SHARED_FOR } else { PENDING_FOR };
        now.since(self.asked_at) < limit
    }
}

impl PresenceReplies {
    /// Returns the channel's latest reply, or the result of `ask`. `changes` is the number of changes to this
    /// server's subscribers of the channel so far: a client that has just subscribed finds itself in the list.
    pub(crate) fn get_or(
        &self,
        channel: &ChannelName,
        changes: u64,
        now: Timestamp,
        ask: impl FnOnce() -> EngineResponse<PresenceReply>,
    ) -> EngineResponse<PresenceReply> {
        let recent = self.0.lock().get(channel).and_then(|recent| {
            (recent.changes == changes && recent.is_current(now)).then(|| recent.reply.clone())
        });
        let reply = recent.unwrap_or_else(|| {
            let reply = match ask() {
                EngineResponse::Ready(reply) => ready(reply).boxed().shared(),
                EngineResponse::Pending(reply) => reply.shared(),
            };
            // Poll the reply once, because `peek` only returns the result of an earlier poll.
            _ = reply.clone().now_or_never();
            self.insert(channel, RecentReply { asked_at: now, changes, reply: reply.clone() });
            reply
        });
        match reply.peek() {
            Some(reply) => EngineResponse::Ready(reply.clone()),
            None => EngineResponse::Pending(reply.boxed()),
        }
    }

    fn insert(&self, channel: &ChannelName, reply: RecentReply) {
        let now = reply.asked_at;
        let mut replies = self.0.lock();
        if replies.len() >= MAX_REPLIES {
            replies.retain(|_, recent| recent.is_current(now));
        }
        if replies.len() < MAX_REPLIES || replies.contains_key(channel) {
            replies.insert(channel.clone(), reply);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::IntoFuture;

    use encke_core::dialect::Success;
    use tokio::sync::oneshot;

    use super::*;

    fn at(ms: u64) -> Timestamp {
        Timestamp::from_nanos((ms + 1) * 1_000_000)
    }

    fn news() -> ChannelName {
        ChannelName::new("news", 255).expect("a name")
    }

    fn reply() -> PresenceReply {
        Ok(SharedJson::new(&Success::Done))
    }

    #[test]
    fn a_reply_is_shared_until_it_is_outdated() {
        let (replies, mut asked) = (PresenceReplies::default(), 0);
        for (changes, ms, expected) in [(0, 0, 1), (0, 9, 1), (1, 9, 2), (1, 18, 2), (1, 19, 3)] {
            let shared = replies.get_or(&news(), changes, at(ms), || {
                asked += 1;
                EngineResponse::Ready(reply())
            });
            assert!(matches!(shared, EngineResponse::Ready(Ok(_))));
            assert_eq!(asked, expected, "{changes} changes, {ms} ms");
        }
    }

    #[test]
    fn a_pending_request_is_shared() {
        let replies = PresenceReplies::default();
        let (answer, pending) = oneshot::channel();
        let mut pending = Some(pending);
        let mut get = |ms| {
            replies.get_or(&news(), 0, at(ms), || {
                let pending = pending.take().expect("the engine is asked once");
                EngineResponse::Pending(pending.map(|reply| reply.expect("a reply")).boxed())
            })
        };
        let both = [get(0), get(500)];
        // No client waits for the reply.
        let mut is_asked = false;
        replies.get_or(&news(), 0, at(1_500), || {
            is_asked = true;
            EngineResponse::Ready(reply())
        });
        assert!(is_asked);
        answer.send(reply()).expect("the reply is awaited");
        for shared in both {
            assert_eq!(shared.into_future().now_or_never(), Some(reply()));
        }
    }

    #[test]
    fn few_replies_are_kept() {
        let replies = PresenceReplies::default();
        for number in 0..100 {
            let name = ChannelName::new(&format!("room{number}"), 255).expect("a name");
            replies.get_or(&name, 0, at(number), || EngineResponse::Ready(reply()));
        }
        assert!(replies.0.lock().len() <= MAX_REPLIES);
    }
}
