//! A channel that sessions have followed since an earlier process. What they were sent there and have not acknowledged is in Redis, if it is anywhere, so
//! they read nothing of the channel before Redis has been asked.

use std::sync::Arc;

use super::following::fill;
use super::message::{Entry, Opened, json};
use crate::channel::{Channels, Hold, Life, Refill, Subscriber};

/// Goes on with what Redis has. Returns the log that is to be fed from now on.
pub(super) fn take_up<S: Subscriber>(
    restored: Hold<S>,
    opened: &Opened,
    life: &Life,
    channels: &Arc<Channels<S>>,
) -> Hold<S> {
    let old = restored.channel();
    if old.epoch() == &*opened.epoch {
        channels.refill(old, opened.entries.iter().map(refill), opened.offset);
        channels.filled(old);
        return restored;
    }
    // Another life of the channel, or another place.
    let cut = opened.cut(old.epoch());
    if let Some(cut) = cut.filter(|cut| old.is_fed() && old.last_offset() <= *cut) {
        let same = opened.entries.iter().filter(|entry| entry.offset <= cut);
        channels.refill(old, same.map(refill), cut);
    }
    let Some(new) = channels.succeed(old, life) else { return restored };
    fill(&new, opened, channels);
    channels.filled(old);
    channels.move_subscribers(old, new.channel(), cut);
    new
}

fn refill(entry: &Entry) -> Refill<'_> {
    Refill { offset: entry.offset, age: entry.age, data: entry.data.as_deref().and_then(json) }
}
