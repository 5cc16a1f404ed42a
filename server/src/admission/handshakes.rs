//! Sockets that have no session yet. Each costs more than it has shown to be worth, so there is a limit to them; but a crowd that
//! says nothing must keep no client out.

use std::future::poll_fn;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use atomic_waker::AtomicWaker;
use encke_core::Timestamp;
use futures_util::future::select;
use parking_lot::Mutex;
use slab::Slab;

use super::{Holder, Holders, network};
use crate::timeouts::Timeouts;

/// How long a socket may be silent before it can be cut for another. The clients of a storm connect all at once, and have their turn
/// to ask one after the other.
const GRACE: Duration = Duration::from_secs(1);

/// How long at least. This long a crowd that says nothing can keep a newcomer waiting.
const LEAST_GRACE: Duration = Duration::from_millis(10);

/// The sockets in the handshake, at most `limit`. When one too many comes, the oldest of the address with most is cut, once it has had
/// its grace: until then a newcomer waits, or is one too many, if it had been accepted before.
#[derive(Debug)]
pub(crate) struct Handshakes {
    limit: usize,
    /// How long a socket may be silent before it can be cut for another, as long as none were.
    grace: Duration,
    open: Mutex<Open>,
    /// The task that waits for [room](Self::room).
    waiting: AtomicWaker,
}

#[derive(Debug)]
struct Open {
    sockets: Slab<Socket>,
    /// How many there may be now: fewer than the limit, where there were no descriptors for so many.
    limit: usize,
    /// How many of them are cut already, and will be gone soon.
    leaving: usize,
    /// How many were cut since there were few. The more, the less grace is left: a crowd that means to say nothing gains no time by it.
    silent: usize,
    /// The number of the next socket.
    next: u64,
    /// Those that may be cut, by address, while there are many sockets. To keep this all the time would cost every connect.
    crowd: Option<Holders<Arc<Cut>>>,
}

#[derive(Debug)]
struct Socket {
    address: IpAddr,
    number: u64,
    /// Its number in the crowd, if it was counted there.
    counted: Option<u64>,
    cut: Arc<Cut>,
}

/// One socket in the handshake. It counts until this is dropped.
#[derive(Debug)]
pub(crate) struct Handshake {
    handshakes: Arc<Handshakes>,
    place: usize,
    cut: Arc<Cut>,
}

#[derive(Debug)]
struct Cut {
    /// Since when it has been silent.
    since: Timestamp,
    is_due: AtomicBool,
    task: AtomicWaker,
}

impl Handshakes {
    pub(crate) fn new(limit: usize) -> Arc<Self> {
        Self::with_grace(limit, GRACE)
    }

    /// Those of which the oldest gives way at once.
    pub(crate) fn without_grace(limit: usize) -> Arc<Self> {
        Self::with_grace(limit, Duration::ZERO)
    }

    fn with_grace(limit: usize, grace: Duration) -> Arc<Self> {
        let open = Open { sockets: Slab::new(), limit, leaving: 0, silent: 0, next: 0, crowd: None };
        Arc::new(Self { limit, grace, open: Mutex::new(open), waiting: AtomicWaker::new() })
    }

    /// How many there are.
    pub(crate) fn open(&self) -> usize {
        self.open.lock().sockets.len()
    }

    /// Waits until another can begin without cutting one that may yet speak. One task at a time may wait.
    pub(crate) async fn room(&self, timeouts: &Arc<Timeouts>) {
        while let Some(until) = self.is_full_until(timeouts.clock().now()) {
            let left = pin!(poll_fn(|task| {
                self.waiting.register(task.waker());
                if self.open.lock().has_room() { Poll::Ready(()) } else { Poll::Pending }
            }));
            select(left, pin!(timeouts.sleep_until(until))).await;
        }
    }

    /// When there is one that can be cut, if there is no room and none now.
    fn is_full_until(&self, now: Timestamp) -> Option<Timestamp> {
        let mut open = self.open.lock();
        if open.has_room() {
            return None;
        }
        // Where all are cut already, they will be gone soon.
        let until = open.crowd().oldest_of_most().map_or(now, |cut| cut.since) + self.grace(&open);
        (until > now).then_some(until)
    }

