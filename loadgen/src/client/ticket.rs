//! State that a client needs to resume its session.

use serde::Deserialize;

use super::ClientEvent;

/// Resume token, and position of the last message received.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ticket {
    pub(crate) token: Box<str>,
    pub(crate) seq: u64,
    /// Id of the last event, for servers that assign event ids.
    pub(crate) last_id: Option<Box<str>>,
}

impl Ticket {
    /// Records the position of a received message.
    pub(crate) fn note(&mut self, event: ClientEvent<'_>) {
        match event {
            ClientEvent::Text(text) => self.seq = seq_of(text).unwrap_or(self.seq),
            ClientEvent::Id(id) => self.last_id = (!id.is_empty()).then(|| id.into()),
            ClientEvent::Ping(_) | ClientEvent::Pong(_) | ClientEvent::EmptyPoll(_) => {}
        }
    }
}

/// Returns the `seq` of a message or gap. `None` for replies and unknown objects.
pub(super) fn seq_of(text: &str) -> Option<u64> {
    #[derive(Deserialize)]
    struct SeqField {
        seq: u64,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum NumberedObject {
        Message(SeqField),
        Gap(SeqField),
    }
    match serde_json::from_str(text).ok()? {
        NumberedObject::Message(SeqField { seq }) | NumberedObject::Gap(SeqField { seq }) => Some(seq),
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
