//! How a connection takes what its session has for it.

use encke_core::dialect::Event;
use encke_core::session::outbox::{Run, WhyEnded};
use encke_core::session::{ConnectionInput, Outbox};

use super::Channel;
use super::cell::{SessionCell, Transport};
use super::link::Link;
use super::sessions::Sessions;
use super::subscriptions::Followed;
use crate::channel::LogMessage;
use crate::trace::Receipts;
#[cfg(feature = "otlp")]
use crate::trace::TakenRun;

/// What a session has sent, and is to send.
pub(crate) type SessionOutbox = Outbox<Followed>;

/// About what one turn of a connection takes before others get theirs.
const BATCH_BYTES: usize = 16 * 1024;

/// The most messages that one channel gives before the next has its turn.
const RUN_MESSAGES: usize = 32;

/// Where a connection writes what it takes, in the form of its transport.
pub(crate) trait Outgoing {
    /// Which that is.
    #[cfg_attr(not(feature = "otlp"), expect(dead_code, reason = "for traces"))]
    const TRANSPORT: Transport;

    /// Bytes written.
    fn len(&self) -> usize;
    /// A message of this channel's log, or of this pattern's, under its seq.
    fn message(&mut self, seq: u64, channel: &Channel, offset: u64, message: &LogMessage);
    /// A gap, its seq, and the last message that it leaves out, if that is known.
    fn gap(&mut self, seq: u64, channel: &Channel, gap: &Event<'_>, last: Option<u64>);
    /// A subscription has begun or ended by the server's will; the last seq before. It has none.
    fn notice(&mut self, sent: u64, notice: &Event<'_>);
}

/// What remains after a connection has taken its share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Backlog {
    /// There is more to take now.
    pub(crate) more: bool,
    /// There is more, but nothing more is sent until something is acknowledged.
    pub(crate) until_acknowledged: bool,
}

impl Backlog {
    /// The client has received something, which may make room for more.
    pub(crate) fn acknowledged(&mut self) {
        self.more |= self.until_acknowledged;
    }
}

impl Sessions {
    /// Takes a share of what is to be sent on a connection, with the receipts for it. Nothing, if the session is no longer attached to it.
    pub(crate) fn take_outgoing(
        &self,
        session: &SessionCell,
        link: &Link,
        out: &mut impl Outgoing,
    ) -> (Backlog, Receipts) {
        let share = Self::with_outbox(session, link, |outbox| take_share(outbox, out));
        let Some(share) = share else { return Default::default() };
        if share.needs_acknowledgement {
            self.handle_connection(session, link.id, ConnectionInput::Sent);
        }
        self.metrics.channels.delivered(share.messages, share.gaps);
        (share.backlog, share.receipts)
    }
}

/// What a connection has taken, and what remains.
#[derive(Debug, Default)]
pub(crate) struct Share {
    pub(crate) messages: u64,
    pub(crate) gaps: u64,
    /// To be handed in once the kernel has it.
    pub(crate) receipts: Receipts,
    pub(crate) backlog: Backlog,
    /// The session's machine is to be told that something was sent.
    pub(crate) needs_acknowledgement: bool,
}

/// Takes a share of what is to be sent. The caller has the session's lock.
// In each transport's own code: apart from it, a delivery takes 7 % more instructions.
#[inline]
pub(crate) fn take_share(outbox: &mut SessionOutbox, out: &mut impl Outgoing) -> Share {
    let Taken { messages, gaps, receipts, waits } = take(outbox, out);
    let more = !waits && outbox.next_turn().is_some();
    let backlog = Backlog { more, until_acknowledged: outbox.is_stopped() };
    Share { messages, gaps, receipts, backlog, needs_acknowledgement: outbox.needs_acknowledgement() }
}

/// What one turn of a connection took.
#[derive(Debug, Default)]
struct Taken {
    messages: u64,
    gaps: u64,
    receipts: Receipts,
    /// For a log that is still to come: nothing is taken before it is there.
    waits: bool,
}

#[inline]
fn take<O: Outgoing>(outbox: &mut SessionOutbox, out: &mut O) -> Taken {
    let mut taken = Taken::default();
    let before = out.len();
    while let Some(turn) = outbox.next_turn() {
        let bytes = out.len() - before;
        let Some(followed) = outbox.channel(turn.slot).filter(|_| bytes < BATCH_BYTES).cloned() else {
            break;
        };
        let mut log = followed.channel.read();
        if log.is_filling() && outbox.needs_log() {
            log.wait(followed.key);
            taken.waits = true;
            break;
        }
        let sizes = log.since(turn.from).take(RUN_MESSAGES).map(|message| message.encodings().size());
        let fitting = fitting(sizes, BATCH_BYTES - bytes);
        let run = outbox.take(turn, log.bounds(), fitting, |offset| log.places(offset));
        match run {
            Run::Messages { seq, offset, count, caught_up } => {
                for (number, message) in (0..).zip(log.since(offset).take(count)) {
                    out.message(seq + number, &followed.channel, offset + number, message);
                }
                taken.messages += count as u64;
                #[cfg(feature = "otlp")]
                {
                    let index = followed.key.index();
                    let run = TakenRun { offset, count, index, transport: O::TRANSPORT.into() };
                    taken.receipts.take(log.traced(), run, |log| index_in(outbox, log));
                }
                if caught_up {
                    log.wait(followed.key);
                }
            }
            Run::Gap { seq, range } => {
                let (channel, epoch) = (followed.channel.name().told(), followed.channel.epoch());
                let gap = Event::Gap { seq, channel, epoch, range };
                out.gap(seq, &followed.channel, &gap, range.map(|(_, last)| last));
                taken.gaps += 1;
            }
            Run::Begun { offset } => {
                let (channel, epoch) = (followed.channel.name().told(), followed.channel.epoch());
                out.notice(outbox.sent(), &Event::Subscribed { channel, epoch, offset });
            }
            Run::Ended(why) => {
                let channel = followed.channel.name().told();
                let reason = match why {
                    WhyEnded::Removed => "removed",
                    WhyEnded::Forbidden => "forbidden",
                };
                out.notice(outbox.sent(), &Event::Unsubscribed { channel, reason });
            }
            Run::CaughtUp => log.wait(followed.key),
            Run::PassedOver | Run::Waits => {}
        }
    }
    taken
}

/// Where the session is among those that follow this log, if it does.
#[cfg(feature = "otlp")]
fn index_in(outbox: &SessionOutbox, log: u64) -> Option<usize> {
    let mut subscriptions = outbox.subscriptions();
    let found = subscriptions.find(|subscription| subscription.channel.channel.number() == log)?;
    Some(found.channel.key.index())
}

/// How many messages of these sizes fit into `budget`, at least one.
fn fitting(sizes: impl Iterator<Item = usize>, budget: usize) -> usize {
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
            assert_eq!(fitting(sizes.iter().copied(), budget), expected, "{sizes:?}");
        }
    }
}
