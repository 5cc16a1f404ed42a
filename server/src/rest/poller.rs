use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use encke_core::Timestamp;
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;

/// The most that one look at the kernel brings.
const EVENTS_AT_ONCE: usize = 256;

/// No socket's.
const STOP: u64 = u64::MAX;

/// Nobody acts on what was told.
const WAITS: u64 = u64::MAX;

/// The sockets of connections at rest: of all of them, or of a part.
///
/// It is level-triggered: what is there and not read is told again, so nothing has to be remembered between two looks. Each socket has a
/// number, by which whoever acts finds its connection. What the kernel tells may be old, from before a connection was woken: then there is
/// nothing to read on the connection that has the number by now, or none has it.
#[derive(Debug)]
pub(crate) struct Poller {
    epoll: OwnedFd,
    /// Written to when the thread is to end.
    stop: OwnedFd,
    /// Nobody looks any more. Read with the lock of the connection's session, which whoever has set it takes afterwards.
    is_closed: AtomicBool,
    /// When that came which the thread acts on, in nanoseconds of the server's time.
    acting_since: AtomicU64,
}

impl Poller {
    /// # Errors
    /// The system's.
    pub(crate) fn new() -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let stop = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        epoll::add(&epoll, &stop, EventData::new_u64(STOP), EventFlags::IN)?;
        Ok(Self { epoll, stop, is_closed: AtomicBool::new(false), acting_since: AtomicU64::new(WAITS) })
    }

    /// From now on it is told when there is something to read. Any number will do but the largest.
    ///
    /// # Errors
    /// The system's; or nobody looks any more.
    pub(crate) fn add(&self, socket: impl AsFd, number: u64) -> io::Result<()> {
        debug_assert_ne!(number, STOP);
        if self.is_closed.load(Ordering::Acquire) {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        epoll::add(&self.epoll, socket, EventData::new_u64(number), EventFlags::IN | EventFlags::RDHUP)?;
        Ok(())
    }

    /// It is not told any more.
    pub(crate) fn remove(&self, socket: impl AsFd) {
        // Nothing else can be wrong with it than that it is not there.
        let _ = epoll::delete(&self.epoll, socket);
    }

    /// Since when the thread acts on what it was told at a time. It waits for more if there is nothing.
    pub(crate) fn acting_since(&self) -> Option<Timestamp> {
        let since = self.acting_since.load(Ordering::Relaxed);
        (since != WAITS).then(|| Timestamp::from_nanos(since))
    }

    /// Tells `act` the numbers of sockets that have something to read, and when that was found out, until it is [stopped](Self::stop).
    pub(super) fn run(&self, now: impl Fn() -> Timestamp, mut act: impl FnMut(u64, Timestamp)) {
        let mut events = Vec::with_capacity(EVENTS_AT_ONCE);
        loop {
            events.clear();
            self.acting_since.store(WAITS, Ordering::Relaxed);
            match epoll::wait(&self.epoll, spare_capacity(&mut events), None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => unreachable!("epoll has failed: {error}"),
            }
            // Once for all of them: what they tell of had come by then.
            let now = now();
            self.acting_since.store(now.as_nanos(), Ordering::Relaxed);
            for event in &events {
                let data = { event.data };
                if data.u64() == STOP {
                    return;
                }
                act(data.u64(), now);
            }
        }
    }

    /// Has the thread end; from now on nothing is added.
    pub(crate) fn stop(&self) {
        self.is_closed.store(true, Ordering::Release);
        // It cannot be full.
        let _ = rustix::io::write(&self.stop, &1_u64.to_ne_bytes());
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixStream;
    use std::sync::{Arc, mpsc};
    use std::thread;

    use super::*;

    const NOW: Timestamp = Timestamp::from_nanos(5);

    #[test]
    fn a_thread_that_is_stuck_is_seen() {
        let poller = Arc::new(Poller::new().expect("epoll"));
        let (let_go, is_let_go) = mpsc::channel::<()>();
        let thread = thread::spawn({
            let poller = Arc::clone(&poller);
            move || poller.run(|| NOW, |_, _| is_let_go.recv().expect("it is let go"))
        });
        let until = |since| {
            while poller.acting_since() != since {
                thread::yield_now();
            }
        };
        until(None);
        let (mut client, server) = UnixStream::pair().expect("a pair");
        poller.add(&server, 1).expect("there is room");
        client.write_all(b"x").expect("there is room");
        until(Some(NOW));
        poller.remove(&server);
        let_go.send(()).expect("it listens");
        until(None);
        poller.stop();
        thread.join().expect("it ends");
    }

    #[test]
    fn a_socket_is_told_of_until_it_is_removed() {
        let poller = Arc::new(Poller::new().expect("epoll"));
        let (told, hears) = mpsc::channel();
        let thread = thread::spawn({
            let poller = Arc::clone(&poller);
            move || poller.run(|| NOW, |number, at| told.send((number, at)).expect("it is heard"))
        });
        let (mut client, server) = UnixStream::pair().expect("a pair");
        poller.add(&server, 1).expect("there is room");
        client.write_all(b"x").expect("there is room");
        assert_eq!(hears.recv(), Ok((1, NOW)));
        poller.remove(&server);
        poller.add(&server, 2).expect("there is room");
        assert!(hears.iter().any(|(told, _)| told == 2));
        poller.stop();
        thread.join().expect("it ends");
        assert!(poller.add(&server, 3).is_err());
    }
}
