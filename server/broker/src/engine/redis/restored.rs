//! Channels to which sessions restored from an earlier process subscribe. Messages that were sent to these
//! sessions but not acknowledged exist only in Redis, if at all. Therefore, the sessions cannot read a
//! channel until it has been loaded.

use std::sync::Arc;

use super::message::{LogEntry, OpenedChannel};
use super::opened_log::append_opened;
use crate::channel::{ChannelGuard, Channels, LoadedMessage, LogEpoch, Subscriber};

/// Continues a restored log with the contents in Redis. The caller appends the messages from `first_new` on,
/// which the logs of patterns do not have yet. If the channel has a new epoch, however, this function appends
/// all messages to a new log. Returns the log to feed from now on, and whether it lacks some new messages.
pub(super) fn continue_restored<S: Subscriber>(
    restored: ChannelGuard<S>,
    opened: &OpenedChannel,
    (epoch, first_new): (LogEpoch, u64),
    channels: &Arc<Channels<S>>,
) -> (ChannelGuard<S>, bool) {
    let old = restored.channel();
    if old.epoch() == &*opened.epoch {
        let known = opened.entries.iter().filter(|entry| entry.offset < first_new);
        channels.replace_log(old, known.map(loaded_message), opened.offset.min(first_new - 1));
        channels.finish_loading(old);
        return (restored, false);
    }
    // The channel has a new epoch, or its log was in another engine.
    let cut = opened.cut(old.epoch());
    if let Some(cut) = cut.filter(|cut| old.is_remote() && old.last_offset() <= *cut) {
        let same = opened.entries.iter().filter(|entry| entry.offset <= cut);
        channels.replace_log(old, same.map(loaded_message), cut);
    }
    let Some(new) = channels.replace_channel(old, &epoch) else { return (restored, false) };
    let missed = append_opened(&new, opened, first_new, channels);
    channels.finish_loading(old);
    channels.move_subscribers(old, new.channel(), cut);
    (new, missed)
}

fn loaded_message(entry: &LogEntry) -> LoadedMessage<'_> {
    LoadedMessage { offset: entry.offset, age: entry.age, content: entry.content() }
}
