use std::io;
use std::sync::Arc;

use encke_core::Timestamp;

use super::poller::Poller;

/// The pollers of all parked connections. The number of a socket determines its poller.
#[derive(Debug)]
pub struct Pollers(Box<[Arc<Poller>]>);

impl Pollers {
    /// Creates `count` pollers, at least one.
    ///
    /// # Errors
    /// Returns errors from the operating system.
    pub fn new(count: usize) -> io::Result<Self> {
        (0..count.max(1)).map(|_| Poller::new().map(Arc::new)).collect::<io::Result<_>>().map(Self)
    }

    /// Returns the poller of the socket with this number.
    pub fn poller_of(&self, number: u64) -> &Poller {
        let index = number % self.0.len() as u64;
        &self.0[usize::try_from(index).expect("the index is less than a length")]
    }

    pub fn iter(&self) -> impl Iterator<Item = &Arc<Poller>> {
        self.0.iter()
    }

    /// Returns when the events being handled were reported; if several threads are busy, the earliest of
    /// these times. `None` if all threads are waiting for events.
    pub(super) fn busy_since(&self) -> Option<Timestamp> {
        self.iter().filter_map(|poller| poller.busy_since()).min()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixStream;
    use std::sync::mpsc;
    use std::thread;

    use super::*;

    const fn at(nanos: u64) -> Timestamp {
        Timestamp::from_nanos(nanos)
    }

    #[test]
    fn pollers_report_their_own_sockets() {
        let pollers = Pollers::new(3).expect("epoll");
        let sockets: Vec<_> = (0..7).map(|_| UnixStream::pair().expect("a pair")).collect();
        for (number, (client, server)) in (0..).zip(&sockets) {
            let mut client = client;
            client.write_all(b"x").expect("it succeeds");
            pollers.poller_of(number).add(server, number).expect("it succeeds");
        }
        let reported = pollers.iter().map(|poller| {
            let mut numbers = Vec::new();
            // Although the poller is stopped first, all sockets are reported: they already have input, and
            // the stop event comes last.
            poller.stop();
            poller.run(|| at(1), |number, _| numbers.push(number));
            numbers.sort_unstable();
            numbers
        });
        assert_eq!(reported.collect::<Vec<_>>(), [vec![0, 3, 6], vec![1, 4], vec![2, 5]]);
    }

    #[test]
    fn stuck_thread_among_others_is_detected() {
        let pollers = Arc::new(Pollers::new(2).expect("epoll"));
        let sockets = [0, 1].map(|_| UnixStream::pair().expect("a pair"));
        let (release, released): (Vec<_>, Vec<_>) = [0, 1].map(|_| mpsc::channel::<()>()).into_iter().unzip();
        let threads: Vec<_> = (1..)
            .zip(pollers.iter().zip(released))
            .map(|(event_at, (poller, released))| {
                let poller = Arc::clone(poller);
                let stuck = move |_, _| released.recv().expect("it is released");
                thread::spawn(move || poller.run(|| at(event_at), stuck))
            })
            .collect();
        let until = |since| {
            while pollers.busy_since() != since {
                thread::yield_now();
            }
        };
        let send_to = |number: u64, (client, server): &(UnixStream, UnixStream)| {
            let mut client = client;
            pollers.poller_of(number).add(server, number).expect("it succeeds");
            client.write_all(b"x").expect("it succeeds");
        };
        let resume = |number: u64, (_, server): &(UnixStream, UnixStream)| {
            pollers.poller_of(number).remove(server);
            release[usize::from(number == 1)].send(()).expect("the thread is waiting");
        };
        until(None);
        send_to(1, &sockets[1]);
        until(Some(at(2)));
        send_to(0, &sockets[0]);
        until(Some(at(1)));
        resume(0, &sockets[0]);
        until(Some(at(2)));
        resume(1, &sockets[1]);
        until(None);
        pollers.iter().for_each(|poller| poller.stop());
        threads.into_iter().for_each(|thread| thread.join().expect("the thread ends"));
    }
}
