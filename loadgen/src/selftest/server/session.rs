//! A session: the stream of objects that it receives, and the connection that currently owns it.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

use serde_json::Value;
use tokio::sync::watch;

use crate::selftest::delivery::DeliveryFault;
use crate::selftest::fault::Fault;

pub(super) struct FaultySession {
    id: u64,
    fault: Fault,
    subscriptions: RefCell<BTreeSet<String>>,
    /// Objects to send, each with `{seq}` as a placeholder for its seq. The first object has seq 1.
    stream: watch::Sender<Vec<String>>,
    /// Number of messages that the session should have received, including those that the fault affects.
    message_count: Cell<usize>,
    held_back: Cell<Option<String>>,
    /// Number of the connection that owns the session. Connections with lower numbers have been replaced.
    connection: watch::Sender<u64>,
}

impl FaultySession {
    pub(super) fn new(id: u64, fault: Fault) -> Self {
        Self {
            id,
            fault,
            subscriptions: RefCell::default(),
            stream: watch::Sender::default(),
            message_count: Cell::new(0),
            held_back: Cell::default(),
            connection: watch::Sender::default(),
        }
    }

    pub(super) fn id(&self) -> u64 {
        self.id
    }

    pub(super) fn subscribe(&self, channel: &str) {
        self.subscriptions.borrow_mut().insert(channel.to_owned());
    }

    pub(super) fn unsubscribe(&self, channel: &str) {
        self.subscriptions.borrow_mut().remove(channel);
    }

    /// Gives the session to a new connection. The returned receiver is notified when that connection is
    /// replaced.
    pub(super) fn connect(&self) -> watch::Receiver<u64> {
        self.connection.send_modify(|number| *number += 1);
        self.connection.subscribe()
    }

    pub(super) fn last_seq(&self) -> u64 {
        self.stream.borrow().len().checked_sub(1).map_or(0, |last| self.fault.seq_of(last))
    }

    /// Returns a receiver that is notified whenever the stream grows.
    pub(super) fn stream_changes(&self) -> watch::Receiver<Vec<String>> {
        let mut news = self.stream.subscribe();
        news.mark_changed();
        news
    }

    /// Returns the objects from this position on.
    pub(super) fn stream_from(&self, place: usize) -> Vec<String> {
        let stream = self.stream.borrow();
        let rest = stream.iter().enumerate().skip(place);
        rest.map(|(place, object)| object.replacen("{seq}", &self.fault.seq_of(place).to_string(), 1))
            .collect()
    }

    /// Appends a message to the stream, if the session is subscribed to its channel.
    pub(super) fn publish(&self, channel: &str, offset: u64, data: &str) {
        if !self.subscriptions.borrow().contains(channel) {
            return;
        }
        let channel = Value::from(channel);
        let message = |data: &str| {
            format!(r#"{{"message":{{"seq":{{seq}},"channel":{channel},"offset":{offset},"data":{data}}}}}"#)
        };
        let object = message(data);
        let place = self.message_count.replace(self.message_count.get() + 1);
        let delivery = self.fault.delivery(self.id, place);
        let held_back = self.held_back.take();
        self.stream.send_modify(|stream| {
            match delivery {
                DeliveryFault::Sent => stream.push(object),
                DeliveryFault::Lost => {}
                DeliveryFault::Doubled => stream.extend([object.clone(), object]),
                DeliveryFault::HeldBack => self.held_back.set(Some(object)),
                DeliveryFault::Changed => stream.push(message(&change_last_char(data))),
                DeliveryFault::WithForeign => stream.extend([object, message("\"foreign\"")]),
                DeliveryFault::Gap => stream.push(format!(
                    r#"{{"gap":{{"seq":{{seq}},"channel":{channel},"epoch":"e","from":{offset},"to":{offset}}}}}"#
                )),
            }
            stream.extend(held_back);
        });
    }
}

/// Replaces the last character of a JSON string.
fn change_last_char(data: &str) -> String {
    let kept = data.trim_end_matches('"');
    kept.char_indices().last().map_or_else(String::new, |(at, _)| format!("{}~\"", &kept[..at]))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the last objects of the first session's stream after eight messages.
    fn stream(fault: Fault) -> Vec<String> {
        let session = FaultySession::new(0, fault);
        session.subscribe("news");
        for offset in 1..=8 {
            session.publish("news", offset, &format!("\"{}\"", offset - 1));
            session.publish("other", offset, "1");
        }
        session.stream_from(4)
    }

    fn message(seq: u64, offset: u64, data: &str) -> String {
        format!(r#"{{"message":{{"seq":{seq},"channel":"news","offset":{offset},"data":"{data}"}}}}"#)
    }

    #[test]
    fn each_fault_affects_the_sixth_message() {
        let [four, five] = [message(5, 5, "4"), message(6, 6, "5")];
        let rest = |seq| [message(seq, 7, "6"), message(seq + 1, 8, "7")];
        let [six, seven] = rest(7);
        assert_eq!(stream(Fault::None), [&four, &five, &six, &seven].map(Clone::clone));
        let [six, seven] = rest(6);
        assert_eq!(stream(Fault::LosesMessage), [four.clone(), six, seven]);
        let [six, seven] = rest(8);
        assert_eq!(
            stream(Fault::DoublesMessage),
            [four.clone(), five.clone(), message(7, 6, "5"), six.clone(), seven.clone()]
        );
        assert_eq!(
            stream(Fault::MisordersMessages),
            [four.clone(), message(6, 7, "6"), message(7, 6, "5"), message(8, 8, "7")]
        );
        assert_eq!(stream(Fault::ChangesMessage)[1], message(6, 6, "~"));
        assert_eq!(stream(Fault::DeliversForeign)[2], message(7, 6, "foreign"));
        assert_eq!(stream(Fault::SkipsSeq)[..2], [four, message(7, 6, "5")]);
        assert!(stream(Fault::SendsGap)[1].contains(r#""gap":{"seq":6,"#));
    }
}
