//! Records which messages the clients received from one channel, and when.

use std::cell::{Cell, RefCell};

use encke_loadgen::{ChannelReader, Received};
use tokio::time::Instant;

pub(crate) const CHANNEL: &str = "bench";

/// Totals over all clients, for the messages with the offsets 1, 2, ...
#[derive(Debug)]
pub(crate) struct SubscriberTotals {
    /// Commands that each client sends after its hello.
    pub(crate) commands: Vec<String>,
    reader: ChannelReader,
    pub(crate) subscribed: Cell<u32>,
    /// Number of messages received, each counted once per client.
    pub(crate) received: Cell<u64>,
    pub(crate) duplicated: Cell<u64>,
    /// Number of messages that arrived for the first time after a later one.
    pub(crate) misordered: Cell<u64>,
    /// Number of texts other than published messages, such as gaps.
    pub(crate) other: Cell<u64>,
    /// When each message last arrived at a client for the first time, indexed by offset - 1.
    last: RefCell<Vec<Option<Instant>>>,
}

/// Offsets that one client received: all below `next` except `missed`.
#[derive(Debug)]
pub(crate) struct SubscriberProgress {
    next: u64,
    missed: Vec<u64>,
}

impl Default for SubscriberProgress {
    fn default() -> Self {
        Self { next: 1, missed: Vec::new() }
    }
}

impl SubscriberTotals {
    /// Creates empty totals for clients that each subscribe to `channels` channels. Messages are published to
    /// the first.
    pub(crate) fn of(messages: u32, channels: u32) -> Self {
        let command = |channel| format!(r#"{{"id":1,"subscribe":{{"channel":"{channel}"}}}}"#);
        let further = (1..channels).map(|number| command(format!("{CHANNEL}-{number}")));
        Self {
            commands: std::iter::once(command(CHANNEL.to_owned())).chain(further).collect(),
            reader: ChannelReader::new(CHANNEL),
            subscribed: Cell::new(0),
            received: Cell::new(0),
            duplicated: Cell::new(0),
            misordered: Cell::new(0),
            other: Cell::new(0),
            last: RefCell::new(vec![None; messages as usize]),
        }
    }

    /// Returns when each message reached the last client, indexed by offset - 1.
    pub(crate) fn last(&self) -> Vec<Option<Instant>> {
        self.last.borrow().clone()
    }

    /// Counts a text that one client received.
    ///
    /// # Errors
    /// The code of the error, if the subscription was rejected.
    pub(crate) fn receive(&self, text: &str, progress: &mut SubscriberProgress) -> Result<(), String> {
        match self.reader.read(text) {
            Received::Message { offset, .. } => self.message(offset, progress),
            Received::Reply(None) => self.subscribed.set(self.subscribed.get() + 1),
            Received::Reply(Some(code)) => return Err(code.into_owned()),
            _ => increment(&self.other),
        }
        Ok(())
    }

    fn message(&self, offset: u64, progress: &mut SubscriberProgress) {
        let mut last = self.last.borrow_mut();
        let index = usize::try_from(offset).ok().and_then(|offset| offset.checked_sub(1));
        let Some(last) = index.and_then(|index| last.get_mut(index)) else {
            return increment(&self.other);
        };
        if offset >= progress.next {
            progress.missed.extend(progress.next..offset);
            progress.next = offset + 1;
        } else if let Some(index) = progress.missed.iter().position(|missed| *missed == offset) {
            progress.missed.swap_remove(index);
            increment(&self.misordered);
        } else {
            return increment(&self.duplicated);
        }
        increment(&self.received);
        *last = Some(Instant::now());
    }
}

fn increment(count: &Cell<u64>) {
    count.set(count.get() + 1);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the counts of received, duplicated, misordered and other texts after messages with these
    /// offsets.
    fn counts(offsets: &[u64]) -> [u64; 4] {
        let (subscribers, mut progress) = (SubscriberTotals::of(5, 1), SubscriberProgress::default());
        for offset in offsets {
            let text = format!(r#"{{"message":{{"seq":7,"channel":"bench","offset":{offset},"data":"x"}}}}"#);
            assert_eq!(subscribers.receive(&text, &mut progress), Ok(()));
        }
        [&subscribers.received, &subscribers.duplicated, &subscribers.misordered, &subscribers.other]
            .map(Cell::get)
    }

    #[test]
    fn messages_are_classified_by_offset() {
        assert_eq!(counts(&[1, 2, 3, 4, 5]), [5, 0, 0, 0]);
        assert_eq!(counts(&[1, 2, 4, 5]), [4, 0, 0, 0]);
        assert_eq!(counts(&[1, 1, 2, 3, 2]), [3, 2, 0, 0]);
        assert_eq!(counts(&[2, 1, 3, 1]), [3, 1, 1, 0]);
        assert_eq!(counts(&[0, 6]), [0, 0, 0, 2]);
    }

    #[test]
    fn subscription_replies_are_recognized() {
        let (subscribers, mut progress) = (SubscriberTotals::of(1, 1), SubscriberProgress::default());
        let mut receive = |text: &str| subscribers.receive(text, &mut progress);
        assert_eq!(receive(r#"{"reply":{"id":1,"ok":{"channel":"bench","epoch":"e","offset":0}}}"#), Ok(()));
        assert_eq!(receive(r#"{"reply":{"id":1,"error":{"code":"x","message":""}}}"#), Err("x".to_owned()));
        assert_eq!(receive(r#"{"gap":{"seq":1,"channel":"bench","epoch":"e"}}"#), Ok(()));
        assert_eq!((subscribers.subscribed.get(), subscribers.other.get()), (1, 1));
    }
}
