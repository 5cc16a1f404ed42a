use std::sync::{Arc, Weak};

use encke_core::Timestamp;
use opentelemetry::KeyValue;
use opentelemetry::trace::{SpanKind, Status};
use parking_lot::Mutex;

use super::progress::Progress;
use super::span::{Parent, Span, count_value, truncated};

/// Delivery of one message, from its append until all sessions that were attached at that time have received
/// it, or until [a time limit](super::open_deliveries::TIME_LIMIT).
#[derive(Debug)]
pub(crate) struct Delivery {
    parent: Parent,
    channel: Box<str>,
    /// Last in the lock order, and held only briefly.
    state: Mutex<DeliveryState>,
}

#[derive(Debug)]
enum DeliveryState {
    /// The message is not in any log yet.
    Unpublished,
    Open(OpenDelivery),
    Over,
}

#[derive(Debug)]
struct OpenDelivery {
    number: u64,
    appended: Timestamp,
    progress: Progress,
    logs: Vec<Weak<dyn TracedLog>>,
}

/// A log that contains traced messages.
pub(crate) trait TracedLog: Send + Sync {
    /// Forgets a delivery that has ended. Takes the log's lock.
    fn forget(&self, delivery: &Arc<Delivery>);
}

impl std::fmt::Debug for dyn TracedLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TracedLog")
    }
}

impl Delivery {
    pub(super) fn new(parent: Parent, channel: &str) -> Self {
        Self { parent, channel: truncated(channel).into(), state: Mutex::new(DeliveryState::Unpublished) }
    }

    /// Records that the message is in this log, whose lock is held. Returns the index of the log among the
    /// delivery's logs, or `None` if too many traces are open.
    pub(super) fn add_log(
        self: &Arc<Self>,
        number: u64,
        log: Weak<dyn TracedLog>,
        subscribers: impl Iterator<Item = usize>,
    ) -> Option<usize> {
        let mut state = self.state.lock();
        if matches!(*state, DeliveryState::Unpublished) {
            let (now, tracer) = (self.parent.now(), &self.parent.tracer);
            *state = match tracer.open(self, now) {
                Some(number) => DeliveryState::Open(OpenDelivery {
                    number,
                    appended: now,
                    progress: Progress::default(),
                    logs: Vec::new(),
                }),
                None => DeliveryState::Over,
            };
        }
        let DeliveryState::Open(open) = &mut *state else { return None };
        open.logs.push(log);
        Some(open.progress.add_log(number, subscribers))
    }

    /// Records that the waiting subscribers of this log have been notified. Returns whether this is the first
    /// time; if so, the caller must look for absent subscribers.
    pub(crate) fn fanned_out(&self, log_index: usize) -> bool {
        let now = self.parent.now();
        match &mut *self.state.lock() {
            DeliveryState::Open(open) => open.progress.fanned_out(log_index, now),
            DeliveryState::Unpublished | DeliveryState::Over => false,
        }
    }

    /// Returns the indices of at most `at_most` subscribers that are still awaited in this log, starting at
    /// `from`.
    pub(crate) fn awaited_from(&self, log_index: usize, from: usize, at_most: usize) -> Vec<usize> {
        match &*self.state.lock() {
            DeliveryState::Open(open) => open.progress.awaited_from(log_index, from).take(at_most).collect(),
            DeliveryState::Unpublished | DeliveryState::Over => Vec::new(),
        }
    }

    /// Records that a subscriber has no connection, or has unsubscribed.
    pub(crate) fn exclude(self: &Arc<Self>, log_index: usize, index: usize) {
        self.change(|progress| {
            progress.exclude(log_index, index);
        });
    }

    /// Records that the absent subscribers of one log have been excluded.
    pub(crate) fn absent_excluded(self: &Arc<Self>) {
        self.change(Progress::absent_excluded);
    }

    /// Returns the session's entries in the message's other logs, each a log and an index in it. `index_in`
    /// maps a log to the session's index, and must not lock anything.
    pub(super) fn in_other_logs(
        &self,
        log_index: usize,
        index_in: impl Fn(u64) -> Option<usize>,
    ) -> Vec<(usize, usize)> {
        let state = self.state.lock();
        let DeliveryState::Open(open) = &*state else { return Vec::new() };
        let others = open.progress.logs().enumerate().filter(|(other, _)| *other != log_index);
        others.filter_map(|(other, log)| Some((other, index_in(log)?))).collect()
    }

    /// Records that the kernel has accepted the whole message for one connection. `subscribers` are the
    /// entries of its session, each a log and an index in it.
    pub(super) fn written(
        self: &Arc<Self>,
        subscribers: impl IntoIterator<Item = (usize, usize)>,
        transport: &'static str,
    ) {
        let now = self.parent.now();
        self.change(|progress| progress.written(subscribers, transport, now));
    }

    /// Ends a delivery that exceeds the time limit.
    pub(super) fn give_up(self: &Arc<Self>) {
        let open = std::mem::replace(&mut *self.state.lock(), DeliveryState::Over);
        if let DeliveryState::Open(open) = open {
            self.close(open, false);
        }
    }

    /// Applies a change, and ends the delivery if it is complete. No lock of a log may be held.
    fn change(self: &Arc<Self>, change: impl FnOnce(&mut Progress)) {
        let complete = {
            let mut state = self.state.lock();
            let DeliveryState::Open(open) = &mut *state else { return };
            change(&mut open.progress);
            if !open.progress.is_complete() {
                return;
            }
            std::mem::replace(&mut *state, DeliveryState::Over)
        };
        if let DeliveryState::Open(open) = complete {
            self.close(open, true);
        }
    }

    fn close(self: &Arc<Self>, open: OpenDelivery, complete: bool) {
        let OpenDelivery { number, appended, progress, logs } = open;
        self.parent.tracer.open.leave(number);
        logs.iter().filter_map(Weak::upgrade).for_each(|log| log.forget(self));
        let now = self.parent.now();
        let span = |name: &'static str, end, attributes| Span {
            name: name.into(),
            kind: SpanKind::Internal,
            start: appended,
            end,
            attributes,
            status: Status::Unset,
        };
        let fanned_out = progress.fanned_out.unwrap_or(now);
        let channel = KeyValue::new("messaging.destination.name", String::from(&*self.channel));
        self.parent.ended(span("fan out", fanned_out, vec![channel.clone()]));
        // Without any recipient, the delivery ends with the fan-out.
        let end = if complete { progress.last.unwrap_or(fanned_out) } else { now };
        let mut attributes = described(&progress, appended, complete);
        attributes.push(channel);
        self.parent.ended(span("deliver", end, attributes));
    }
}

fn described(progress: &Progress, appended: Timestamp, complete: bool) -> Vec<KeyValue> {
    let connections = progress.connections();
    let all = connections.iter().map(|(_, count)| count).sum();
    let mut attributes = vec![
        KeyValue::new("encke.deliver.complete", complete),
        KeyValue::new("encke.deliver.connections", count_value(all)),
    ];
    for &(transport, count) in connections {
        attributes.push(KeyValue::new(format!("encke.deliver.connections.{transport}"), count_value(count)));
    }
    if !complete {
        attributes.push(KeyValue::new("encke.deliver.missing", count_value(progress.awaited())));
    }
    for (name, at) in [("first", progress.first), ("last", progress.last)] {
        if let Some(at) = at {
            let after = at.since(appended).as_secs_f64();
            attributes.push(KeyValue::new(format!("encke.deliver.{name}_write_seconds"), after));
        }
    }
    attributes
}
