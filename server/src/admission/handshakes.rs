//! Sockets that have no session yet. Each costs more than it has shown to be worth, so there is a limit to them; but who opens many and
//! says nothing must keep no one else out.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::network;

/// The sockets in the handshake, at most `limit`. When one too many comes, the oldest of the address with most is cut.
#[derive(Debug)]
pub(crate) struct Handshakes {
    limit: usize,
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    /// By address, the oldest first.
    sockets: BTreeMap<(IpAddr, u64), CancellationToken>,
    by_address: HashMap<IpAddr, usize>,
    /// The number of the next socket.
    next: u64,
}

/// One socket in the handshake. It counts until this is dropped, or until it is cut.
#[derive(Debug)]
pub(crate) struct Handshake {
    handshakes: Arc<Handshakes>,
    key: (IpAddr, u64),
    cut: CancellationToken,
}

impl Handshakes {
    pub(crate) fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self { limit, open: Mutex::default() })
    }

    /// Begins one, for which another may be cut.
    pub(crate) fn begin(self: &Arc<Self>, address: IpAddr) -> Handshake {
        let cut = CancellationToken::new();
        let (key, excess) = {
            let mut open = self.open.lock();
            let key = (network(address), open.next);
            open.next += 1;
            open.sockets.insert(key, cut.clone());
            *open.by_address.entry(key.0).or_default() += 1;
            (key, if open.sockets.len() > self.limit { open.take_oldest_of_most() } else { None })
        };
        if let Some(excess) = excess {
            excess.cancel();
        }
        Handshake { handshakes: Arc::clone(self), key, cut }
    }
}

impl Open {
    fn take_oldest_of_most(&mut self) -> Option<CancellationToken> {
        let (address, _) = self.by_address.iter().max_by_key(|(_, count)| **count)?;
        let oldest = *self.sockets.range((*address, 0)..).next()?.0;
        self.remove(oldest)
    }

    fn remove(&mut self, key: (IpAddr, u64)) -> Option<CancellationToken> {
        let removed = self.sockets.remove(&key)?;
        if let Some(count) = self.by_address.get_mut(&key.0) {
            *count -= 1;
            if *count == 0 {
                self.by_address.remove(&key.0);
            }
        }
        Some(removed)
    }
}

impl Handshake {
    /// Ready when it is to be cut, for others.
    pub(crate) async fn cut(&self) {
        self.cut.cancelled().await;
    }
}

impl Drop for Handshake {
    fn drop(&mut self) {
        self.handshakes.open.lock().remove(self.key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> IpAddr {
        [10, 0, 0, last].into()
    }

    #[test]
    fn the_oldest_of_the_address_with_most_is_cut() {
        let handshakes = Handshakes::new(4);
        let one = handshakes.begin(address(1));
        let crowd: Vec<_> = (0..3).map(|_| handshakes.begin(address(2))).collect();
        let cut = |all: &[Handshake]| all.iter().map(|it| it.cut.is_cancelled()).collect::<Vec<_>>();
        assert_eq!(cut(&crowd), [false; 3]);
        let newcomer = handshakes.begin(address(3));
        assert_eq!(cut(&crowd), [true, false, false]);
        let more = handshakes.begin(address(2));
        assert_eq!(cut(&crowd), [true, true, false]);
        assert_eq!(cut(&[one, newcomer, more]), [false; 3]);
    }

    #[test]
    fn what_has_ended_does_not_count() {
        let handshakes = Handshakes::new(2);
        for _ in 0..10 {
            let both = [handshakes.begin(address(1)), handshakes.begin(address(2))];
            assert!(both.iter().all(|it| !it.cut.is_cancelled()));
        }
        let open = handshakes.open.lock();
        assert!(open.sockets.is_empty() && open.by_address.is_empty());
    }

    #[test]
    fn one_address_cuts_its_own() {
        let handshakes = Handshakes::new(1);
        let first = handshakes.begin(address(1));
        let second = handshakes.begin(address(1));
        assert!(first.cut.is_cancelled() && !second.cut.is_cancelled());
    }
}
