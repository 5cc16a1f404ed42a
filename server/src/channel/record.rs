//! A log as it is written down, for another process to go on with. See `encke_core`'s session records: the same rules hold.

use minicbor::{Decode, Encode};

/// One log.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub(crate) struct LogRecord {
    /// Told apart from all others since the first process.
    #[n(0)]
    pub(crate) number: u64,
    #[n(1)]
    pub(crate) name: String,
    #[n(2)]
    pub(crate) epoch: String,
    /// Who made it.
    #[n(3)]
    pub(super) maker: String,
    /// The number of the newest message there ever was.
    #[n(4)]
    pub(crate) last: u64,
    /// It is in no table: sessions alone remember it, and what it has, if it has ended because another has taken its place.
    #[n(5)]
    pub(super) retired: bool,
    /// Its newest message when the last that followed it left, if nothing follows it.
    #[n(6)]
    pub(super) left_at: Option<u64>,
    /// Those that are still there, the oldest first.
    #[n(7)]
    pub(super) messages: Vec<MessageRecord>,
    /// Publishes that are known again when they are repeated, the oldest first.
    #[cbor(n(8), default)]
    pub(super) keys: Vec<KeyRecord>,
    /// Its messages are elsewhere, where other processes add to them.
    #[cbor(n(9), default)]
    pub(super) elsewhere: bool,
}

/// A publish that is known again when it is repeated.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(array)]
pub(super) struct KeyRecord {
    /// Whose.
    #[n(0)]
    pub(super) publisher: String,
    #[n(1)]
    pub(super) key: String,
    /// How long ago it was published.
    #[n(2)]
    pub(super) age_ns: u64,
    /// As which message.
    #[n(3)]
    pub(super) offset: u64,
}

/// A message of a log: its own, or one that it shares with others.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(array)]
pub(super) struct MessageRecord {
    /// How long ago it was published.
    #[n(0)]
    pub(super) age_ns: u64,
    /// What was published; nothing if an earlier record has it.
    #[n(1)]
    pub(super) data: Option<String>,
    /// What a message has that is in several logs, where the data is.
    #[n(2)]
    pub(super) shared: Option<SharedRecord>,
    /// The first place of a shared message that an earlier record has.
    #[n(3)]
    pub(super) earlier: Option<(u64, u64)>,
    /// Whose client has published the data.
    #[n(4)]
    pub(super) user: Option<String>,
    /// When, in milliseconds since 1970, if readers are told.
    #[n(5)]
    pub(super) at_ms: Option<u64>,
    /// Whether the data is a session that has gone, rather than come; nothing, if it is what was published.
    #[n(6)]
    pub(super) has_left: Option<bool>,
}

/// What several logs have.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(array)]
pub(super) struct SharedRecord {
    /// Where it was published.
    #[n(0)]
    pub(super) channel: String,
    #[n(1)]
    pub(super) epoch: String,
    #[n(2)]
    pub(super) offset: u64,
    /// Log and offset, its channel's first.
    #[n(3)]
    pub(super) places: Vec<(u64, u64)>,
}

impl LogRecord {
    /// How many messages it still has.
    pub(crate) fn len(&self) -> usize {
        self.messages.len()
    }

    /// Whether its messages are in no file, but where other processes add to them.
    pub(crate) fn is_elsewhere(&self) -> bool {
        self.elsewhere
    }

    /// Whether only sessions remember it.
    pub(crate) fn is_retired(&self) -> bool {
        self.retired
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_of_an_earlier_version_has_no_user_and_no_time_and_is_data() {
        #[derive(Encode)]
        #[cbor(array)]
        struct Before {
            #[n(0)]
            age_ns: u64,
            #[n(1)]
            data: Option<String>,
            #[n(2)]
            shared: Option<SharedRecord>,
            #[n(3)]
            earlier: Option<(u64, u64)>,
        }
        let before = Before { age_ns: 7, data: Some("1".into()), shared: None, earlier: None };
        let bytes = minicbor::to_vec(&before).expect("it can be written");
        let read: MessageRecord = minicbor::decode(&bytes).expect("it can be read");
        let Before { age_ns, data, shared, earlier } = before;
        assert_eq!(
            read,
            MessageRecord { age_ns, data, shared, earlier, user: None, at_ms: None, has_left: None }
        );
    }
}
