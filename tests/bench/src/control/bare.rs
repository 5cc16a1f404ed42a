//! The bare control: one thread, epoll, and 24 bytes a connection. It is what the kernel takes for heartbeats and a broadcast, and
//! next to nothing besides.

use std::convert::Infallible;
use std::io;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, SocketFlags, accept_with, recv, send};
use slab::Slab;

use crate::frames::{self, CLOSE, PING, Refused, TEXT, frame, take};
use crate::pinger::Pace;
use crate::socket::SEND_BUFFER;
use crate::words::{self, Command, HELLO, PING_PAYLOAD};

/// How much is read at once, and how long a client's message may be.
const READ_BUFFER: usize = 16 * 1024;
const EVENTS_PER_WAIT: usize = 256;
const ACCEPTS_PER_EVENT: usize = 64;
/// In place of a connection's key.
const LISTENER: u64 = u64::MAX;

#[derive(Debug)]
struct Server {
    epoll: OwnedFd,
    listener: TcpListener,
    pace: Pace,
    connections: Slab<Connection>,
    /// Keys of connections, by the batch in which they are pinged.
    due: Vec<Vec<u32>>,
    /// The batch whose turn it is.
    current: usize,
    added: usize,
    published: usize,
    hello: Vec<u8>,
    ping: Vec<u8>,
}

#[derive(Debug)]
struct Connection {
    socket: OwnedFd,
    batch: u32,
    upgraded: bool,
    subscribed: bool,
    /// Hardly any connection ever has it.
    kept: Option<Box<Kept>>,
}

/// What is not finished.
#[derive(Debug, Default)]
struct Kept {
    /// The beginning of a request or frame.
    input: Vec<u8>,
    /// What the kernel had no room for.
    output: Vec<u8>,
}

/// The connection is over, whatever the reason.
#[derive(Debug)]
struct Gone;

impl From<Refused> for Gone {
    fn from(_: Refused) -> Self {
        Self
    }
}

/// Serves until the process is killed.
pub(crate) fn serve(listener: TcpListener, pace: Pace) -> io::Result<Infallible> {
    let epoll = epoll::create(CreateFlags::CLOEXEC)?;
    epoll::add(&epoll, &listener, EventData::new_u64(LISTENER), EventFlags::IN)?;
    let mut server = Server {
        epoll,
        listener,
        pace,
        connections: Slab::new(),
        due: vec![Vec::new(); pace.batches],
        current: 0,
        added: 0,
        published: 0,
        hello: frame(TEXT, HELLO.as_bytes()),
        ping: frame(PING, &PING_PAYLOAD),
    };
    let mut events = Vec::with_capacity(EVENTS_PER_WAIT);
    let mut buffer = vec![0; READ_BUFFER];
    let mut next = Instant::now() + pace.batch;
    loop {
        server.wait(&mut events, next.saturating_duration_since(Instant::now()))?;
        for event in events.drain(..) {
            server.handle(&event, &mut buffer)?;
        }
        while Instant::now() >= next {
            server.ping_batch();
            next += pace.batch;
        }
    }
}

