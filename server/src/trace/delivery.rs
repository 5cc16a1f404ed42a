use std::sync::{Arc, Weak};

use encke_core::Timestamp;
use opentelemetry::KeyValue;
use opentelemetry::trace::{SpanKind, Status};
use parking_lot::Mutex;

use super::progress::Progress;
use super::span::{Parent, Span, beginning, number};

/// What becomes of one message from its append on. It is over when all that were attached have the message, or after
/// [a while](super::open::LONGEST).
#[derive(Debug)]
pub(crate) struct Delivery {
    parent: Parent,
    channel: Box<str>,
    /// Locked after all else: for a look.
    state: Mutex<State>,
}

#[derive(Debug)]
enum State {
    /// It is in no log yet.
    Unpublished,
    Open(Open),
    Over,
}

#[derive(Debug)]
struct Open {
    number: u64,
    appended: Timestamp,
    progress: Progress,
    logs: Vec<Weak<dyn TracedLog>>,
}

/// A log that has traced messages.
pub(crate) trait TracedLog: Send + Sync {
    /// This one is over. The log's lock is taken.
    fn forget(&self, delivery: &Arc<Delivery>);
}

impl std::fmt::Debug for dyn TracedLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TracedLog")
    }
}

impl Delivery {
    pub(super) fn new(parent: Parent, channel: &str) -> Self {
        Self { parent, channel: beginning(channel).into(), state: Mutex::new(State::Unpublished) }
    }

    /// The message is in this log, whose lock is held. Returns which of its logs that is; nothing, if too many traces are open.
    pub(super) fn begins_in(
        self: &Arc<Self>,
        number: u64,
        log: Weak<dyn TracedLog>,
        followers: impl Iterator<Item = usize>,
    ) -> Option<usize> {
        let mut state = self.state.lock();
        if matches!(*state, State::Unpublished) {
            let (now, tracer) = (self.parent.now(), &self.parent.tracer);
            *state = match tracer.open(self, now) {
                Some(number) => State::Open(Open {
                    number,
                    appended: now,
                    progress: Progress::default(),
                    logs: Vec::new(),
                }),
                None => State::Over,
            };
        }
        let State::Open(open) = &mut *state else { return None };
        open.logs.push(log);
        Some(open.progress.begins_in(number, followers))
    }

    /// Those that wait for this log's messages were woken. Returns whether that is news: then the caller looks for followers that are absent.
    pub(crate) fn fanned_out(&self, part: usize) -> bool {
        let now = self.parent.now();
        match &mut *self.state.lock() {
            State::Open(open) => open.progress.fanned_out(part, now),
            State::Unpublished | State::Over => false,
        }
    }

    /// Some of those that are still awaited in this log, from this index on.
    pub(crate) fn awaited_from(&self, part: usize, from: usize, at_most: usize) -> Vec<usize> {
        match &*self.state.lock() {
            State::Open(open) => open.progress.awaited_from(part, from).take(at_most).collect(),
            State::Unpublished | State::Over => Vec::new(),
        }
    }

    /// This one has no connection, or follows the log no more.
    pub(crate) fn is_gone(self: &Arc<Self>, part: usize, index: usize) {
        self.change(|progress| {
            progress.is_gone(part, index);
        });
    }

    /// Whoever is absent in one of its logs is no longer awaited.
    pub(crate) fn was_looked_through(self: &Arc<Self>) {
        self.change(Progress::was_looked_through);
    }

    /// Where a session that follows this log is among those that follow the others: each a log and an index there. `index_in` locks nothing.
    pub(super) fn elsewhere(
        &self,
        part: usize,
        index_in: impl Fn(u64) -> Option<usize>,
    ) -> Vec<(usize, usize)> {
        let state = self.state.lock();
        let State::Open(open) = &*state else { return Vec::new() };
        let others = open.progress.logs().enumerate().filter(|(other, _)| *other != part);
        others.filter_map(|(other, log)| Some((other, index_in(log)?))).collect()
    }

    /// The kernel has the whole message for one connection, which is that of these followers: each a log and an index there.
    pub(super) fn written(
        self: &Arc<Self>,
        followers: impl IntoIterator<Item = (usize, usize)>,
        transport: &'static str,
    ) {
        let now = self.parent.now();
        self.change(|progress| progress.written(followers, transport, now));
    }

    /// It has taken too long.
    pub(super) fn give_up(self: &Arc<Self>) {
        let open = std::mem::replace(&mut *self.state.lock(), State::Over);
        if let State::Open(open) = open {
            self.close(open, false);
        }
    }

    /// No lock of a log is held.
    fn change(self: &Arc<Self>, change: impl FnOnce(&mut Progress)) {
        let complete = {
            let mut state = self.state.lock();
            let State::Open(open) = &mut *state else { return };
            change(&mut open.progress);
            if !open.progress.is_complete() {
                return;
            }
            std::mem::replace(&mut *state, State::Over)
        };
        if let State::Open(open) = complete {
            self.close(open, true);
        }
    }

    fn close(self: &Arc<Self>, open: Open, complete: bool) {
        let Open { number, appended, progress, logs } = open;
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
        // What nobody was there for is over with the fan-out.
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
        KeyValue::new("encke.deliver.connections", number(all)),
    ];
    for &(transport, count) in connections {
        attributes.push(KeyValue::new(format!("encke.deliver.connections.{transport}"), number(count)));
    }
    if !complete {
        attributes.push(KeyValue::new("encke.deliver.missing", number(progress.awaited())));
    }
    for (name, at) in [("first", progress.first), ("last", progress.last)] {
        if let Some(at) = at {
            let after = at.since(appended).as_secs_f64();
            attributes.push(KeyValue::new(format!("encke.deliver.{name}_write_seconds"), after));
        }
    }
    attributes
}
