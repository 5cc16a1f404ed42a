//! The queue of a lane, and the batches taken from it.

use std::collections::VecDeque;
use std::num::NonZeroU64;

use bytes::Bytes;
use encke_base::locks::Mutex;
use serde::Serialize;

use super::event::WebhookEvent;

/// Maximum number of events in one request.
pub(super) const MAX_BATCH_EVENTS: usize = 100;
/// Maximum total size of reminder data in one request. A single larger reminder is sent by itself.
const MAX_BATCH_DATA_BYTES: usize = 256 * 1024;

/// Pending events of one lane, oldest first. The limit on their number applies to all lanes of a webhook
/// together.
#[derive(Debug, Default)]
pub(super) struct LaneQueue(Mutex<QueuedEvents>);

#[derive(Debug, Default)]
struct QueuedEvents {
    events: VecDeque<WebhookEvent>,
    /// Number of events dropped since the last batch that reported any.
    dropped: u64,
}

impl QueuedEvents {
    fn events_that_fit(&self) -> usize {
        let mut bytes = 0;
        let fitting = self.events.iter().take(MAX_BATCH_EVENTS).take_while(|event| {
            bytes += event.data_bytes();
            bytes <= MAX_BATCH_DATA_BYTES
        });
        fitting.count().max(1).min(self.events.len())
    }
}

/// Content of one request.
#[derive(Debug)]
pub(super) struct EventBatch {
    /// Idempotency key: the same in every attempt.
    pub(super) id: String,
    pub(super) body: Bytes,
    pub(super) events: usize,
    /// Number of dropped events that this batch reports.
    pub(super) dropped: u64,
}

impl LaneQueue {
    /// Appends an event and returns the new length.
    pub(super) fn push(&self, event: WebhookEvent) -> usize {
        let mut queued = self.0.lock();
        queued.events.push_back(event);
        queued.events.len()
    }

    /// Counts dropped events. The next batch reports them.
    pub(super) fn count_dropped(&self, events: u64) {
        self.0.lock().dropped += events;
    }

    pub(super) fn len(&self) -> usize {
        self.0.lock().events.len()
    }

    /// Takes a batch of the oldest events, if there are any.
    pub(super) fn take(&self) -> Option<EventBatch> {
        let (events, dropped) = {
            let mut queued = self.0.lock();
            let size = queued.events_that_fit();
            let events: Vec<_> = queued.events.drain(..size).collect();
            // Free the memory of a backlog that built up during an outage.
            if queued.events.len() < MAX_BATCH_EVENTS {
                queued.events.shrink_to(MAX_BATCH_EVENTS);
            }
            let dropped = if events.is_empty() { 0 } else { std::mem::take(&mut queued.dropped) };
            (events, dropped)
        };
        let first = events.first()?;
        let body = serde_json::to_vec(&BatchBody { events: &events, dropped: NonZeroU64::new(dropped) })
            .expect("all keys are strings");
        Some(EventBatch { id: first.id.to_string(), body: body.into(), events: events.len(), dropped })
    }
}

#[derive(Serialize)]
struct BatchBody<'a> {
    events: &'a [WebhookEvent],
    #[serde(skip_serializing_if = "Option::is_none")]
    dropped: Option<NonZeroU64>,
}

#[cfg(test)]
mod tests {
    use super::super::event::{EventName, EventSubject};
    use serde_json::value::RawValue;

    use encke_broker::channel::ChannelName;
    use encke_timeouts::clock::UnixTime;

    use super::*;

    fn event(number: usize) -> WebhookEvent {
        let channel = ChannelName::new("news", 255).expect("a name");
        WebhookEvent {
            id: format!("run-{number}").into(),
            name: EventName::ChannelOccupied,
            at: UnixTime::from_secs(1_700_000_000),
            subject: EventSubject::Channel(channel),
        }
    }

    #[test]
    fn batches_are_bounded_and_keep_their_order() {
        let queue = LaneQueue::default();
        assert!(queue.take().is_none());
        for number in 0..2 * MAX_BATCH_EVENTS + 1 {
            assert_eq!(queue.push(event(number)), number + 1);
        }
        for (first, events) in
            [(0, MAX_BATCH_EVENTS), (MAX_BATCH_EVENTS, MAX_BATCH_EVENTS), (2 * MAX_BATCH_EVENTS, 1)]
        {
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
    fn dropped_events_are_reported_with_the_next_event() {
        let queue = LaneQueue::default();
        queue.count_dropped(2);
        queue.count_dropped(3);
        assert!(queue.take().is_none(), "no event to report it with");
        queue.push(event(0));
        let batch = queue.take().expect("a batch");
        let expected = r#"{"events":[{"id":"run-0","event":"channel.occupied","channel":"news","at_ms":1700000000000}],"dropped":5}"#;
        assert_eq!((&*batch.body, batch.dropped), (expected.as_bytes(), 5));
        queue.push(event(1));
        let batch = queue.take().expect("a batch");
        assert!(batch.body.ends_with(b"]}"), "the loss is reported once");
    }

    fn reminder(data_bytes: usize) -> WebhookEvent {
        let text = format!("\"{}\"", "x".repeat(data_bytes - 2));
        let data = RawValue::from_string(text).expect("JSON").into();
        WebhookEvent {
            subject: EventSubject::Reminder { key: "k".into(), data },
            name: EventName::ReminderDue,
            ..event(0)
        }
    }

    #[test]
    fn reminder_data_in_a_batch_is_limited_unless_one_reminder_is_larger() {
        let queue = LaneQueue::default();
        for bytes in [
            MAX_BATCH_DATA_BYTES / 2,
            MAX_BATCH_DATA_BYTES / 2,
            2,
            MAX_BATCH_DATA_BYTES + 1,
            MAX_BATCH_DATA_BYTES,
        ] {
            queue.push(reminder(bytes));
        }
        queue.push(event(1));
        let taken: Vec<_> = std::iter::from_fn(|| queue.take().map(|batch| batch.events)).collect();
        assert_eq!(taken, [2, 1, 1, 2]);
    }
}
