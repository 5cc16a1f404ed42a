//! The bare control: one thread, epoll, and 24 bytes per connection. It costs little more than the kernel's
//! own work for heartbeats and a broadcast.

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

use crate::frames::{self, CLOSE, InvalidInput, PING, TEXT, encode_frame, take_frame};
use crate::messages::{self, ControlCommand, HELLO, PING_PAYLOAD};
use crate::pinger::PingSchedule;
use crate::socket::SEND_BUFFER;

/// Maximum number of bytes per read, and maximum length of a client's message.
const READ_BUFFER: usize = 16 * 1024;
const EVENTS_PER_WAIT: usize = 256;
const ACCEPTS_PER_EVENT: usize = 64;
/// Event data of the listener, in place of a connection's key.
const LISTENER: u64 = u64::MAX;

#[derive(Debug)]
struct BareServer {
    epoll: OwnedFd,
    listener: TcpListener,
    pace: PingSchedule,
    connections: Slab<BareConnection>,
    /// Keys of the connections, by the batch in which they are pinged.
    due: Vec<Vec<u32>>,
    /// Index of the batch to ping next.
    current: usize,
    added: usize,
    published: usize,
    hello: Vec<u8>,
    ping: Vec<u8>,
}

#[derive(Debug)]
struct BareConnection {
    socket: OwnedFd,
    batch: u32,
    upgraded: bool,
    subscribed: bool,
    /// `None` for nearly all connections.
    partial: Option<Box<PartialIo>>,
}

/// Partial input and output of a connection.
#[derive(Debug, Default)]
struct PartialIo {
    /// Beginning of an incomplete request or frame.
    input: Vec<u8>,
    /// Bytes that did not fit into the kernel's send buffer.
    output: Vec<u8>,
}

/// Error after which the connection is closed.
#[derive(Debug)]
struct ConnectionOver;

impl From<InvalidInput> for ConnectionOver {
    fn from(_: InvalidInput) -> Self {
        Self
    }
}

