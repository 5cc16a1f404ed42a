//! Serialized logs, which one process passes to the next. The compatibility rules of `encke_core`'s session
//! records apply.

use minicbor::{Decode, Encode};

/// A serialized log.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct LogRecord {
    /// Unique among all logs since the first process.
    #[n(0)]
    pub number: u64,
    #[n(1)]
    pub name: String,
    #[n(2)]
    pub epoch: String,
    /// Textual form of the creator.
    #[n(3)]
    pub(super) creator: String,
    /// Offset of the newest message ever appended.
    #[n(4)]
    pub last: u64,
    /// Whether the log is no longer in the channel table, because another log has replaced it. Only sessions
    /// refer to it and its messages.
    #[n(5)]
    pub(super) retired: bool,
    /// Offset of the newest message at the time the last subscriber left; `None` while the log has
    /// subscribers.
    #[n(6)]
    pub(super) left_at: Option<u64>,
    /// Messages still in the log, oldest first.
    #[n(7)]
    pub(super) messages: Vec<MessageRecord>,
    /// Known publish ids, oldest first, for detecting repeated publishes.
    #[cbor(n(8), default)]
    pub(super) keys: Vec<KeyRecord>,
    /// Whether the engine holds the messages, so that other processes may append to them.
    #[cbor(n(9), default)]
    pub(super) is_remote: bool,
    /// Earlier epochs that the log continues, each with the offset of its last message that is still valid.
    #[cbor(n(10), default)]
    pub(super) past: Vec<(String, u64)>,
}

/// Position of a removed channel, at which the channel continues if it is created again.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(array)]
pub struct PositionRecord {
    #[n(0)]
    pub(super) name_hash: u64,
    #[n(1)]
    pub(super) epoch: String,
    /// Offset of the newest message ever appended.
    #[n(2)]
    pub(super) last: u64,
}

/// A publish id, for detecting repeated publishes.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(array)]
pub(super) struct KeyRecord {
    /// Textual form of the publisher.
    #[n(0)]
    pub(super) publisher: String,
    #[n(1)]
    pub(super) key: String,
    /// Time since the publish.
    #[n(2)]
    pub(super) age_ns: u64,
    /// Offset of the published message.
    #[n(3)]
    pub(super) offset: u64,
}

/// A message of a log, either its own or shared with other logs.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(array)]
pub(super) struct MessageRecord {
    /// Time since the publish.
    #[n(0)]
    pub(super) age_ns: u64,
    /// Published data; `None` if an earlier record contains it.
    #[n(1)]
    pub(super) data: Option<String>,
    /// Origin and positions of a shared message; `None` if an earlier record contains its data.
    #[n(2)]
    pub(super) shared: Option<SharedRecord>,
    /// The first of the `positions` in the earlier record that has the data.
    #[n(3)]
    pub(super) earlier: Option<(u64, u64)>,
    /// User whose client published the message.
    #[n(4)]
    pub(super) user: Option<String>,
    /// Publish time in milliseconds since 1970, if readers receive it.
    #[n(5)]
    pub(super) at_ms: Option<u64>,
    /// For a join or leave message, whether the session left. `None` for published data.
    #[n(6)]
    pub(super) has_left: Option<bool>,
}

/// Origin and positions of a message shared by several logs.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(array)]
pub(super) struct SharedRecord {
    /// Channel to which the message was published.
    #[n(0)]
    pub(super) channel: String,
    #[n(1)]
    pub(super) epoch: String,
    #[n(2)]
    pub(super) offset: u64,
    /// Number and offset in each log, the channel's own log first.
    #[n(3)]
    pub(super) positions: Vec<(u64, u64)>,
}

impl LogRecord {
    /// Number of messages still in the log.
    pub fn len(&self) -> usize {
        self.messages.len()
    }

    /// Whether the messages are held by the engine rather than by the snapshot.
    pub fn is_remote(&self) -> bool {
        self.is_remote
    }

    /// Whether only sessions still refer to this log.
    pub fn is_retired(&self) -> bool {
        self.retired
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_record_of_an_earlier_version_is_decoded() {
        #[derive(Encode)]
        #[cbor(array)]
        struct EarlierRecord {
            #[n(0)]
            age_ns: u64,
            #[n(1)]
            data: Option<String>,
            #[n(2)]
            shared: Option<SharedRecord>,
            #[n(3)]
            earlier: Option<(u64, u64)>,
        }
        let earlier_record = EarlierRecord { age_ns: 7, data: Some("1".into()), shared: None, earlier: None };
        let bytes = minicbor::to_vec(&earlier_record).expect("records can be encoded");
        let read: MessageRecord = minicbor::decode(&bytes).expect("a compatible record");
        let EarlierRecord { age_ns, data, shared, earlier } = earlier_record;
        assert_eq!(
            read,
            MessageRecord { age_ns, data, shared, earlier, user: None, at_ms: None, has_left: None }
        );
    }
}
