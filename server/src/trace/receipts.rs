use std::sync::Arc;

use super::delivery::Delivery;
use super::traced::Traced;

/// What is to be told once the kernel has what was taken for a connection. A connection that ends before lets them fall.
#[derive(Debug, Default)]
pub(crate) struct Receipts(Option<Box<Taken>>);

#[derive(Debug, Default)]
struct Taken(Vec<Receipt>);

/// For one message and one connection.
#[derive(Debug)]
struct Receipt {
    delivery: Arc<Delivery>,
    /// The log that it was taken from, and the session's index there.
    follower: (usize, usize),
    /// The message's other logs that the session follows.
    elsewhere: Vec<(usize, usize)>,
    transport: &'static str,
}

/// Messages of a log that were taken one after the other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TakenRun {
    /// Of the first.
    pub(crate) offset: u64,
    pub(crate) count: usize,
    /// Of the follower that they are for.
    pub(crate) index: usize,
    pub(crate) transport: &'static str,
}

/// A connection's share holds some 16 KiB of messages; that many receipts at most go with it.
const _: () = assert!(size_of::<Receipts>() == size_of::<usize>());

impl Receipts {
    /// What was taken from a log. `index_in` is where the same session is among those that follow another.
    #[inline]
    pub(crate) fn take(&mut self, traced: &Traced, run: TakenRun, index_in: impl Fn(u64) -> Option<usize>) {
        if !traced.is_empty() {
            self.take_traced(traced, run, index_in);
        }
    }

    #[cold]
    fn take_traced(&mut self, traced: &Traced, run: TakenRun, index_in: impl Fn(u64) -> Option<usize>) {
        let TakenRun { offset, count, index, transport } = run;
        for (part, delivery) in traced.of(offset, count) {
            let elsewhere = delivery.elsewhere(part, &index_in);
            let delivery = Arc::clone(delivery);
            let receipt = Receipt { delivery, follower: (part, index), elsewhere, transport };
            self.0.get_or_insert_default().0.push(receipt);
        }
    }

    /// More was taken.
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

    /// The kernel has it.
    #[inline]
    pub(crate) fn written(&mut self) {
        if self.0.is_some() {
            self.hand_in();
        }
    }

    #[cold]
    fn hand_in(&mut self) {
        if let Some(taken) = self.0.take() {
            for Receipt { delivery, follower, elsewhere, transport } in taken.0 {
                delivery.written(std::iter::once(follower).chain(elsewhere), transport);
            }
        }
    }

    /// Another connection gets it.
    pub(crate) fn forget(&mut self) {
        self.0 = None;
    }
}
