use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use encke_core::Timestamp;
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;

/// Maximum number of events per system call.
const MAX_EVENTS: usize = 256;

/// Number of the stop event. No socket has this number.
const STOP: u64 = u64::MAX;

/// Value of `busy_since` while no event is being handled.
const NOT_BUSY: u64 = u64::MAX;

/// Watches the sockets of parked connections, or of a share of them.
///
/// The poller is level-triggered: input that was not read is reported again, so no state is kept between
/// calls. Each socket has a number by which the caller finds its connection. An event may be stale, because
/// its connection has been unparked since. In that case, the number now belongs to a connection without
/// input, or to no connection.
#[derive(Debug)]
pub struct Poller {
    epoll: OwnedFd,
    /// Event descriptor that is written to when the thread has to exit.
    stop: OwnedFd,
    /// Whether polling has stopped. Read while holding the lock of the connection's session. The thread that
    /// sets the flag takes that lock afterwards.
    is_closed: AtomicBool,
    /// When the events that the thread is handling were reported, in nanoseconds of the server's clock.
    busy_since: AtomicU64,
}

impl Poller {
    /// Creates a poller without sockets.
    ///
    /// # Errors
    /// Returns errors from the operating system.
    pub fn new() -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let stop = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        epoll::add(&epoll, &stop, EventData::new_u64(STOP), EventFlags::IN)?;
        Ok(Self { epoll, stop, is_closed: AtomicBool::new(false), busy_since: AtomicU64::new(NOT_BUSY) })
    }

    /// Starts reporting input on this socket. `number` may be any number except the largest.
    ///
    /// # Errors
    /// Returns errors from the operating system, or `BrokenPipe` if the poller was stopped.
    pub fn add(&self, socket: impl AsFd, number: u64) -> io::Result<()> {
        debug_assert_ne!(number, STOP);
        if self.is_closed.load(Ordering::Acquire) {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        epoll::add(&self.epoll, socket, EventData::new_u64(number), EventFlags::IN | EventFlags::RDHUP)?;
        Ok(())
    }

    /// Stops watching a socket.
    pub fn remove(&self, socket: impl AsFd) {
        // The only possible error is that the socket was not registered.
        let _ = epoll::delete(&self.epoll, socket);
    }

    /// Returns when the events being handled were reported. `None` if the thread is waiting for events.
    pub fn busy_since(&self) -> Option<Timestamp> {
        let since = self.busy_since.load(Ordering::Relaxed);
        (since != NOT_BUSY).then(|| Timestamp::from_nanos(since))
    }

    /// Calls `act` with the number of each socket that has input, and the time at which the input was found,
    /// until the poller is [stopped](Self::stop).
    pub(super) fn run(&self, now: impl Fn() -> Timestamp, mut act: impl FnMut(u64, Timestamp)) {
        let mut events = Vec::with_capacity(MAX_EVENTS);
        loop {
            events.clear();
            self.busy_since.store(NOT_BUSY, Ordering::Relaxed);
            match epoll::wait(&self.epoll, spare_capacity(&mut events), None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => unreachable!("epoll failed: {error}"),
            }
            // Read the clock once for all events: their input had arrived by now.
            let now = now();
            self.busy_since.store(now.as_nanos(), Ordering::Relaxed);
            for event in &events {
                let data = { event.data };
                if data.u64() == STOP {
                    return;
                }
                act(data.u64(), now);
            }
        }
    }

    /// Makes the thread exit. No socket can be added afterwards.
    pub fn stop(&self) {
        self.is_closed.store(true, Ordering::Release);
        // An eventfd that is written only once cannot be full.
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
    fn stuck_thread_is_detected() {
        let poller = Arc::new(Poller::new().expect("epoll"));
        let (release, released) = mpsc::channel::<()>();
        let thread = thread::spawn({
            let poller = Arc::clone(&poller);
            move || poller.run(|| NOW, |_, _| released.recv().expect("it is released"))
        });
        let until = |since| {
            while poller.busy_since() != since {
                thread::yield_now();
            }
        };
        until(None);
        let (mut client, server) = UnixStream::pair().expect("a pair");
        poller.add(&server, 1).expect("it succeeds");
        client.write_all(b"x").expect("it succeeds");
        until(Some(NOW));
        poller.remove(&server);
        release.send(()).expect("the thread is waiting");
        until(None);
        poller.stop();
        thread.join().expect("the thread ends");
    }

    #[test]
    fn sockets_are_reported_until_they_are_removed() {
        let poller = Arc::new(Poller::new().expect("epoll"));
        let (sender, receiver) = mpsc::channel();
        let thread = thread::spawn({
            let poller = Arc::clone(&poller);
            move || poller.run(|| NOW, |number, at| sender.send((number, at)).expect("the test receives it"))
        });
        let (mut client, server) = UnixStream::pair().expect("a pair");
        poller.add(&server, 1).expect("it succeeds");
        client.write_all(b"x").expect("it succeeds");
        assert_eq!(receiver.recv(), Ok((1, NOW)));
        poller.remove(&server);
        poller.add(&server, 2).expect("it succeeds");
        assert!(receiver.iter().any(|(number, _)| number == 2));
        poller.stop();
        thread.join().expect("the thread ends");
        assert!(poller.add(&server, 3).is_err());
    }
}
