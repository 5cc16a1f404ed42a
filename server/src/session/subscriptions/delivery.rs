//! How a connection takes messages from its session.

use std::time::Duration;

use encke_broker::channel::LogMessage;
use encke_core::Timestamp;
use encke_core::dialect::ServerEvent;
use encke_core::session::outbox::{EndReason, TurnOutcome};
use encke_timeouts::clock::Clock;

use super::subscribe::Subscriptions;
use crate::session::channels::{Channel, SessionOutbox};

/// Approximate maximum size of one batch of a connection, after which other connections get a turn.
const BATCH_BYTES: usize = 16 * 1024;

/// Maximum number of messages taken from one channel before the next channel gets a turn.
const RUN_MESSAGES: usize = 32;

/// Writes outgoing messages in the format of a transport.
pub(crate) trait DeliveryWriter {
    /// Returns the number of bytes written.
    fn len(&self) -> usize;
    /// Writes a message of this channel or pattern.
    fn message(&mut self, seq: u64, channel: &Channel, offset: u64, message: &LogMessage);
    /// Writes a gap. `last` is the offset of the last missing message, if known.
    fn gap(&mut self, seq: u64, channel: &Channel, gap: &ServerEvent<'_>, last: Option<u64>);
    /// Writes a notice of a subscription that the server began or ended. A notice has no seq; `sent` is the
    /// last seq that was sent.
    fn notice(&mut self, sent: u64, notice: &ServerEvent<'_>);
}

/// Work that remains after a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Backlog {
    /// Whether more can be sent now.
    pub(crate) has_more: bool,
    /// Whether there is more to send once the client acknowledges something.
    pub(crate) awaits_ack: bool,
}

impl Backlog {
    /// Records an acknowledgement from the client, which may make room for more messages.
    pub(crate) fn acknowledged(&mut self) {
        self.has_more |= self.awaits_ack;
    }
}

/// A batch taken for a connection, and what remains to be sent.
#[derive(Debug, Default)]
pub(crate) struct DeliveryBatch {
    /// When a message of the batch was published, if the time of its delivery is to be measured.
    pub(crate) published_at: Option<Timestamp>,
    pub(crate) backlog: Backlog,
    /// Whether the session's state machine must be notified that something was sent.
    pub(crate) needs_sent_notification: bool,
}

impl DeliveryBatch {
    /// Appends a batch that was taken afterwards.
    pub(crate) fn add(&mut self, batch: Self) {
        let Self { published_at, backlog, needs_sent_notification } = batch;
        self.published_at = published_at.or(self.published_at);
        (self.backlog, self.needs_sent_notification) = (backlog, needs_sent_notification);
    }
}

/// Takes a batch of messages to send. The caller holds the session's lock.
// Inlined into each transport, because a delivery would take 7 % more instructions if this were a separate
// function.
#[inline]
pub(crate) fn take_batch(
    subscriptions: &Subscriptions,
    outbox: &mut SessionOutbox,
    out: &mut impl DeliveryWriter,
) -> DeliveryBatch {
    let BatchContents { messages, gaps, is_waiting_for_log } = take(outbox, out);
    let published_at = match subscriptions.metrics.channels.delivered(messages, gaps) {
        Some(later) => published_at(subscriptions.timeouts.clock(), outbox, later),
        None => None,
    };
    let more = !is_waiting_for_log && outbox.next_turn().is_some();
    let backlog = Backlog { has_more: more, awaits_ack: outbox.is_stopped() };
    outbox.continue_catching_up(more | is_waiting_for_log | backlog.awaits_ack);
    DeliveryBatch { published_at, backlog, needs_sent_notification: outbox.needs_acknowledgement() }
}

/// Returns the publish time of the message that precedes the last `later` messages of the batch just sent.
/// `None` if the delivery must not be measured: a client that is catching up receives messages that were
/// waiting for it.
#[cold]
fn published_at(clock: &Clock, outbox: &SessionOutbox, later: u64) -> Option<Timestamp> {
    if outbox.is_catching_up() {
        return None;
    }
    let (slot, offset) = outbox.message_at(outbox.sent() - later)?;
    let channel = &outbox.channel(slot)?.channel;
    let log = channel.read();
    let (at, message) = log.at(offset)?;
    if !channel.is_remote() {
        return Some(at);
    }
    // Another server may have published it.
    let Some(published_ms) = message.encoded().content().at_ms else { return Some(at) };
    let age = clock.unix_now().as_millis().saturating_sub(published_ms);
    clock.now().before(Duration::from_millis(age))
}

/// Contents of a batch.
#[derive(Debug, Default)]
struct BatchContents {
    messages: u64,
    gaps: u64,
    /// Whether a log is still being loaded. Nothing is taken until it is complete.
    is_waiting_for_log: bool,
}

#[inline]
fn take(outbox: &mut SessionOutbox, out: &mut impl DeliveryWriter) -> BatchContents {
    let mut taken = BatchContents::default();
    let before = out.len();
    while let Some(turn) = outbox.next_turn() {
        let bytes = out.len() - before;
        let Some(subscription) = outbox.channel(turn.slot).filter(|_| bytes < BATCH_BYTES).cloned() else {
            break;
        };
        let mut log = subscription.channel.read();
        if log.is_loading() && outbox.needs_log() {
            log.set_waiting(subscription.key);
            taken.is_waiting_for_log = true;
            break;
        }
        let sizes = log.since(turn.from).take(RUN_MESSAGES).map(|message| message.encoded().size());
        let fitting = count_fitting(sizes, BATCH_BYTES - bytes);
        let run = outbox.take(turn, log.bounds(), fitting, |offset| log.positions(offset));
        match run {
            TurnOutcome::Messages { seq, offset, count, caught_up } => {
                for (number, message) in (0..).zip(log.since(offset).take(count)) {
                    out.message(seq + number, &subscription.channel, offset + number, message);
                }
                taken.messages += count as u64;
                if caught_up {
                    log.set_waiting(subscription.key);
                }
            }
            TurnOutcome::Gap { seq, range } => {
                let (channel, epoch) =
                    (subscription.channel.name().client_name(), subscription.channel.epoch());
                let gap = ServerEvent::Gap { seq, channel, epoch, range };
                out.gap(seq, &subscription.channel, &gap, range.map(|(_, last)| last));
                taken.gaps += 1;
            }
            TurnOutcome::Begun { offset } => {
                let (channel, epoch) =
                    (subscription.channel.name().client_name(), subscription.channel.epoch());
                out.notice(outbox.sent(), &ServerEvent::Subscribed { channel, epoch, offset });
            }
            TurnOutcome::Ended(why) => {
                let channel = subscription.channel.name().client_name();
                let reason = match why {
                    EndReason::Removed => "removed",
                    EndReason::Forbidden => "forbidden",
                };
                out.notice(outbox.sent(), &ServerEvent::Unsubscribed { channel, reason });
            }
            TurnOutcome::CaughtUp => log.set_waiting(subscription.key),
            TurnOutcome::Skipped | TurnOutcome::Blocked => {}
        }
    }
    taken
}

/// Returns how many messages of these sizes fit into `budget` bytes, but at least one.
fn count_fitting(sizes: impl Iterator<Item = usize>, budget: usize) -> usize {
    let mut taken = 0;
    let fit = sizes.take_while(|size| {
        taken += size;
        taken <= budget
    });
    fit.count().max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_least_one_fits() {
        for (sizes, budget, expected) in
            [(&[5, 5, 5][..], 10, 2), (&[5, 5], 10, 2), (&[11], 10, 1), (&[], 10, 1), (&[1, 11], 10, 1)]
        {
            assert_eq!(count_fitting(sizes.iter().copied(), budget), expected, "{sizes:?}");
        }
    }
}
