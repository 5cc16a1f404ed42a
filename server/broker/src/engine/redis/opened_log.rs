//! Local logs of channels that have been opened.

use std::sync::Arc;

use super::message::OpenedChannel;
use crate::channel::{ChannelGuard, Channels, LogEpoch, Subscriber};

/// Epoch of a new local log for an opened channel.
pub(super) fn initial_epoch(opened: &OpenedChannel) -> LogEpoch {
    let last = opened.entries.first().map_or(opened.offset, |first| first.offset - 1);
    LogEpoch { id: (&*opened.epoch).into(), last, past: opened.past.clone(), is_loading: true }
}

/// Appends the messages found in Redis to the local log, with gaps for those that cannot be retrieved.
/// Messages from `first_new` on are new to the patterns that match the channel; earlier ones have already
/// been appended to the patterns, or were published before the patterns had subscribers. Returns whether any
/// new messages are missing.
pub(super) fn append_opened<S: Subscriber>(
    guard: &ChannelGuard<S>,
    opened: &OpenedChannel,
    first_new: u64,
    channels: &Arc<Channels<S>>,
) -> bool {
    let channel = guard.channel();
    let mut missed = false;
    let mut skip_to = |last| {
        missed |= channel.last_offset() < last && first_new <= last;
        channels.skip_to(channel, last);
    };
    for entry in &opened.entries {
        skip_to(entry.offset - 1);
        match entry.content() {
            Some(content) if entry.offset < first_new => {
                _ = channels.feed_alone(channel, entry.offset, entry.age, &content)
            }
            Some(content) => _ = channels.feed(channel, entry.offset, entry.age, &content),
            None => channels.skip_to(channel, entry.offset),
        }
    }
    skip_to(opened.offset);
    channels.finish_loading(channel);
    missed
}
