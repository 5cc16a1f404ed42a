use std::sync::Arc;

use super::delivery::Delivery;
use super::traced::TracedMessages;

/// Trace acknowledgements for taken messages, reported once the kernel has accepted their bytes. If the
/// connection ends earlier, they are dropped.
#[derive(Debug, Default)]
pub(crate) struct Receipts(Option<Box<ReceiptList>>);

#[derive(Debug, Default)]
struct ReceiptList(Vec<Receipt>);

/// Receipt for one message and one connection.
#[derive(Debug)]
struct Receipt {
    delivery: Arc<Delivery>,
    /// The log from which the message was taken, and the session's index in it.
    subscriber: (usize, usize),
    /// Other logs of the message to which the session subscribes, with its index in each.
    in_other_logs: Vec<(usize, usize)>,
    transport: &'static str,
}

/// Consecutive messages taken from a log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TakenRun {
    /// Offset of the first message.
    pub(crate) offset: u64,
    pub(crate) count: usize,
    /// Index of the subscriber in the log.
    pub(crate) index: usize,
    pub(crate) transport: &'static str,
}

// Most connections have no receipts, so an empty `Receipts` must not be larger than a pointer. A connection
// takes at most about 16 KiB of messages at a time, which bounds its receipts.
const _: () = assert!(size_of::<Receipts>() == size_of::<usize>());

impl Receipts {
    /// Records a run taken from a log. `index_in` returns the session's index in another log.
    #[inline]
    pub(crate) fn take(
        &mut self,
        traced: &TracedMessages,
        run: TakenRun,
        index_in: impl Fn(u64) -> Option<usize>,
    ) {
        if !traced.is_empty() {
            self.take_traced(traced, run, index_in);
        }
    }

    #[cold]
    fn take_traced(
        &mut self,
        traced: &TracedMessages,
        run: TakenRun,
        index_in: impl Fn(u64) -> Option<usize>,
    ) {
        let TakenRun { offset, count, index, transport } = run;
        for (log_index, delivery) in traced.of(offset, count) {
            let in_other_logs = delivery.in_other_logs(log_index, &index_in);
            let delivery = Arc::clone(delivery);
            let receipt = Receipt { delivery, subscriber: (log_index, index), in_other_logs, transport };
            self.0.get_or_insert_default().0.push(receipt);
        }
    }

    /// Appends more receipts.
    #[inline]
    pub(crate) fn add(&mut self, more: Self) {
        if more.0.is_some() {
            self.add_some(more);
        }
    }

    #[cold]
    fn add_some(&mut self, more: Self) {
        let Some(more) = more.0 else { return };
        match &mut self.0 {
            Some(taken) => taken.0.extend(more.0),
            none => *none = Some(more),
        }
    }

    /// Reports that the kernel has accepted the bytes.
    #[inline]
    pub(crate) fn written(&mut self) {
        if self.0.is_some() {
            self.redeem();
        }
    }

    #[cold]
    fn redeem(&mut self) {
        if let Some(taken) = self.0.take() {
            for Receipt { delivery, subscriber, in_other_logs, transport } in taken.0 {
                delivery.written(std::iter::once(subscriber).chain(in_other_logs), transport);
            }
        }
    }

    /// Drops the receipts, because another connection gets the messages.
    pub(crate) fn forget(&mut self) {
        self.0 = None;
    }
}
