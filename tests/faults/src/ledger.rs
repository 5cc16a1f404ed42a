//! Record of the outcome of each message published to a client.
//!
//! Messages are numbered from 1, like the offsets in the log of their channel. A message is *settled* once
//! the client has received it, or a gap that covers it. A gap may cover too much: a message that arrives
//! after it counts as delivered.

use std::time::Duration;

use serde_json::Value;

/// Record of the messages and gaps that one client received from one channel.
#[derive(Debug, Default)]
pub struct Ledger {
    /// Indexed by offset - 1.
    messages: Vec<LedgerEntry>,
    /// Highest offset that was delivered.
    highest: usize,
    /// Number of repeated deliveries.
    pub duplicated: usize,
    /// Number of messages that arrived after a later one.
    pub misordered: usize,
    /// Number of messages that differ from the one published at their offset.
    pub garbled: usize,
    /// Number of gaps received.
    pub gaps: usize,
    /// Number of connections that received a hello.
    pub hellos: usize,
    /// Number of hellos that began a new session.
    pub sessions: usize,
}

/// One message. Times count from the start of the cell.
#[derive(Clone, Copy, Debug)]
struct LedgerEntry {
    published: Duration,
    settled: Option<SettledState>,
}

#[derive(Clone, Copy, Debug)]
enum SettledState {
    Delivered(Duration),
    Covered(Duration),
}

impl SettledState {
    fn at(self) -> Duration {
        match self {
            Self::Delivered(at) | Self::Covered(at) => at,
        }
    }
}

impl Ledger {
    /// Records a published message. Returns its number, counted from 1.
    pub fn publish(&mut self, at: Duration) -> usize {
        self.messages.push(LedgerEntry { published: at, settled: None });
        self.messages.len()
    }

    /// Records an object that the client received from the server. Objects of other kinds are ignored.
    pub fn record(&mut self, at: Duration, object: &Value) {
        if let Some(message) = object.get("message") {
            self.deliver(at, message);
        } else if let Some(gap) = object.get("gap") {
            self.record_gap(at, gap);
        } else if let Some(hello) = object.get("hello") {
            self.hellos += 1;
            self.sessions += usize::from(hello["recovered"] != true);
        }
    }

    fn deliver(&mut self, at: Duration, message: &Value) {
        let offset = number(&message["offset"]).unwrap_or_default();
        if number(&message["data"]["number"]) != Some(offset) || !(1..=self.messages.len()).contains(&offset)
        {
            self.garbled += 1;
            return;
        }
        let known = &mut self.messages[offset - 1];
        if let Some(SettledState::Delivered(_)) = known.settled {
            self.duplicated += 1;
            return;
        }
        known.settled = Some(SettledState::Delivered(at));
        self.misordered += usize::from(offset < self.highest);
        self.highest = self.highest.max(offset);
    }

    /// Records a gap. Without bounds, it covers everything published so far.
    fn record_gap(&mut self, at: Duration, gap: &Value) {
        self.gaps += 1;
        let from = number(&gap["from"]).unwrap_or(1);
        let to = number(&gap["to"]).unwrap_or(usize::MAX);
        for (offset, message) in (1..).zip(&mut self.messages) {
            if (from..=to).contains(&offset) && message.settled.is_none() {
                message.settled = Some(SettledState::Covered(at));
            }
        }
    }

    /// Returns the number of messages published.
    #[must_use]
    pub fn published(&self) -> usize {
        self.messages.len()
    }

    /// Returns the number of messages that the client has received.
    #[must_use]
    pub fn delivered(&self) -> usize {
        self.count(|settled| matches!(settled, Some(SettledState::Delivered(_))))
    }

    /// Returns the number of messages that the client has not received, but that a gap covers.
    #[must_use]
    pub fn covered(&self) -> usize {
        self.count(|settled| matches!(settled, Some(SettledState::Covered(_))))
    }

    /// Returns the number of messages that the client has not received and does not know to be missing.
    #[must_use]
    pub fn missing(&self) -> usize {
        self.count(|settled| settled.is_none())
    }

    /// Returns the number of missing messages that precede a delivered one, and therefore can no longer
    /// arrive.
    #[must_use]
    pub fn lost(&self) -> usize {
        self.messages.iter().take(self.highest).filter(|message| message.settled.is_none()).count()
    }

    fn count(&self, of: impl Fn(Option<SettledState>) -> bool) -> usize {
        self.messages.iter().filter(|message| of(message.settled)).count()
    }

    /// Returns when the last of the messages published up to `instant` was settled, or `None` if one is not
    /// settled.
    #[must_use]
    pub fn settled(&self, instant: Duration) -> Option<Duration> {
        let earlier = self.messages.iter().take_while(|message| message.published <= instant);
        earlier
            .map(|message| message.settled.map(SettledState::at))
            .try_fold(Duration::ZERO, |last, at| Some(last.max(at?)))
    }

    /// Returns the time of the first delivery after `instant`.
    #[must_use]
    pub fn first_after(&self, instant: Duration) -> Option<Duration> {
        self.deliveries().filter(|at| *at > instant).min()
    }

    /// Returns the longest time between deliveries, considering intervals that end after `since`. If a
    /// message is missing, the last interval ends at `now`.
    #[must_use]
    pub fn longest_pause(&self, since: Duration, now: Duration) -> Duration {
        let waiting_until = (self.missing() > 0).then_some(now);
        let mut times: Vec<_> = self.deliveries().chain(waiting_until).collect();
        times.sort_unstable();
        let pauses = times.windows(2).filter(|pair| pair[1] > since).map(|pair| pair[1] - pair[0]);
        pauses.max().unwrap_or_default()
    }

