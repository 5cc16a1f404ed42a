//! What a lane sends at a time, and the queue that it is taken from.

use std::collections::VecDeque;

use bytes::Bytes;
use parking_lot::Mutex;
use serde::Serialize;

use super::event::Event;

/// Events of one request.
pub(super) const MOST_EVENTS: usize = 100;
/// What the data of reminders takes of one request, unless one reminder has more by itself.
const MOST_DATA_BYTES: usize = 256 * 1024;

/// Events of one lane that wait, oldest first. The webhook bounds those of all its lanes together.
#[derive(Debug, Default)]
pub(super) struct Queue(Mutex<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    events: VecDeque<Event>,
    /// Those that are lost, and the backend was not told of.
    dropped: u64,
}

impl Waiting {
    fn events_that_fit(&self) -> usize {
        let mut bytes = 0;
        let fitting = self.events.iter().take(MOST_EVENTS).take_while(|event| {
            bytes += event.data_bytes();
            bytes <= MOST_DATA_BYTES
        });
        fitting.count().max(1).min(self.events.len())
    }
}

/// One request's worth.
#[derive(Debug)]
pub(super) struct Batch {
    /// The same at every try.
    pub(super) id: String,
    pub(super) body: Bytes,
    pub(super) events: usize,
    /// It tells that so many were dropped before.
    pub(super) dropped: u64,
}

impl Queue {
    /// Returns how many wait now.
    pub(super) fn push(&self, event: Event) -> usize {
        let mut waiting = self.0.lock();
        waiting.events.push_back(event);
        waiting.events.len()
    }

    /// So many events are lost. The next batch tells it.
    pub(super) fn dropped(&self, events: u64) {
        self.0.lock().dropped += events;
    }

    pub(super) fn len(&self) -> usize {
        self.0.lock().events.len()
    }

    /// Takes the oldest events, if there are any.
    pub(super) fn take(&self) -> Option<Batch> {
        let (events, dropped) = {
            let mut waiting = self.0.lock();
            let size = waiting.events_that_fit();
            let events: Vec<_> = waiting.events.drain(..size).collect();
            // What has piled up while the backend was away is not to stay.
            if waiting.events.len() < MOST_EVENTS {
                waiting.events.shrink_to(MOST_EVENTS);
            }
            let dropped = if events.is_empty() { 0 } else { std::mem::take(&mut waiting.dropped) };
            (events, dropped)
        };
        let first = events.first()?;
        let body = serde_json::to_vec(&Body { events: &events, dropped }).expect("its keys are text");
        Some(Batch { id: first.id.to_string(), body: body.into(), events: events.len(), dropped })
    }
}

#[derive(Serialize)]
struct Body<'a> {
    events: &'a [Event],
    #[serde(skip_serializing_if = "is_zero")]
    dropped: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

#[cfg(test)]
mod tests {
    use super::super::event::{EventName, Subject};
    use serde_json::value::RawValue;

    use super::*;
    use crate::channel::ChannelName;
    use crate::clock::UnixTime;

    fn event(number: usize) -> Event {
        let channel = ChannelName::new("news", 255).expect("a name");
        Event {
            id: format!("run-{number}").into(),
            name: EventName::ChannelOccupied,
            at: UnixTime::from_secs(1_700_000_000),
            subject: Subject::Channel(channel),
        }
    }

    #[test]
    fn batches_are_bounded_and_keep_their_order() {
        let queue = Queue::default();
        assert!(queue.take().is_none());
        for number in 0..2 * MOST_EVENTS + 1 {
            assert_eq!(queue.push(event(number)), number + 1);
        }
        for (first, events) in [(0, MOST_EVENTS), (MOST_EVENTS, MOST_EVENTS), (2 * MOST_EVENTS, 1)] {
            let batch = queue.take().expect("a batch");
            assert_eq!((batch.id, batch.events), (format!("run-{first}"), events));
            let body: serde_json::Value = serde_json::from_slice(&batch.body).expect("JSON");
            let ids = body["events"].as_array().expect("events").iter().map(|event| event["id"].clone());
            let expected = (first..first + events).map(|number| format!("run-{number}").into());
            assert!(ids.eq(expected.collect::<Vec<serde_json::Value>>()));
        }
        assert!(queue.take().is_none());
    }

    #[test]
    fn what_was_dropped_is_told_with_the_next_event() {
        let queue = Queue::default();
        queue.dropped(2);
        queue.dropped(3);
        assert!(queue.take().is_none(), "there is nothing to tell it with");
        queue.push(event(0));
        let batch = queue.take().expect("a batch");
        let expected = r#"{"events":[{"id":"run-0","event":"channel.occupied","channel":"news","at_ms":1700000000000}],"dropped":5}"#;
        assert_eq!((&*batch.body, batch.dropped), (expected.as_bytes(), 5));
        queue.push(event(1));
        let batch = queue.take().expect("a batch");
        assert!(batch.body.ends_with(b"]}"), "it is told once");
    }

    fn reminder(data_bytes: usize) -> Event {
        let text = format!("\"{}\"", "x".repeat(data_bytes - 2));
        let data = RawValue::from_string(text).expect("JSON").into();
        Event {
            subject: Subject::Reminder { key: "k".into(), data },
            name: EventName::ReminderDue,
            ..event(0)
        }
    }

    #[test]
    fn a_batch_has_only_so_much_data_of_reminders_unless_one_has_more() {
        let queue = Queue::default();
        for bytes in [MOST_DATA_BYTES / 2, MOST_DATA_BYTES / 2, 2, MOST_DATA_BYTES + 1, MOST_DATA_BYTES] {
            queue.push(reminder(bytes));
        }
        queue.push(event(1));
        let taken: Vec<_> = std::iter::from_fn(|| queue.take().map(|batch| batch.events)).collect();
        assert_eq!(taken, [2, 1, 1, 2]);
    }
}
