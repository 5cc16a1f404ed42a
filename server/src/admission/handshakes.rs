//! Sockets that have no session yet. Each costs more than it has shown to be worth, so there is a limit to them; but a crowd that
//! says nothing must keep no client out.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use atomic_waker::AtomicWaker;
use parking_lot::Mutex;
use slab::Slab;

use super::{Holder, Holders, network};

/// The sockets in the handshake, at most `limit`. When one too many comes, the oldest of the address with most is cut.
#[derive(Debug)]
pub(crate) struct Handshakes {
    limit: usize,
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    sockets: Slab<Socket>,
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

#[derive(Debug, Default)]
struct Cut {
    is_due: AtomicBool,
    task: AtomicWaker,
}

impl Handshakes {
    pub(crate) fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self { limit, open: Mutex::default() })
    }

    /// Begins one, for which another may be cut.
    pub(crate) fn begin(self: &Arc<Self>, address: IpAddr) -> Handshake {
        let cut = Arc::new(Cut::default());
        let mut open = self.open.lock();
        let number = open.next;
        open.next += 1;
        let socket = Socket { address: network(address), number, counted: None, cut: Arc::clone(&cut) };
        let place = open.sockets.insert(socket);
        open.count(place);
        let excess = if open.sockets.len() > self.limit { open.take_excess() } else { None };
        drop(open);
        if let Some(excess) = excess {
            excess.is_due.store(true, Ordering::Release);
            excess.task.wake();
        }
        Handshake { handshakes: Arc::clone(self), place, cut }
    }
}

impl Open {
    /// The oldest of the address with most, of those that are not cut already.
    fn take_excess(&mut self) -> Option<Arc<Cut>> {
        if self.crowd.is_none() {
            self.crowd = Some(Holders::default());
            let mut places: Vec<_> =
                self.sockets.iter().map(|(place, socket)| (socket.number, place)).collect();
            places.sort_unstable();
            places.into_iter().for_each(|(_, place)| self.count(place));
        }
        self.crowd.as_mut()?.take_from_most()
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
        if let (Some(crowd), Some(number)) = (&mut self.crowd, socket.counted.take()) {
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
        if open.sockets.len() < self.handshakes.limit / 2 {
            open.crowd = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> IpAddr {
        [10, 0, 0, last].into()
    }

    fn is_cut(handshake: &Handshake) -> bool {
        handshake.cut.is_due.load(Ordering::Relaxed)
    }

    #[test]
    fn the_oldest_of_the_address_with_most_is_cut() {
        let handshakes = Handshakes::new(4);
        let one = handshakes.begin(address(1));
        let crowd: Vec<_> = (0..3).map(|_| handshakes.begin(address(2))).collect();
        let cut = |all: &[Handshake]| all.iter().map(is_cut).collect::<Vec<_>>();
        assert_eq!(cut(&crowd), [false; 3]);
        let newcomer = handshakes.begin(address(3));
        assert_eq!(cut(&crowd), [true, false, false]);
        let more = handshakes.begin(address(2));
        assert_eq!(cut(&crowd), [true, true, false]);
        assert_eq!(cut(&[one, newcomer, more]), [false; 3]);
    }

    #[test]
    fn a_client_behind_a_proxy_counts_for_itself() {
        let handshakes = Handshakes::new(3);
        let behind: Vec<_> = (0..3).map(|_| handshakes.begin(address(1))).collect();
        behind.iter().zip(2..).for_each(|(handshake, client)| handshake.is_of(address(client)));
        let crowd = [handshakes.begin(address(2)), handshakes.begin(address(2))];
        assert_eq!(
            [&behind[0], &behind[1], &behind[2], &crowd[0], &crowd[1]].map(is_cut),
            [true, false, false, true, false]
        );
    }

    #[test]
    fn what_has_ended_does_not_count() {
        let handshakes = Handshakes::new(2);
        for _ in 0..10 {
            let both = [handshakes.begin(address(1)), handshakes.begin(address(2))];
            assert!(!both.iter().any(is_cut));
        }
        assert!(handshakes.open.lock().sockets.is_empty());
    }

    #[test]
    fn one_address_cuts_its_own() {
        let handshakes = Handshakes::new(1);
        let first = handshakes.begin(address(1));
        let second = handshakes.begin(address(1));
        assert!(is_cut(&first) && !is_cut(&second));
    }
}
