//! State shared by all connections: sessions and channels.

use std::collections::{BTreeMap, BTreeSet};

use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::watch;

use super::Seen;
use crate::selftest::behaviour::{Behaviour, Delivery};

/// Index of the affected message in the first session's stream.
const AFFECTED_MESSAGE: usize = 5;

#[derive(Debug, Default)]
pub(super) struct ServerState {
    sessions: Mutex<Vec<Session>>,
    /// Last offset of each channel.
    offsets: Mutex<BTreeMap<String, u64>>,
    /// Changes with every message.
    pub(super) published: watch::Sender<()>,
    pub(super) seen: watch::Sender<Seen>,
}

#[derive(Debug, Default)]
struct Session {
    delivery: Option<Delivery>,
    subscriptions: BTreeSet<String>,
    /// Objects to send, each with `{seq}` in place of its seq. The first object has seq 1. An empty object is
    /// not sent.
    stream: Vec<String>,
    /// Number of messages that the session should have received.
    messages: usize,
    held_back: Option<String>,
}

impl ServerState {
    /// Returns the index of a new session.
    pub(super) fn open_session(&self, behaviour: &Behaviour) -> usize {
        let mut sessions = self.sessions.lock();
        let delivery = Some(behaviour.delivery).filter(|_| sessions.is_empty());
        sessions.push(Session { delivery, ..Session::default() });
        sessions.len() - 1
    }

    pub(super) fn subscribe(&self, session: usize, channel: &str) {
        self.sessions.lock()[session].subscriptions.insert(channel.to_owned());
    }

    /// Returns the objects of a session from this position on.
    pub(super) fn stream_from(&self, session: usize, position: usize) -> Vec<String> {
        let stream = &self.sessions.lock()[session].stream;
        let rest = stream.iter().enumerate().skip(position);
        rest.map(|(index, object)| object.replacen("{seq}", &(index + 1).to_string(), 1)).collect()
    }

    pub(super) fn offset_of(&self, channel: &str) -> u64 {
        self.offsets.lock().get(channel).copied().unwrap_or(0)
    }

    /// Delivers a message to all subscribers and returns its offset.
    pub(super) fn publish(&self, channel: &str, data: &str) -> u64 {
        let offset = self.offset_of(channel) + 1;
        self.offsets.lock().insert(channel.to_owned(), offset);
        let subscribers = &mut *self.sessions.lock();
        for session in subscribers.iter_mut().filter(|it| it.subscriptions.contains(channel)) {
            session.receive(channel, offset, data);
        }
        self.published.send_replace(());
        offset
    }
}

impl Session {
    fn receive(&mut self, channel: &str, offset: u64, data: &str) {
        let channel = Value::from(channel);
        let message = |data: &str| {
            format!(r#"{{"message":{{"seq":{{seq}},"channel":{channel},"offset":{offset},"data":{data}}}}}"#)
        };
        let object = message(data);
        let held_back = self.held_back.take();
        let delivery = self.delivery.filter(|_| self.messages == AFFECTED_MESSAGE);
        self.messages += 1;
        match delivery.unwrap_or(Delivery::Sent) {
            Delivery::Sent => self.stream.push(object),
            Delivery::Lost => {}
            Delivery::Doubled => self.stream.extend([object.clone(), object]),
            Delivery::HeldBack => self.held_back = Some(object),
            Delivery::Changed => self.stream.push(message(&change_last_char(data))),
            Delivery::WithForeign => self.stream.extend([object, message("\"foreign\"")]),
            Delivery::Gap => self.stream.push(format!(
                r#"{{"gap":{{"seq":{{seq}},"channel":{channel},"epoch":"e","from":{offset},"to":{offset}}}}}"#
            )),
            Delivery::SeqSkipped => self.stream.extend([String::new(), object]),
        }
        self.stream.extend(held_back);
    }
}

/// Replaces the last character of a JSON string.
fn change_last_char(data: &str) -> String {
    let kept = data.trim_end_matches('"');
    kept.char_indices().last().map_or_else(String::new, |(at, _)| format!("{}~\"", &kept[..at]))
}
