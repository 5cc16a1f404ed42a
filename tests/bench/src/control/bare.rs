//! The bare control: one thread, epoll, and 16 bytes per connection. It costs little more than the kernel's
//! own work for heartbeats and a broadcast.

use std::convert::Infallible;
use std::io;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use encke_core::dialect::json::parse_command;
use encke_core::dialect::{Command, CommandRequest};
use encke_core::frame::{ClientFrame, Fragments, decode};
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, SocketFlags, accept_with, recv, send};
use slab::Slab;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::frame::Frame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};

use crate::messages::{self, HELLO, PING_PAYLOAD};
use crate::pinger::{BATCH, batch_of};

/// Maximum number of bytes per read, and maximum length of a client's request or message.
const READ_BUFFER: usize = 16 * 1024;
/// Maximum number of headers. loadgen's clients send fewer.
const MAX_HEADERS: usize = 32;
const EVENTS_PER_WAIT: usize = 256;
/// Event data of the listener, in place of a connection's key.
const LISTENER: u64 = u64::MAX;

#[derive(Debug)]
struct BareServer {
    epoll: OwnedFd,
    listener: TcpListener,
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
}

/// Serves until the process is killed.
pub(crate) fn serve(listener: TcpListener, batches: usize) -> io::Result<Infallible> {
    let epoll = epoll::create(CreateFlags::CLOEXEC)?;
    epoll::add(&epoll, &listener, EventData::new_u64(LISTENER), EventFlags::IN)?;
    let mut server = BareServer {
        epoll,
        listener,
        connections: Slab::new(),
        due: vec![Vec::new(); batches],
        current: 0,
        added: 0,
        published: 0,
        hello: text_frame(HELLO.to_owned()),
        ping: encode(Frame::ping(PING_PAYLOAD.to_vec())),
    };
    let mut events = Vec::with_capacity(EVENTS_PER_WAIT);
    let mut buffer = vec![0; READ_BUFFER];
    let mut next = Instant::now() + BATCH;
    loop {
        server.wait(&mut events, next.saturating_duration_since(Instant::now()))?;
        for event in events.drain(..) {
            server.handle(&event, &mut buffer)?;
        }
        while Instant::now() >= next {
            server.ping_batch();
            next += BATCH;
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
        let key = usize::try_from(event.data.u64()).unwrap_or(usize::MAX);
        // An earlier event of the same wait may have closed the connection.
        if self.connections.contains(key) && self.read(key, buffer).is_err() {
            self.remove(key);
        }
        Ok(())
    }

    fn accept(&mut self) -> io::Result<()> {
        loop {
            match accept_with(&self.listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
                Ok(socket) => self.add(socket)?,
                // No connection waits, one was closed, or a signal arrived. epoll reports those that still wait.
                Err(Errno::AGAIN | Errno::CONNABORTED | Errno::INTR) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn add(&mut self, socket: OwnedFd) -> io::Result<()> {
        let batch = batch_of(self.added, self.current, self.due.len());
        self.added += 1;
        let entry = self.connections.vacant_entry();
        let key = u32::try_from(entry.key()).expect("there are fewer than 2^32 sockets");
        epoll::add(&self.epoll, &socket, EventData::new_u64(key.into()), EventFlags::IN)?;
        self.due[batch].push(key);
        let batch = u32::try_from(batch).expect("there are fewer than 2^32 batches");
        entry.insert(BareConnection { socket, batch, upgraded: false, subscribed: false });
        Ok(())
    }

    /// Removes a connection. Closing its socket also removes it from epoll.
    fn remove(&mut self, key: usize) {
        let connection = self.connections.remove(key);
        self.due[connection.batch as usize].retain(|due| *due as usize != key);
    }

    /// Reads once. The next wait reports input that remains. Clients send requests and frames in one write
    /// each, so that they arrive as a whole.
    ///
    /// # Errors
    /// If the connection has to be closed. This also applies to the following methods.
    fn read(&mut self, key: usize, buffer: &mut [u8]) -> io::Result<()> {
        let (read, _) = recv(&self.connections[key].socket, &mut *buffer, RecvFlags::empty())?;
        let mut input = &mut buffer[..read];
        if input.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if !self.connections[key].upgraded {
            let (answer, length) = upgrade(input)?;
            self.connections[key].upgraded = true;
            self.connections[key].write(&[answer.as_bytes(), &self.hello].concat())?;
            input = &mut input[length..];
        }
        while let Some((frame, length)) =
            decode(input, &mut Fragments::default(), READ_BUFFER).map_err(io::Error::other)?
        {
            match frame {
                ClientFrame::Text(text) => self.carry_out(key, &text)?,
                ClientFrame::Close(_) => return Err(io::ErrorKind::ConnectionAborted.into()),
                _ => {}
            }
            input = &mut input[length..];
        }
        if input.is_empty() { Ok(()) } else { Err(io::ErrorKind::InvalidData.into()) }
    }

    fn carry_out(&mut self, key: usize, text: &str) -> io::Result<()> {
        let reply = match parse_command(text) {
            CommandRequest { id: Some(id), command: Ok(Command::Subscribe { channel, .. }) } => {
                self.connections[key].subscribed = true;
                messages::subscribed(id, &channel, self.published)
            }
            CommandRequest { id: Some(id), command: Ok(Command::Publish { channel, data, .. }) } => {
                self.published += 1;
                self.broadcast(&text_frame(messages::message(self.published, &channel, &data)));
                messages::published(id, self.published)
            }
            _ => return Ok(()),
        };
        self.connections[key].write(&text_frame(reply))
    }

    /// Sends a message to all subscribers. A failed connection is reported by the next wait, and then
    /// removed.
    fn broadcast(&self, message: &[u8]) {
        for (_, connection) in self.connections.iter().filter(|(_, connection)| connection.subscribed) {
            let _ = connection.write(message);
        }
    }

    fn ping_batch(&mut self) {
        for key in &self.due[self.current] {
            let connection = &self.connections[*key as usize];
            if connection.upgraded {
                let _ = connection.write(&self.ping);
            }
        }
        self.current = (self.current + 1) % self.due.len();
    }
}

impl BareConnection {
    /// Sends bytes. A client that does not read is disconnected when the kernel's send buffer is full.
    fn write(&self, bytes: &[u8]) -> io::Result<()> {
        if send(&self.socket, bytes, SendFlags::NOSIGNAL)? < bytes.len() {
            rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Both)?;
        }
        Ok(())
    }
}

/// Returns the response to a WebSocket upgrade request, and the request's length.
fn upgrade(input: &[u8]) -> io::Result<(String, usize)> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    let httparse::Status::Complete(length) = request.parse(input).map_err(io::Error::other)? else {
        return Err(io::ErrorKind::InvalidData.into());
    };
    let key = request.headers.iter().find(|header| header.name.eq_ignore_ascii_case("sec-websocket-key"));
    let accept = derive_accept_key(key.ok_or(io::ErrorKind::InvalidData)?.value);
    let head = "HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: websocket";
    Ok((format!("{head}\r\nsec-websocket-accept: {accept}\r\n\r\n"), length))
}

fn text_frame(text: String) -> Vec<u8> {
    encode(Frame::message(text.into_bytes(), OpCode::Data(Data::Text), true))
}

fn encode(frame: Frame) -> Vec<u8> {
    let mut bytes = Vec::new();
    frame.format(&mut bytes).expect("a vector can be written to");
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_takes_12_bytes() {
        assert_eq!(size_of::<BareConnection>(), 12);
    }

    /// Uses the example in RFC 6455, section 1.3.
    #[test]
    fn only_a_complete_request_is_answered() {
        let request = b"GET /ws HTTP/1.1\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\nfurther";
        let complete = request.len() - "further".len();
        assert!(upgrade(&request[..complete - 1]).is_err());
        let (answer, length) = upgrade(request).expect("a valid request");
        assert_eq!(length, complete);
        assert!(answer.contains("sec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"), "{answer}");
    }
}