    fn deliveries(&self) -> impl Iterator<Item = Duration> {
        self.messages.iter().filter_map(|message| match message.settled {
            Some(SettledState::Delivered(at)) => Some(at),
            _ => None,
        })
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

    /// Returns a ledger with messages published at second 1, 2, and so on.
    fn published(messages: u64) -> Ledger {
        let mut ledger = Ledger::default();
        for number in 1..=messages {
            assert_eq!(ledger.publish(s(number)), usize::try_from(number).expect("few"));
        }
        ledger
    }

    fn message(offset: u64) -> Value {
        json!({"message": {"seq": offset + 7, "channel": "news", "offset": offset, "data": {"number": offset}}})
    }

    fn record_all(ledger: &mut Ledger, objects: impl IntoIterator<Item = (u64, Value)>) {
        for (at, object) in objects {
            ledger.record(s(at), &object);
        }
    }

    fn counts(ledger: &Ledger) -> [usize; 5] {
        [ledger.delivered(), ledger.covered(), ledger.missing(), ledger.duplicated, ledger.misordered]
    }

    #[test]
    fn messages_received_once_in_order_are_delivered() {
        let mut ledger = published(3);
        record_all(&mut ledger, (1..=3).map(|offset| (offset, message(offset))));
        assert_eq!(counts(&ledger), [3, 0, 0, 0, 0]);
    }

    #[test]
    fn unreceived_messages_are_missing() {
        let mut ledger = published(4);
        record_all(&mut ledger, [(1, message(1)), (3, message(3))]);
        assert_eq!(counts(&ledger), [2, 0, 2, 0, 0]);
        assert_eq!(ledger.lost(), 1, "the last message may still arrive");
        assert_eq!((ledger.settled(s(1)), ledger.settled(s(2))), (Some(s(1)), None));
    }

    #[test]
    fn repeated_messages_are_duplicated_whether_late_or_not() {
        let mut ledger = published(2);
        record_all(&mut ledger, [(1, message(1)), (2, message(1)), (3, message(2)), (4, message(1))]);
        assert_eq!(counts(&ledger), [2, 0, 0, 2, 0]);
        assert_eq!(ledger.settled(s(2)), Some(s(3)), "the first delivery counts");
    }

    #[test]
    fn a_message_after_a_later_one_is_misordered() {
        let mut ledger = published(3);
        record_all(&mut ledger, [(1, message(1)), (2, message(3)), (3, message(2))]);
        assert_eq!(counts(&ledger), [3, 0, 0, 0, 1]);
    }

    #[test]
    fn a_gap_covers_exactly_its_range() {
        let mut ledger = published(6);
        let gap = json!({"gap": {"seq": 9, "channel": "news", "epoch": "e", "from": 2, "to": 4}});
        record_all(&mut ledger, [(1, message(1)), (2, gap), (3, message(6))]);
        assert_eq!((counts(&ledger), ledger.gaps), ([2, 3, 1, 0, 0], 1));
        assert_eq!(ledger.settled(s(4)), Some(s(2)));
    }

    #[test]
    fn a_gap_without_bounds_covers_all_earlier_messages() {
        let mut ledger = published(2);
        let gap = json!({"gap": {"seq": 9, "channel": "news", "epoch": "other"}});
        record_all(&mut ledger, [(1, message(1)), (2, gap)]);
        ledger.publish(s(3));
        assert_eq!(counts(&ledger), [1, 1, 1, 0, 0]);
    }

    #[test]
    fn a_covered_message_may_still_be_delivered() {
        let mut ledger = published(3);
        let gap = json!({"gap": {"seq": 9, "channel": "news", "epoch": "e", "from": 1, "to": 3}});
        record_all(&mut ledger, [(1, message(1)), (2, gap), (3, message(3))]);
        assert_eq!(counts(&ledger), [2, 1, 0, 0, 0]);
    }

    #[test]
    fn unpublished_messages_are_garbled() {
        let mut ledger = published(1);
        let other = json!({"message": {"seq": 1, "channel": "news", "offset": 1, "data": {"number": 2}}});
        record_all(&mut ledger, [(1, message(2)), (2, other), (3, json!({"message": {}}))]);
        assert_eq!((counts(&ledger), ledger.garbled), ([0, 0, 1, 0, 0], 3));
    }

    #[test]
    fn hellos_distinguish_new_and_resumed_sessions() {
        let mut ledger = published(0);
        let hello = |recovered: bool| json!({"hello": {"recovered": recovered}});
        record_all(
            &mut ledger,
            [(1, hello(false)), (2, hello(true)), (3, hello(false)), (4, json!({"reply": {}}))],
        );
        assert_eq!((ledger.hellos, ledger.sessions), (3, 2));
    }

    #[test]
    fn pauses_are_measured_between_deliveries() {
        let mut ledger = published(4);
        record_all(&mut ledger, [(1, message(1)), (9, message(2)), (10, message(3)), (14, message(4))]);
        assert_eq!(ledger.longest_pause(s(0), s(90)), s(8));
        assert_eq!(ledger.longest_pause(s(9), s(90)), s(4), "a pause that ended earlier does not count");
        assert_eq!((ledger.first_after(s(9)), ledger.first_after(s(14))), (Some(s(10)), None));
        ledger.publish(s(15));
        assert_eq!(ledger.longest_pause(s(9), s(90)), s(76), "a message is still missing");
    }
}
