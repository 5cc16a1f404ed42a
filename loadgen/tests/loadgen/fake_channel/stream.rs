//! The objects that a session receives: the log, modified by the misbehaviour.

use std::sync::Arc;

use super::{ChannelFault, FakeChannelState};

/// Returns the objects for a session, including any misbehaviour.
pub(super) fn to_send(session: usize, shared: &FakeChannelState) -> Vec<Object> {
    let log = shared.log.borrow();
    let message = |index: usize| Object::Message { offset: index + 1, data: Arc::clone(&log[index]) };
    let fault = if session == 0 { shared.fault } else { ChannelFault::None };
    let mut objects = Vec::new();
    for index in 0..log.len() {
        match fault {
            ChannelFault::Lose(lost) if lost == index => {}
            ChannelFault::Double(doubled) if doubled == index => {
                objects.extend([message(index), message(index)])
            }
            ChannelFault::Swap(first) if first == index => {
                // Send both once both exist.
                objects.extend((index + 1 < log.len()).then(|| message(index + 1)));
                objects.extend((index + 1 < log.len()).then(|| message(index)));
            }
            ChannelFault::Swap(first) if first + 1 == index => {}
            ChannelFault::Gap(first) if first == index => objects.push(Object::Gap { from: index + 1 }),
            ChannelFault::Gap(first) if first + 1 == index => {}
            _ => objects.push(message(index)),
        }
    }
    objects
}

/// Object to send, without its seq.
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