    /// Begins one, for which others may be cut: as many as there are too many, and have had their grace.
    pub(crate) fn begin(self: &Arc<Self>, address: IpAddr, now: Timestamp) -> Handshake {
        let cut = Arc::new(Cut { since: now, is_due: AtomicBool::new(false), task: AtomicWaker::new() });
        let mut open = self.open.lock();
        let number = open.next;
        open.next += 1;
        // It has a descriptor, so there may be one for the next.
        open.limit = self.limit.min(open.limit.saturating_add(2));
        let address = network(address);
        let socket = Socket { address, number, counted: None, cut: Arc::clone(&cut) };
        let place = open.sockets.insert(socket);
        open.count(place);
        let mut excess = Vec::new();
        while open.sockets.len() - open.leaving > open.limit {
            let grace = self.grace(&open);
            let Some(cut) = open.cut_one(now, grace) else { break };
            excess.push(cut);
        }
        drop(open);
        excess.iter().for_each(|cut| cut.task.wake());
        Handshake { handshakes: Arc::clone(self), place, cut }
    }

    /// There is no descriptor for the next. So those that are open are as many as there may be, however few they are, and one is cut, unless one is leaving
    /// already. Returns whether one is.
    pub(crate) fn give_way(&self, now: Timestamp) -> bool {
        let mut open = self.open.lock();
        open.limit = open.limit.min(open.sockets.len()).max(1);
        let grace = self.grace(&open);
        let is_full = open.sockets.len() - open.leaving >= open.limit;
        let cut = if is_full { open.cut_one(now, grace) } else { None };
        let is_one_leaving = open.leaving > 0;
        drop(open);
        if let Some(cut) = cut {
            cut.task.wake();
        }
        is_one_leaving
    }

    /// Whether it is for want of descriptors that there may be no more.
    pub(crate) fn want_descriptors(&self) -> bool {
        self.open.lock().limit < self.limit
    }

    /// How long a socket may be silent now.
    fn grace(&self, open: &Open) -> Duration {
        let left = open.limit.saturating_sub(open.silent) as f64 / open.limit as f64;
        self.grace.mul_f64(left).max(self.grace.min(LEAST_GRACE))
    }
}

impl Open {
    fn has_room(&self) -> bool {
        self.sockets.len() < self.limit
    }

    /// Cuts the oldest of the address with most, of those that are not cut already, if it has had its grace.
    fn cut_one(&mut self, now: Timestamp, grace: Duration) -> Option<Arc<Cut>> {
        if self.crowd().oldest_of_most()?.since + grace > now {
            return None;
        }
        let cut = self.crowd().take_from_most()?;
        cut.is_due.store(true, Ordering::Release);
        self.leaving += 1;
        self.silent += 1;
        Some(cut)
    }

    fn crowd(&mut self) -> &mut Holders<Arc<Cut>> {
        if self.crowd.is_none() {
            self.crowd = Some(Holders::default());
            let mut places: Vec<_> =
                self.sockets.iter().map(|(place, socket)| (socket.number, place)).collect();
            places.sort_unstable();
            places.into_iter().for_each(|(_, place)| self.count(place));
        }
        self.crowd.as_mut().expect("it has just been made")
    }

    fn count(&mut self, place: usize) {
        let socket = &mut self.sockets[place];
        if let Some(crowd) = &mut self.crowd
            && !socket.cut.is_due.load(Ordering::Relaxed)
        {
            socket.counted = Some(crowd.add(&Holder::Address(socket.address), Arc::clone(&socket.cut)));
        }
    }

    fn discount(&mut self, place: usize) {
        let socket = &mut self.sockets[place];
        if let (Some(crowd), Some(number)) = (&mut self.crowd, socket.counted.take())
            && !socket.cut.is_due.load(Ordering::Relaxed)
        {
            crowd.remove(&Holder::Address(socket.address), number);
        }
    }
}

impl Handshake {
    /// Its client is behind a proxy, and is now known.
    pub(crate) fn is_of(&self, address: IpAddr) {
        let mut open = self.handshakes.open.lock();
        open.discount(self.place);
        open.sockets[self.place].address = network(address);
        open.count(self.place);
    }

    /// Ready when it is to be cut, for others.
    pub(crate) fn poll_cut(&self, task: &mut Context<'_>) -> Poll<()> {
        self.cut.task.register(task.waker());
        if self.cut.is_due.load(Ordering::Acquire) { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl Drop for Handshake {
    fn drop(&mut self) {
        let mut open = self.handshakes.open.lock();
        open.discount(self.place);
        open.sockets.remove(self.place);
        let was_cut = self.cut.is_due.load(Ordering::Relaxed);
        if was_cut {
            open.leaving -= 1;
        }
        let is_waited_for = open.sockets.len() + 1 == open.limit;
        // A crowd of one that is cut for one that waits is no sign of room.
        if 2 * open.sockets.len() < open.limit && !was_cut {
            open.crowd = None;
            open.silent = 0;
            open.limit = self.handshakes.limit;
        }
        drop(open);
        if is_waited_for {
            self.handshakes.waiting.wake();
        }
    }
}

#[cfg(test)]
mod tests;
