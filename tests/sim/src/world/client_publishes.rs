//! Checks of the publishes of clients: a refused one has no effect, and an accepted one exactly one.

use super::Simulation;
use crate::outcome::Verdict;
use crate::truth::name_of;

/// A message that a client has sent.
#[derive(Clone, Debug)]
pub(super) struct ClientPublish {
    channel: usize,
    /// Epoch of the channel's log when the message was sent.
    epoch: String,
    /// Whether it has appeared in the log of the channel.
    has_appeared: bool,
    /// Whether the reply was a success. `None`: no reply yet.
    is_accepted: Option<bool>,
}

impl Simulation {
    /// Records that a client sends a message to a channel.
    pub(crate) fn client_publishes(&mut self, number: u64, channel: usize) {
        // In Redis, a message may be published although the server reports a failure, and may be lost or
        // appear again after a failover.
        if !self.scenario.redis {
            let epoch = self.truth.log(channel).epoch().to_owned();
            let publish = ClientPublish { channel, epoch, has_appeared: false, is_accepted: None };
            self.client_publishes.insert(number, publish);
        }
    }

    /// Records the reply to a publish.
    pub(crate) fn publish_answered(&mut self, number: u64, is_accepted: bool) {
        let Some(channel) = self.client_publishes.get(&number).map(|publish| publish.channel) else { return };
        // A parked connection may have published the message, without a task.
        self.record_published_with_patterns(channel);
        let log_exists = self.server.channel(name_of(channel)).is_some();
        let Some(publish) = self.client_publishes.get_mut(&number) else { return };
        publish.is_accepted = Some(is_accepted);
        // A channel without subscribers may be removed before the message in its log is observed.
        let must_have_appeared = is_accepted
            && log_exists
            && publish.epoch == self.truth.log(channel).epoch()
            && !self.misses_messages;
        if !publish.has_appeared && must_have_appeared || publish.has_appeared && !is_accepted {
            let what = format!("message {number} was answered: {publish:?}");
            self.violate("publishes", what);
        }
    }

    /// Checks a message that has appeared in the log of a channel.
    pub(super) fn message_appears(&mut self, number: u64, channel: usize) -> Verdict {
        let Some(publish) = self.client_publishes.get_mut(&number) else { return Ok(()) };
        let before = publish.clone();
        publish.has_appeared = true;
        let is_approved = || {
            let backend = self.inputs.backend.0.lock();
            !self.scenario.hooks.publish || backend.has_approved(number, channel)
        };
        let is_right = before.channel == channel
            && !before.has_appeared
            && before.is_accepted != Some(false)
            && is_approved();
        if is_right { Ok(()) } else { Err(format!("message {number} appears in {channel}: {before:?}")) }
    }
}
