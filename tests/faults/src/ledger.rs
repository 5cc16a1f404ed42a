//! Record of the outcome of each message published to a client.
//!
//! Messages are numbered from 1, like the offsets in the log of their channel. A message is *settled* once
//! the client has received it, or a gap that covers it. A gap may cover too much: a message that arrives
//! after it counts as delivered.

use std::time::Duration;

use serde::Serialize;
use serde_json::Value;

/// Record of the messages and gaps that one client received from one channel. Times count from the start of
/// the cell.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    /// Indexed by offset - 1.
    messages: Vec<LedgerEntry>,
    /// Highest offset that was delivered.
    highest: usize,
    /// Counts of what can be counted on arrival.
    counts: LedgerCounts,
}

#[derive(Clone, Copy, Debug)]
struct LedgerEntry {
    published: Duration,
    delivered: Option<Duration>,
    /// When a gap arrived that covers the message.
    covered: Option<Duration>,
}

impl LedgerEntry {
    fn settled(&self) -> Option<Duration> {
        self.delivered.or(self.covered)
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct LedgerCounts {
    pub(crate) published: usize,
    pub(crate) delivered: usize,
    /// Messages that the client has not received, but that a gap covers.
    pub(crate) covered: usize,
    /// Messages that are not settled, although a later one was delivered.
    pub(crate) lost: usize,
    /// Other messages that are not settled, and may still arrive.
    pub(crate) outstanding: usize,
    /// Repeated deliveries.
    pub(crate) duplicated: usize,
    /// Messages that arrived after a later one.
    pub(crate) misordered: usize,
    /// Messages that differ from the one published at their offset.
    pub(crate) garbled: usize,
    pub(crate) gaps: usize,
    /// Connections that received a hello.
    pub(crate) connections: usize,
    /// Hellos that began a new session.
    pub(crate) sessions: usize,
}

impl LedgerCounts {
    pub(crate) fn missing(&self) -> usize {
        self.lost + self.outstanding
    }

    /// Returns whether every message arrived once and in order, or was covered by a gap.
    pub(crate) fn is_exact(&self) -> bool {
        self.missing() + self.duplicated + self.misordered + self.garbled == 0
    }
}

impl Ledger {
    /// Records a published message. Returns its number, counted from 1.
    pub(crate) fn publish(&mut self, at: Duration) -> usize {
        self.messages.push(LedgerEntry { published: at, delivered: None, covered: None });
        self.messages.len()
    }

    /// Records an object that the client received from the server. Objects of other kinds are ignored.
    pub(crate) fn record(&mut self, at: Duration, object: &Value) {
        if let Some(message) = object.get("message") {
            self.deliver(at, message);
        } else if let Some(gap) = object.get("gap") {
            self.record_gap(at, gap);
        } else if let Some(hello) = object.get("hello") {
            self.counts.connections += 1;
            self.counts.sessions += usize::from(hello["recovered"] != true);
        }
    }

    fn deliver(&mut self, at: Duration, message: &Value) {
        let offset = number(&message["offset"]).filter(|offset| *offset > 0);
        let known = offset.and_then(|offset| self.messages.get_mut(offset - 1));
        let (Some(offset), Some(known), true) =
            (offset, known, message["data"]["number"] == message["offset"])
        else {
            self.counts.garbled += 1;
            return;
        };
        if known.delivered.is_some() {
            self.counts.duplicated += 1;
            return;
        }
        known.delivered = Some(at);
        self.counts.misordered += usize::from(offset < self.highest);
        self.highest = self.highest.max(offset);
    }

    /// Records a gap. Without bounds, it covers everything published so far.
    fn record_gap(&mut self, at: Duration, gap: &Value) {
        self.counts.gaps += 1;
        let from = number(&gap["from"]).unwrap_or(1);
        let to = number(&gap["to"]).unwrap_or(usize::MAX);
        let covered = (1..).zip(&mut self.messages).filter(|(offset, _)| (from..=to).contains(offset));
        covered.for_each(|(_, message)| message.covered = message.covered.or(Some(at)));
    }

    pub(crate) fn counts(&self) -> LedgerCounts {
        let count = |messages: &[LedgerEntry], is_counted: fn(&LedgerEntry) -> bool| {
            messages.iter().filter(|message| is_counted(message)).count()
        };
        let (before, after) = self.messages.split_at(self.highest);
        let delivered = count(before, |message| message.delivered.is_some());
        let lost = count(before, |message| message.settled().is_none());
        let outstanding = count(after, |message| message.settled().is_none());
        let published = self.messages.len();
        let covered = published - delivered - lost - outstanding;
        LedgerCounts { published, delivered, covered, lost, outstanding, ..self.counts.clone() }
    }

    /// Returns when the last of the messages published up to `instant` was settled, or `None` if one is not
    /// settled.
    pub(crate) fn settled(&self, instant: Duration) -> Option<Duration> {
        let earlier = self.messages.iter().take_while(|message| message.published <= instant);
        earlier.map(LedgerEntry::settled).try_fold(Duration::ZERO, |last, at| Some(last.max(at?)))
    }

    /// Returns the longest time between deliveries, considering intervals that end after `since`. If a
    /// message is missing, the last interval ends at `now`.
    pub(crate) fn longest_pause(&self, since: Duration, now: Duration) -> Duration {
        let waiting_until = (self.counts().missing() > 0).then_some(now);
        let mut times: Vec<_> = self.deliveries().chain(waiting_until).collect();
        times.sort_unstable();
        let pauses = times.windows(2).filter(|pair| pair[1] > since).map(|pair| pair[1] - pair[0]);
        pauses.max().unwrap_or_default()
    }

    fn deliveries(&self) -> impl Iterator<Item = Duration> {
        self.messages.iter().filter_map(|message| message.delivered)
    }
}

fn number(value: &Value) -> Option<usize> {
    value.as_u64().and_then(|number| usize::try_from(number).ok())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// Returns a ledger with messages published at second 1, 2, and so on, and objects received at the given
    /// seconds.
    fn ledger(messages: u64, objects: &[(u64, Value)]) -> Ledger {
        let mut ledger = Ledger::default();
        for number in 1..=messages {
            ledger.publish(s(number));
        }
        objects.iter().for_each(|(at, object)| ledger.record(s(*at), object));
        ledger
    }

    fn message(offset: u64) -> Value {
        json!({"message": {"seq": offset + 7, "channel": "news", "offset": offset, "data": {"number": offset}}})
    }

    fn gap(from: u64, to: u64) -> Value {
        json!({"gap": {"seq": 9, "channel": "news", "epoch": "e", "from": from, "to": to}})
    }

    #[test]
    fn each_message_is_counted_once() {
        let unbounded = json!({"gap": {"seq": 9, "channel": "news", "epoch": "other"}});
        let other = json!({"message": {"seq": 1, "channel": "news", "offset": 1, "data": {"number": 2}}});
        // Counts: delivered, covered, lost, outstanding, duplicated, misordered, garbled.
        for (messages, objects, expected) in [
            (2, vec![message(1), message(2)], [2, 0, 0, 0, 0, 0, 0]),
            (4, vec![message(1), message(3)], [2, 0, 1, 1, 0, 0, 0]),
            (2, vec![message(1), message(1), message(2), message(1)], [2, 0, 0, 0, 2, 0, 0]),
            (3, vec![message(1), message(3), message(2)], [3, 0, 0, 0, 0, 1, 0]),
            (6, vec![message(1), gap(2, 4), message(6)], [2, 3, 1, 0, 0, 0, 0]),
            (3, vec![message(1), gap(1, 3), message(3)], [2, 1, 0, 0, 0, 0, 0]),
            (2, vec![message(1), unbounded], [1, 1, 0, 0, 0, 0, 0]),
            (1, vec![message(2), other, json!({"message": {}})], [0, 0, 0, 1, 0, 0, 3]),
        ] {
            let timed: Vec<_> = (1..).zip(objects).collect();
            let it = ledger(messages, &timed).counts();
            let settled = [it.delivered, it.covered, it.lost, it.outstanding];
            let wrong = [it.duplicated, it.misordered, it.garbled];
            assert_eq!([&settled[..], &wrong].concat(), expected, "{timed:?}");
        }
    }

    #[test]
    fn hellos_distinguish_new_and_resumed_sessions() {
        let hello = |recovered: bool| json!({"hello": {"recovered": recovered}});
        let counts = ledger(0, &[(1, hello(false)), (2, hello(true)), (4, json!({"reply": {}}))]).counts();
        assert_eq!((counts.connections, counts.sessions), (2, 1));
    }

    #[test]
    fn messages_are_settled_by_their_first_delivery_or_a_gap() {
        let ledger = ledger(5, &[(1, message(1)), (2, message(1)), (3, gap(2, 4)), (4, message(3))]);
        assert_eq!(ledger.settled(s(1)), Some(s(1)));
        assert_eq!((ledger.settled(s(2)), ledger.settled(s(3))), (Some(s(3)), Some(s(4))));
        assert_eq!(ledger.settled(s(5)), None);
    }

    #[test]
    fn pauses_are_measured_between_deliveries() {
        let objects = [(1, message(1)), (9, message(2)), (10, message(3)), (14, message(4))];
        let mut ledger = ledger(4, &objects);
        assert_eq!(ledger.longest_pause(s(0), s(90)), s(8));
        assert_eq!(ledger.longest_pause(s(9), s(90)), s(4), "a pause that ended earlier does not count");
        ledger.publish(s(15));
        assert_eq!(ledger.longest_pause(s(9), s(90)), s(76), "a message is still missing");
    }
}
