//! Pings of our own, and how long their pongs take.

use std::collections::VecDeque;

use tokio::time::Instant;

use crate::record::{Counter, Latency, Recorder};
use crate::result::{Distribution, summed};

/// At most this many pings of a connection wait for their pongs; older ones are given up.
const MAX_WAITING: usize = 64;

/// The pings and pongs of all connections.
#[derive(Debug, Default)]
pub(super) struct Pongs {
    sent: Counter,
    answered: Counter,
    time: Latency,
}

/// The pings of one connection, numbered from 0.
#[derive(Debug, Default)]
pub(super) struct Pings {
    next: u32,
    /// The last ones, those that were not answered: when each was due, and when it was sent.
    waiting: VecDeque<(Instant, Instant)>,
}

impl Pongs {
    pub(super) fn register(&self, recorder: &Recorder) {
        recorder.counters([("pings_sent", &self.sent), ("pongs", &self.answered)]);
        recorder.latency("pong", &self.time);
    }

    /// The payload of the ping that is sent now: its number.
    pub(super) fn ask(&self, pings: &mut Pings, due: Instant) -> [u8; 4] {
        if pings.waiting.len() == MAX_WAITING {
            pings.waiting.pop_front();
        }
        pings.waiting.push_back((due, Instant::now()));
        self.sent.increment();
        let number = pings.next;
        pings.next = number.wrapping_add(1);
        number.to_be_bytes()
    }

    /// A pong answers its ping and all earlier ones: RFC 6455, section 5.5.3. An unsolicited pong is ignored.
    pub(super) fn answer(&self, pings: &mut Pings, payload: &[u8]) {
        let Ok(number) = payload.try_into().map(u32::from_be_bytes) else { return };
        let younger = pings.next.wrapping_sub(number) as usize;
        let Some(older) = pings.waiting.len().checked_sub(younger).filter(|_| younger > 0) else { return };
        let now = Instant::now();
        for (due, sent) in pings.waiting.drain(..=older) {
            self.answered.increment();
            self.time.record(due, sent, now);
        }
    }

    pub(super) fn outcome(&self) -> PongsOutcome {
        PongsOutcome {
            pings_sent: self.sent.get(),
            pongs: self.answered.get(),
            pong_ms: self.time.since_due(),
            pong_from_start_ms: self.time.since_start(),
        }
    }
}

summed! {
    pub(super) struct PongsOutcome {
        pings_sent: u64,
        pongs: u64,
        pong_ms: Distribution,
        pong_from_start_ms: Distribution,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pong_answers_its_ping_and_those_before() {
        let (pongs, mut pings) = (Pongs::default(), Pings::default());
        let payloads: Vec<_> = (0..4).map(|_| pongs.ask(&mut pings, Instant::now())).collect();
        for (payload, answered) in [
            (&payloads[1][..], 2),
            (&payloads[0][..], 2),
            (&[0, 0, 0, 9][..], 2),
            (b"", 2),
            (&payloads[3][..], 4),
            (&payloads[3][..], 4),
        ] {
            pongs.answer(&mut pings, payload);
            assert_eq!(pongs.answered.get(), answered, "{payload:?}");
        }
        assert_eq!(pongs.outcome().pong_ms.number("count"), Ok(4.0));
    }

    #[test]
    fn a_server_that_does_not_answer_costs_no_more_than_so_much() {
        let (pongs, mut pings) = (Pongs::default(), Pings::default());
        let mut last = [0; 4];
        for _ in 0..MAX_WAITING * 3 {
            last = pongs.ask(&mut pings, Instant::now());
        }
        assert_eq!(pings.waiting.len(), MAX_WAITING);
        pongs.answer(&mut pings, &last);
        assert_eq!(pongs.answered.get(), MAX_WAITING as u64);
    }
}
