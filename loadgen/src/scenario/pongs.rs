//! Pings that the client sends, and the time until their pongs arrive.

use std::collections::VecDeque;

use tokio::time::Instant;

use crate::record::{Counter, Latency, Metrics};

/// Maximum number of pending pings per connection. Older pings are no longer tracked.
const MAX_PENDING: usize = 64;

#[derive(Debug)]
pub(super) struct Pongs {
    sent: Counter,
    answered: Counter,
    time: Latency,
}

/// Pings of one connection, numbered from 0.
#[derive(Debug, Default)]
pub(super) struct Pings {
    next: u32,
    /// Latest unanswered pings: when each was due, and when it was sent.
    pending: VecDeque<(Instant, Instant)>,
}

impl Pongs {
    pub(super) fn new(metrics: &Metrics) -> Self {
        Self {
            sent: metrics.counter("pings_sent"),
            answered: metrics.counter("pongs"),
            time: metrics.latency("pong"),
        }
    }

    /// Records a ping that is sent now, and returns its payload: the ping's number.
    pub(super) fn next_ping(&self, pings: &mut Pings, due: Instant) -> [u8; 4] {
        if pings.pending.len() == MAX_PENDING {
            pings.pending.pop_front();
        }
        pings.pending.push_back((due, Instant::now()));
        self.sent.increment();
        let number = pings.next;
        pings.next = number.wrapping_add(1);
        number.to_be_bytes()
    }

    /// Records a pong. It answers its ping and all earlier ones (RFC 6455, section 5.5.3). An unsolicited
    /// pong is ignored.
    pub(super) fn record_pong(&self, pings: &mut Pings, payload: &[u8]) {
        let Ok(number) = payload.try_into().map(u32::from_be_bytes) else { return };
        let younger = pings.next.wrapping_sub(number) as usize;
        let Some(older) = pings.pending.len().checked_sub(younger).filter(|_| younger > 0) else { return };
        let now = Instant::now();
        for (due, sent) in pings.pending.drain(..=older) {
            self.answered.increment();
            self.time.record(due, sent, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pong_answers_its_ping_and_earlier_ones() {
        let (pongs, mut pings) = (Pongs::new(&Metrics::new()), Pings::default());
        let payloads: Vec<_> = (0..4).map(|_| pongs.next_ping(&mut pings, Instant::now())).collect();
        for (payload, answered) in [
            (&payloads[1][..], 2),
            (&payloads[0][..], 2),
            (&[0, 0, 0, 9][..], 2),
            (b"", 2),
            (&payloads[3][..], 4),
            (&payloads[3][..], 4),
        ] {
            pongs.record_pong(&mut pings, payload);
            assert_eq!(pongs.answered.get(), answered, "{payload:?}");
        }
    }

    #[test]
    fn pending_pings_are_limited() {
        let (pongs, mut pings) = (Pongs::new(&Metrics::new()), Pings::default());
        let mut last = [0; 4];
        for _ in 0..MAX_PENDING * 3 {
            last = pongs.next_ping(&mut pings, Instant::now());
        }
        assert_eq!(pings.pending.len(), MAX_PENDING);
        pongs.record_pong(&mut pings, &last);
        assert_eq!(pongs.answered.get(), MAX_PENDING as u64);
    }
}