impl Server {
    fn wait(&self, events: &mut Vec<Event>, at_most: Duration) -> io::Result<()> {
        let timeout = at_most.try_into().expect("a batch is shorter than what the kernel can count");
        match epoll::wait(&self.epoll, spare_capacity(events), Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn handle(&mut self, event: &Event, buffer: &mut [u8]) -> io::Result<()> {
        if event.data.u64() == LISTENER {
            return self.accept();
        }
        let Some(key) = usize::try_from(event.data.u64()).ok().filter(|key| self.connections.contains(*key))
        else {
            // It ended by an event before this one.
            return Ok(());
        };
        let flags = event.flags;
        let written = if flags.contains(EventFlags::OUT) { self.write_kept(key) } else { Ok(()) };
        if written.and_then(|()| self.read(key, buffer)).is_err() {
            self.remove(key);
        }
        Ok(())
    }

    fn accept(&mut self) -> io::Result<()> {
        for _ in 0..ACCEPTS_PER_EVENT {
            match accept_with(&self.listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
                Ok(socket) => self.add(socket)?,
                Err(Errno::AGAIN) => break,
                // The peer was gone before we came to it.
                Err(Errno::CONNABORTED | Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn add(&mut self, socket: OwnedFd) -> io::Result<()> {
        let batch = self.pace.batch_of(self.added, self.current);
        self.added += 1;
        let entry = self.connections.vacant_entry();
        let key = u32::try_from(entry.key()).expect("there are fewer sockets");
        epoll::add(&self.epoll, &socket, EventData::new_u64(key.into()), EventFlags::IN)?;
        self.due[batch].push(key);
        let batch = u32::try_from(batch).expect("the lists of batches fit into memory");
        entry.insert(Connection { socket, batch, upgraded: false, subscribed: false, kept: None });
        Ok(())
    }

    /// The kernel forgets the socket as it is closed.
    fn remove(&mut self, key: usize) {
        let connection = self.connections.remove(key);
        self.due[connection.batch as usize].retain(|due| *due as usize != key);
    }

    /// Reads once: what is left, the next wait tells.
    fn read(&mut self, key: usize, buffer: &mut [u8]) -> Result<(), Gone> {
        let connection = &mut self.connections[key];
        let kept = connection.kept.as_mut().map(|kept| std::mem::take(&mut kept.input)).unwrap_or_default();
        buffer[..kept.len()].copy_from_slice(&kept);
        let room = &mut buffer[kept.len()..];
        let read = match recv(&connection.socket, room, RecvFlags::empty()) {
            Ok((0, _)) => return Err(Gone),
            Ok((read, _)) => read,
            Err(Errno::AGAIN | Errno::INTR) => 0,
            Err(_) => return Err(Gone),
        };
        let mut input = &mut buffer[..kept.len() + read];
        if !self.connections[key].upgraded {
            let Some((answer, length)) = frames::upgrade(input)? else { return self.keep_input(key, input) };
            self.connections[key].upgraded = true;
            let answer = [answer.as_bytes(), &self.hello].concat();
            self.connections[key].write(&answer, &self.epoll, key)?;
            input = &mut input[length..];
        }
        while let Some(mut frame) = take(&mut input)? {
            match frame.opcode {
                TEXT => self.carry_out(key, frame.text()?)?,
                CLOSE => return Err(Gone),
                _ => {}
            }
        }
        self.keep_input(key, input)
    }

    fn keep_input(&mut self, key: usize, input: &[u8]) -> Result<(), Gone> {
        if input.len() == READ_BUFFER {
            return Err(Gone);
        }
        let connection = &mut self.connections[key];
        if !input.is_empty() {
            connection.kept.get_or_insert_default().input = input.to_vec();
        }
        connection.drop_what_is_finished();
        Ok(())
    }

    fn carry_out(&mut self, key: usize, text: &str) -> Result<(), Gone> {
        let reply = match Command::read(text) {
            Some(Command::Subscribe { id, channel }) => {
                self.connections[key].subscribed = true;
                words::subscribed(id, channel, self.published)
            }
            Some(Command::Publish { id, channel, data }) => {
                self.published += 1;
                self.broadcast(&frame(TEXT, words::message(self.published, channel, data).as_bytes()));
                words::published(id, self.published)
            }
            None => return Ok(()),
        };
        self.connections[key].write(&frame(TEXT, reply.as_bytes()), &self.epoll, key)
    }

    /// A connection that has too much to write misses the message. One that has failed is in the next wait's events, and removed then.
    fn broadcast(&mut self, message: &[u8]) {
        for (key, connection) in &mut self.connections {
            if connection.subscribed {
                let _ = connection.write(message, &self.epoll, key);
            }
        }
    }

    fn ping_batch(&mut self) {
        for key in &self.due[self.current] {
            let key = *key as usize;
            let connection = &mut self.connections[key];
            if connection.upgraded {
                let _ = connection.write(&self.ping, &self.epoll, key);
            }
        }
        self.current = (self.current + 1) % self.pace.batches;
    }

    fn write_kept(&mut self, key: usize) -> Result<(), Gone> {
        let connection = &mut self.connections[key];
        let output =
            connection.kept.as_mut().map(|kept| std::mem::take(&mut kept.output)).unwrap_or_default();
        epoll::modify(&self.epoll, &connection.socket, EventData::new_u64(key as u64), EventFlags::IN)
            .map_err(|_| Gone)?;
        connection.write(&output, &self.epoll, key)?;
        connection.drop_what_is_finished();
        Ok(())
    }
}

impl Connection {
    /// What the kernel has no room for now is kept until it has.
    fn write(&mut self, bytes: &[u8], epoll: &OwnedFd, key: usize) -> Result<(), Gone> {
        let waits = self.kept.as_ref().is_some_and(|kept| !kept.output.is_empty());
        let written = if waits {
            0
        } else {
            match send(&self.socket, bytes, SendFlags::NOSIGNAL) {
                Ok(written) => written,
                Err(Errno::AGAIN | Errno::INTR) => 0,
                Err(_) => return Err(Gone),
            }
        };
        if written < bytes.len() {
            let output = &mut self.kept.get_or_insert_default().output;
            if output.len() > SEND_BUFFER {
                return Err(Gone);
            }
            output.extend(&bytes[written..]);
            let both = EventFlags::IN | EventFlags::OUT;
            epoll::modify(epoll, &self.socket, EventData::new_u64(key as u64), both).map_err(|_| Gone)?;
        }
        Ok(())
    }

    fn drop_what_is_finished(&mut self) {
        self.kept.take_if(|kept| kept.input.is_empty() && kept.output.is_empty());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_is_small() {
        assert_eq!(size_of::<Connection>(), 24);
    }
}
