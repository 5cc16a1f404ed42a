use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use parking_lot::Mutex;
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use slab::Slab;

/// The most that one look at the kernel brings.
const EVENTS_AT_ONCE: usize = 256;

/// No socket's.
const STOP: u64 = u64::MAX;

/// The sockets of all connections at rest, and whose they are.
///
/// It is level-triggered: what is there and not read is told again, so nothing has to be remembered between two looks. What the kernel
/// tells may be old, from before a connection was woken. So each stay has a key of its own, and whoever acts on one looks whether the
/// connection is still the one with that key.
#[derive(Debug)]
pub(crate) struct Poller<T> {
    epoll: OwnedFd,
    /// Written to when the thread is to end.
    stop: OwnedFd,
    /// Locked for one look-up, and nothing is locked meanwhile.
    places: Mutex<Places<T>>,
}

#[derive(Debug)]
struct Places<T> {
    owners: Slab<(u32, Arc<T>)>,
    next_generation: u32,
    is_closed: bool,
}

/// One stay of one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    place: u32,
    generation: u32,
}

impl Key {
    fn number(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.place)
    }

    #[expect(clippy::cast_possible_truncation, reason = "it is taken apart")]
    fn of(number: u64) -> Self {
        Self { place: number as u32, generation: (number >> 32) as u32 }
    }
}

impl<T> Poller<T> {
    /// # Errors
    /// The system's.
    pub(crate) fn new() -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let stop = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        epoll::add(&epoll, &stop, EventData::new_u64(STOP), EventFlags::IN)?;
        let places = Places { owners: Slab::new(), next_generation: 0, is_closed: false };
        Ok(Self { epoll, stop, places: Mutex::new(places) })
    }

    /// From now on it is told when there is something to read.
    ///
    /// # Errors
    /// The system's; or nobody looks any more.
    pub(crate) fn add(&self, socket: impl AsFd, owner: Arc<T>) -> io::Result<Key> {
        let key = {
            let mut places = self.places.lock();
            let place = u32::try_from(places.owners.vacant_key()).map_err(io::Error::other)?;
            // The last place would make a stop of the last generation.
            if places.is_closed || place == u32::MAX {
                return Err(io::ErrorKind::QuotaExceeded.into());
            }
            let generation = places.next_generation;
            places.next_generation = generation.wrapping_add(1);
            places.owners.insert((generation, owner));
            Key { place, generation }
        };
        let added = epoll::add(
            &self.epoll,
            socket,
            EventData::new_u64(key.number()),
            EventFlags::IN | EventFlags::RDHUP,
        );
        if let Err(error) = added {
            drop(self.forget(key));
            return Err(error.into());
        }
        Ok(key)
    }

    /// It is not told any more.
    pub(crate) fn remove(&self, key: Key, socket: impl AsFd) {
        // Nothing else can be wrong with it than that it is not there.
        let _ = epoll::delete(&self.epoll, socket);
        drop(self.forget(key));
    }

    fn forget(&self, key: Key) -> Option<Arc<T>> {
        let mut places = self.places.lock();
        let index = key.place as usize;
        let is_there = places.owners.get(index).is_some_and(|(generation, _)| *generation == key.generation);
        let owner = is_there.then(|| places.owners.remove(index).1);
        if places.owners.is_empty() {
            // A crowd that has left must not keep its memory.
            places.owners = Slab::new();
        }
        owner
    }

    fn owner(&self, key: Key) -> Option<Arc<T>> {
        let places = self.places.lock();
        let (generation, owner) = places.owners.get(key.place as usize)?;
        (*generation == key.generation).then(|| Arc::clone(owner))
    }

    /// Tells `act` whose socket has something to read, until it is [stopped](Self::stop).
    pub(super) fn run(&self, mut act: impl FnMut(&Arc<T>, Key)) {
        let mut events = Vec::with_capacity(EVENTS_AT_ONCE);
        loop {
            events.clear();
            match epoll::wait(&self.epoll, spare_capacity(&mut events), None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => unreachable!("epoll has failed: {error}"),
            }
            for event in &events {
                let data = { event.data };
                if data.u64() == STOP {
                    return;
                }
                let key = Key::of(data.u64());
                if let Some(owner) = self.owner(key) {
                    act(&owner, key);
                }
            }
        }
    }

    /// Has the thread end; from now on nothing is added. Returns the owners of all that is there.
    pub(crate) fn stop(&self) -> Vec<Arc<T>> {
        let mut places = self.places.lock();
        places.is_closed = true;
        let owners = std::mem::take(&mut places.owners);
        drop(places);
        // It cannot be full.
        let _ = rustix::io::write(&self.stop, &1_u64.to_ne_bytes());
        owners.into_iter().map(|(_, (_, owner))| owner).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixStream;
    use std::sync::mpsc;
    use std::thread;

    use super::*;

    #[test]
    fn a_stay_is_told_of_until_it_is_over() {
        let poller = Arc::new(Poller::<&str>::new().expect("epoll"));
        let (told, hears) = mpsc::channel();
        let thread = thread::spawn({
            let poller = Arc::clone(&poller);
            move || {
                poller.run(|owner, key| {
                    told.send((**owner, key)).expect("it is heard");
                })
            }
        });
        let (mut client, server) = UnixStream::pair().expect("a pair");
        let first = poller.add(&server, Arc::new("first")).expect("there is room");
        client.write_all(b"x").expect("there is room");
        assert_eq!(hears.recv(), Ok(("first", first)));
        poller.remove(first, &server);
        let second = poller.add(&server, Arc::new("second")).expect("there is room");
        assert_eq!(first.place, second.place);
        assert!(poller.owner(first).is_none(), "what is told of the first stay is nobody's");
        assert!(hears.iter().any(|told| told == ("second", second)));
        poller.remove(first, &server);
        assert!(poller.owner(second).is_some());
        assert_eq!(poller.stop(), [Arc::new("second")]);
        thread.join().expect("it ends");
        assert!(poller.add(&server, Arc::new("third")).is_err());
    }

    #[test]
    fn nobody_takes_no_memory() {
        let poller = Poller::<()>::new().expect("epoll");
        let (_client, server) = UnixStream::pair().expect("a pair");
        let (_client, other) = UnixStream::pair().expect("a pair");
        let keys =
            [&server, &other].map(|socket| (socket, poller.add(socket, Arc::default()).expect("room")));
        for (socket, key) in keys {
            poller.remove(key, socket);
        }
        assert_eq!(poller.places.lock().owners.capacity(), 0);
    }
}
