//! A channel that sessions have followed since an earlier process. What they were sent there and have not acknowledged is in Redis, if it is anywhere, so
//! they read nothing of the channel before Redis has been asked.

use std::sync::Arc;

use super::following::fill;
use super::message::{Entry, Opened};
use crate::channel::{Channels, Hold, Life, Refill, Subscriber};

/// Goes on with what Redis has. From this message on, all is new to patterns, and comes later, or, into a log of another life, with what is before it. Returns
/// the log that is to be fed from now on, and whether some of what is new is left out.
pub(super) fn take_up<S: Subscriber>(
    restored: Hold<S>,
    opened: &Opened,
    (life, first_new): (Life, u64),
    channels: &Arc<Channels<S>>,
) -> (Hold<S>, bool) {
    let old = restored.channel();
    if old.epoch() == &*opened.epoch {
        let known = opened.entries.iter().filter(|entry| entry.offset < first_new);
        channels.refill(old, known.map(refill), opened.offset.min(first_new - 1));
        channels.filled(old);
        return (restored, false);
    }
    // Another life of the channel, or another place.
    let cut = opened.cut(old.epoch());
    if let Some(cut) = cut.filter(|cut| old.is_fed() && old.last_offset() <= *cut) {
        let same = opened.entries.iter().filter(|entry| entry.offset <= cut);
        channels.refill(old, same.map(refill), cut);
    }
    let Some(new) = channels.succeed(old, &life) else { return (restored, false) };
    let missed = fill(&new, opened, first_new, channels);
    channels.filled(old);
    channels.move_subscribers(old, new.channel(), cut);
    (new, missed)
}

fn refill(entry: &Entry) -> Refill<'_> {
    Refill { offset: entry.offset, age: entry.age, content: entry.content() }
}
