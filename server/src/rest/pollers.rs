use std::io;
use std::sync::Arc;

use encke_core::Timestamp;

use super::poller::Poller;

/// The pollers of all connections at rest, each with a part of them: a socket belongs to one of them by its number.
#[derive(Debug)]
pub(crate) struct Pollers(Box<[Arc<Poller>]>);

impl Pollers {
    /// So many, but one at least.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn new(count: usize) -> io::Result<Self> {
        (0..count.max(1)).map(|_| Poller::new().map(Arc::new)).collect::<io::Result<_>>().map(Self)
    }

    /// That of the socket with this number.
    pub(crate) fn of(&self, number: u64) -> &Poller {
        let index = number % self.0.len() as u64;
        &self.0[usize::try_from(index).expect("there are no more than fit into memory")]
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Poller>> {
        self.0.iter()
    }

    /// Since when any of their threads acts on what it was told at a time: the longest of all.
    pub(super) fn acting_since(&self) -> Option<Timestamp> {
        self.iter().filter_map(|poller| poller.acting_since()).min()
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
    fn each_tells_of_its_own_sockets() {
        let pollers = Pollers::new(3).expect("epoll");
        let sockets: Vec<_> = (0..7).map(|_| UnixStream::pair().expect("a pair")).collect();
        for (number, (client, server)) in (0..).zip(&sockets) {
            let mut client = client;
            client.write_all(b"x").expect("there is room");
            pollers.of(number).add(server, number).expect("there is room");
        }
        let told = pollers.iter().map(|poller| {
            let mut told = Vec::new();
            // It is told of all of them first, since they have something to read already.
            poller.stop();
            poller.run(|| at(1), |number, _| told.push(number));
            told.sort_unstable();
            told
        });
        assert_eq!(told.collect::<Vec<_>>(), [vec![0, 3, 6], vec![1, 4], vec![2, 5]]);
    }

    #[test]
    fn one_that_is_stuck_among_others_is_seen() {
        let pollers = Arc::new(Pollers::new(2).expect("epoll"));
        let sockets = [0, 1].map(|_| UnixStream::pair().expect("a pair"));
        let (let_go, is_let_go): (Vec<_>, Vec<_>) = [0, 1].map(|_| mpsc::channel::<()>()).into_iter().unzip();
        let threads: Vec<_> = (1..)
            .zip(pollers.iter().zip(is_let_go))
            .map(|(told_at, (poller, is_let_go))| {
                let poller = Arc::clone(poller);
                let stuck = move |_, _| is_let_go.recv().expect("it is let go");
                thread::spawn(move || poller.run(|| at(told_at), stuck))
            })
            .collect();
        let until = |since| {
            while pollers.acting_since() != since {
                thread::yield_now();
            }
        };
        let is_told = |number: u64, (client, server): &(UnixStream, UnixStream)| {
            let mut client = client;
            pollers.of(number).add(server, number).expect("there is room");
            client.write_all(b"x").expect("there is room");
        };
        let goes_on = |number: u64, (_, server): &(UnixStream, UnixStream)| {
            pollers.of(number).remove(server);
            let_go[usize::from(number == 1)].send(()).expect("it listens");
        };
        until(None);
        is_told(1, &sockets[1]);
        until(Some(at(2)));
        is_told(0, &sockets[0]);
        until(Some(at(1)));
        goes_on(0, &sockets[0]);
        until(Some(at(2)));
        goes_on(1, &sockets[1]);
        until(None);
        pollers.iter().for_each(|poller| poller.stop());
        threads.into_iter().for_each(|thread| thread.join().expect("it ends"));
    }
}