/// Serves until the process is killed.
pub(crate) fn serve(listener: TcpListener, pace: PingSchedule) -> io::Result<Infallible> {
    let epoll = epoll::create(CreateFlags::CLOEXEC)?;
    epoll::add(&epoll, &listener, EventData::new_u64(LISTENER), EventFlags::IN)?;
    let mut server = BareServer {
        epoll,
        listener,
        pace,
        connections: Slab::new(),
        due: vec![Vec::new(); pace.batches],
        current: 0,
        added: 0,
        published: 0,
        hello: encode_frame(TEXT, HELLO.as_bytes()),
        ping: encode_frame(PING, &PING_PAYLOAD),
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

impl BareServer {
    fn wait(&self, events: &mut Vec<Event>, at_most: Duration) -> io::Result<()> {
        let timeout = at_most.try_into().expect("the duration of a batch fits into a timespec");
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
            // An earlier event in this batch closed the connection.
            return Ok(());
        };
        let flags = event.flags;
        let written = if flags.contains(EventFlags::OUT) { self.flush_output(key) } else { Ok(()) };
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
                // The peer closed the connection before it was accepted.
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
        let key = u32::try_from(entry.key()).expect("there are fewer than 2^32 sockets");
        epoll::add(&self.epoll, &socket, EventData::new_u64(key.into()), EventFlags::IN)?;
        self.due[batch].push(key);
        let batch = u32::try_from(batch).expect("there are fewer than 2^32 batches");
        entry.insert(BareConnection { socket, batch, upgraded: false, subscribed: false, partial: None });
        Ok(())
    }

    /// Removes a connection. Closing its socket also removes it from epoll.
    fn remove(&mut self, key: usize) {
        let connection = self.connections.remove(key);
        self.due[connection.batch as usize].retain(|due| *due as usize != key);
    }

    /// Reads once. The next wait reports input that remains.
    fn read(&mut self, key: usize, buffer: &mut [u8]) -> Result<(), ConnectionOver> {
        let connection = &mut self.connections[key];
        let earlier =
            connection.partial.as_mut().map(|partial| std::mem::take(&mut partial.input)).unwrap_or_default();
        buffer[..earlier.len()].copy_from_slice(&earlier);
        let room = &mut buffer[earlier.len()..];
        let read = match recv(&connection.socket, room, RecvFlags::empty()) {
            Ok((0, _)) => return Err(ConnectionOver),
            Ok((read, _)) => read,
            Err(Errno::AGAIN | Errno::INTR) => 0,
            Err(_) => return Err(ConnectionOver),
        };
        let mut input = &mut buffer[..earlier.len() + read];
        if !self.connections[key].upgraded {
            let Some((answer, length)) = frames::upgrade(input)? else { return self.store_input(key, input) };
            self.connections[key].upgraded = true;
            let answer = [answer.as_bytes(), &self.hello].concat();
            self.connections[key].write(&answer, &self.epoll, key)?;
            input = &mut input[length..];
        }
        while let Some(mut frame) = take_frame(&mut input)? {
            match frame.opcode {
                TEXT => self.carry_out(key, frame.text()?)?,
                CLOSE => return Err(ConnectionOver),
                _ => {}
            }
        }
        self.store_input(key, input)
    }

    fn store_input(&mut self, key: usize, input: &[u8]) -> Result<(), ConnectionOver> {
        if input.len() == READ_BUFFER {
            return Err(ConnectionOver);
        }
        let connection = &mut self.connections[key];
        if !input.is_empty() {
            connection.partial.get_or_insert_default().input = input.to_vec();
        }
        connection.drop_empty_partial();
        Ok(())
    }

    fn carry_out(&mut self, key: usize, text: &str) -> Result<(), ConnectionOver> {
        let reply = match ControlCommand::read(text) {
            Some(ControlCommand::Subscribe { id, channel }) => {
                self.connections[key].subscribed = true;
                messages::subscribed(id, channel, self.published)
            }
            Some(ControlCommand::Publish { id, channel, data }) => {
                self.published += 1;
                self.broadcast(&encode_frame(
                    TEXT,
                    messages::message(self.published, channel, data).as_bytes(),
                ));
                messages::published(id, self.published)
            }
            None => return Ok(()),
        };
        self.connections[key].write(&encode_frame(TEXT, reply.as_bytes()), &self.epoll, key)
    }

    /// Sends a message to all subscribers. A connection with a full output buffer misses the message. A
    /// failed connection is reported by the next wait, and then removed.
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

    fn flush_output(&mut self, key: usize) -> Result<(), ConnectionOver> {
        let connection = &mut self.connections[key];
        let output = connection
            .partial
            .as_mut()
            .map(|partial| std::mem::take(&mut partial.output))
            .unwrap_or_default();
        epoll::modify(&self.epoll, &connection.socket, EventData::new_u64(key as u64), EventFlags::IN)
            .map_err(|_| ConnectionOver)?;
        connection.write(&output, &self.epoll, key)?;
        connection.drop_empty_partial();
        Ok(())
    }
}

impl BareConnection {
    /// Sends bytes. Those that do not fit into the kernel's send buffer are kept until the socket is
    /// writable.
    fn write(&mut self, bytes: &[u8], epoll: &OwnedFd, key: usize) -> Result<(), ConnectionOver> {
        let is_pending = self.partial.as_ref().is_some_and(|partial| !partial.output.is_empty());
        let written = if is_pending {
            0
        } else {
            match send(&self.socket, bytes, SendFlags::NOSIGNAL) {
                Ok(written) => written,
                Err(Errno::AGAIN | Errno::INTR) => 0,
                Err(_) => return Err(ConnectionOver),
            }
        };
        if written < bytes.len() {
            let output = &mut self.partial.get_or_insert_default().output;
            if output.len() > SEND_BUFFER {
                return Err(ConnectionOver);
            }
            output.extend(&bytes[written..]);
            let both = EventFlags::IN | EventFlags::OUT;
            epoll::modify(epoll, &self.socket, EventData::new_u64(key as u64), both)
                .map_err(|_| ConnectionOver)?;
        }
        Ok(())
    }

    fn drop_empty_partial(&mut self) {
        self.partial.take_if(|partial| partial.input.is_empty() && partial.output.is_empty());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_takes_24_bytes() {
        assert_eq!(size_of::<BareConnection>(), 24);
    }
}
