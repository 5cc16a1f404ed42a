//! What a client resumes its session with.

use serde::Deserialize;

use super::Event;

/// The resume token, and the last message received.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ticket {
    pub(crate) token: Box<str>,
    pub(crate) seq: u64,
    /// Of servers with their own ids: the id of the last event.
    pub(crate) last_id: Option<Box<str>>,
}

impl Ticket {
    /// Notes the last message received.
    pub(crate) fn note(&mut self, event: Event<'_>) {
        match event {
            Event::Text(text) => self.seq = seq_of(text).unwrap_or(self.seq),
            Event::Id(id) => self.last_id = (!id.is_empty()).then(|| id.into()),
            Event::Ping(_) | Event::Pong(_) | Event::Held(_) => {}
        }
    }
}

/// The `seq` of a message that has one. Replies and unknown objects have none.
pub(super) fn seq_of(text: &str) -> Option<u64> {
    #[derive(Deserialize)]
    struct Numbered {
        seq: u64,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum Object {
        Message(Numbered),
        Gap(Numbered),
    }
    match serde_json::from_str(text).ok()? {
        Object::Message(Numbered { seq }) | Object::Gap(Numbered { seq }) => Some(seq),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_and_gaps_have_a_seq() {
        assert_eq!(
            seq_of(r#"{"message":{"seq":57,"channel":"news","offset":42,"data":{"seq":1}}}"#),
            Some(57)
        );
        assert_eq!(seq_of(r#"{"gap":{"seq":58,"channel":"news","epoch":"e","from":10,"to":35}}"#), Some(58));
        assert_eq!(seq_of(r#"{"reply":{"id":7,"ok":{}}}"#), None);
        assert_eq!(seq_of(r#"{"news_of_next_year":{"seq":1}}"#), None);
        assert_eq!(seq_of("not JSON"), None);
    }
}
