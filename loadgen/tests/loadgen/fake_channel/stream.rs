//! What a session is sent: the log, with what is done to it.

use std::sync::Arc;

use super::{Mischief, Shared};

/// What a session is to have from the log, mischief included.
pub(super) fn to_send(session: usize, shared: &Shared) -> Vec<Object> {
    let log = shared.log.borrow();
    let message = |index: usize| Object::Message { offset: index + 1, data: Arc::clone(&log[index]) };
    let mischief = if session == 0 { shared.mischief } else { Mischief::None };
    let mut objects = Vec::new();
    for index in 0..log.len() {
        match mischief {
            Mischief::Lose(lost) if lost == index => {}
            Mischief::Double(doubled) if doubled == index => objects.extend([message(index), message(index)]),
            Mischief::Swap(first) if first == index => {
                // Both when both are there.
                objects.extend((index + 1 < log.len()).then(|| message(index + 1)));
                objects.extend((index + 1 < log.len()).then(|| message(index)));
            }
            Mischief::Swap(first) if first + 1 == index => {}
            Mischief::Gap(first) if first == index => objects.push(Object::Gap { from: index + 1 }),
            Mischief::Gap(first) if first + 1 == index => {}
            _ => objects.push(message(index)),
        }
    }
    objects
}

/// What a session is sent, but for its seq.
pub(super) enum Object {
    Message { offset: usize, data: Arc<str> },
    Gap { from: usize },
}

impl Object {
    pub(super) fn with_seq(&self, seq: usize) -> String {
        match self {
            Self::Message { offset, data } => format!(
                r#"{{"message":{{"seq":{seq},"channel":"loadgen","offset":{offset},"data":{data}}}}}"#
            ),
            Self::Gap { from } => format!(
                r#"{{"gap":{{"seq":{seq},"channel":"loadgen","epoch":"e","from":{from},"to":{}}}}}"#,
                from + 1
            ),
        }
    }
}
