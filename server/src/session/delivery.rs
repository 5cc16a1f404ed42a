//! How a connection takes what its session is to be sent.

use std::sync::Arc;

use encke_core::dialect::json::Json;
use encke_core::dialect::{Encoded, Event};
use encke_core::session::outbox::Run;
use encke_core::session::{ConnectionInput, Phase};

use super::cell::SessionCell;
use super::link::Link;
use super::store::Sessions;

/// What one turn of a connection takes, about: then others get theirs.
const BATCH_BYTES: usize = 16 * 1024;

/// What one channel gives before the next has its turn, at most.
const RUN_MESSAGES: usize = 32;

/// Where a connection writes what it takes, in its transport's form.
pub(crate) trait Outgoing {
    /// Bytes written.
    fn len(&self) -> usize;
    /// A message under its seq.
    fn message(&mut self, seq: u64, message: &Encoded<Json>);
    /// A gap, and its seq.
    fn gap(&mut self, seq: u64, gap: &Event<'_>);
}

/// What is left after a connection has taken its share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Left {
    /// There is more to take now.
    pub(crate) more: bool,
    /// There is more, but nothing more is sent until something is acknowledged.
    pub(crate) until_acknowledged: bool,
}

impl Sessions {
    /// Takes a share of what is to be sent on a connection. Nothing, if the session is not attached to it any more.
    pub(crate) fn take_outgoing(
        &self,
        session: &Arc<SessionCell>,
        link: &Link,
        out: &mut impl Outgoing,
    ) -> Left {
        let (mut messages, mut gaps) = (0, 0);
        let before = out.len();
        let (left, ask) = {
            let mut state = session.state.lock();
            if state.machine.phase() != Phase::Attached(link.id) {
                return Left::default();
            }
            let outbox = state.machine.outbox_mut();
            while let Some(turn) = outbox.next_turn() {
                let taken = out.len() - before;
                let Some(followed) = outbox.channel(turn.slot).filter(|_| taken < BATCH_BYTES).cloned()
                else {
                    break;
                };
                let mut log = followed.channel.read();
                let sizes = log.since(turn.from).take(RUN_MESSAGES).map(Encoded::size);
                let run = outbox.take(turn, log.bounds(), fitting(sizes, BATCH_BYTES - taken));
                match run {
                    Run::Messages { seq, offset, count, caught_up } => {
                        for (seq, message) in (seq..).zip(log.since(offset).take(count)) {
                            out.message(seq, message);
                        }
                        messages += count as u64;
                        if let Some(key) = followed.key.filter(|_| caught_up) {
                            log.wait(key);
                        }
                    }
                    Run::Gap { seq, range } => {
                        let channel = followed.channel.name().as_str();
                        let epoch = followed.channel.epoch();
                        out.gap(seq, &Event::Gap { seq, channel, epoch, range });
                        gaps += 1;
                    }
                    Run::CaughtUp => {
                        if let Some(key) = followed.key {
                            log.wait(key);
                        }
                    }
                }
            }
            let left = Left { more: outbox.next_turn().is_some(), until_acknowledged: outbox.is_stopped() };
            (left, outbox.needs_acknowledgement())
        };
        self.metrics.delivered(messages, gaps);
        if ask {
            self.handle_connection(session, link, ConnectionInput::Sent);
        }
        left
    }
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
