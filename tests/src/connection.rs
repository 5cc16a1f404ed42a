//! A blocking connection that keeps what it has received until a test takes it, and the options of new sockets.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use socket2::{Domain, SockRef, Socket, Type};

use crate::http::{HttpResponse, take_response};
use crate::waiting::TIMEOUT;

const READ_TIMEOUT: Duration = Duration::from_millis(5);

/// Options of a new socket.
#[derive(Clone, Copy, Debug, Default)]
pub struct Dial {
    source: Option<IpAddr>,
    receive_buffer: Option<usize>,
}

impl Dial {
    /// Connects from a local address. All of 127.0.0.0/8 is local.
    pub fn from(source: &str) -> Self {
        Self { source: Some(source.parse().expect("an IP address")), ..Self::default() }
    }

    /// Connects with a small receive buffer, so that a client that does not read soon blocks the server.
    pub fn with_receive_buffer(bytes: usize) -> Self {
        Self { receive_buffer: Some(bytes), ..Self::default() }
    }

    #[track_caller]
    pub fn connect(self, address: SocketAddr) -> TcpStream {
        let connect = || -> io::Result<TcpStream> {
            let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
            if let Some(size) = self.receive_buffer {
                socket.set_recv_buffer_size(size)?;
            }
            if let Some(source) = self.source {
                socket.bind(&SocketAddr::new(source, 0).into())?;
            }
            socket.connect(&address.into())?;
            Ok(socket.into())
        };
        connect().expect("the server accepts")
    }
}

/// TCP, or TLS over it.
pub trait Transport: Read + Write {
    fn tcp(&self) -> &TcpStream;
}

impl Transport for TcpStream {
    fn tcp(&self) -> &TcpStream {
        self
    }
}

/// Client connection that sends and receives bytes, HTTP messages ([`http`](crate::http)), WebSocket frames
/// ([`raw`](crate::raw)) or polls ([`poll`](crate::poll)), and does nothing on its own.
#[derive(Debug)]
pub struct Connection<S = TcpStream> {
    pub(crate) stream: S,
    received: Vec<u8>,
    /// Start of the last read that found nothing.
    pub(crate) last_empty_read: Instant,
    /// Time just before the upgrade request was sent.
    pub started_at: Instant,
}

impl Connection {
    #[track_caller]
    pub fn connect(address: SocketAddr) -> Self {
        Self::over(Dial::default().connect(address))
    }
}

impl<S: Transport> Connection<S> {
    pub fn over(stream: S) -> Self {
        let tcp = stream.tcp();
        tcp.set_nodelay(true).expect("the socket option can be set");
        tcp.set_read_timeout(Some(READ_TIMEOUT)).expect("the socket timeout can be set");
        tcp.set_write_timeout(Some(TIMEOUT)).expect("the socket timeout can be set");
        let now = Instant::now();
        Self { stream, received: Vec::new(), last_empty_read: now, started_at: now }
    }

    pub fn stream(&self) -> &S {
        &self.stream
    }

    #[track_caller]
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.try_send(bytes).expect("the connection is open");
    }

    pub fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        self.stream.write_all(bytes.as_ref())?;
        self.stream.flush()
    }

    /// Reads until `take` removes a whole item from what has been received. Returns `None` if that does not
    /// happen within `limit`.
    /// If the connection ends, returns [`ErrorKind::UnexpectedEof`] or the kernel's error.
    pub(crate) fn take_within<T>(
        &mut self,
        limit: Duration,
        mut take: impl FnMut(&mut Vec<u8>) -> Option<T>,
    ) -> io::Result<Option<T>> {
        let until = Instant::now() + limit;
        loop {
            if let Some(taken) = take(&mut self.received) {
                return Ok(Some(taken));
            }
            match self.read_some(until)? {
                None => return Ok(None),
                Some(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Some(_) => {}
            }
        }
    }

    /// Reads until `take` removes a whole item from what has been received. Returns `None` if the connection
    /// ends first, which it must not do in the middle of an item.
    #[track_caller]
    pub(crate) fn take<T>(&mut self, take: impl FnMut(&mut Vec<u8>) -> Option<T>) -> Option<T> {
        match self.take_within(TIMEOUT, take) {
            Ok(Some(taken)) => Some(taken),
            Err(error) if self.received.is_empty() && is_end(&error) => None,
            Ok(None) => panic!("neither whole nor ended: {:?}", self.received.escape_ascii().to_string()),
            Err(error) => panic!("{error} after {:?}", self.received.escape_ascii().to_string()),
        }
    }

    /// Reads the head of an HTTP response, including the empty line.
    #[track_caller]
    pub fn http_head(&mut self) -> String {
        let head = self.take(|received| take_through(received, b"\r\n\r\n")).expect("a response arrives");
        String::from_utf8(head).expect("heads are text")
    }

    /// Sends a request and returns its response.
    #[track_caller]
    pub fn exchange(&mut self, request: impl AsRef<[u8]>) -> HttpResponse {
        self.send(request);
        self.response()
    }

    #[track_caller]
    pub fn response(&mut self) -> HttpResponse {
        self.try_response().expect("a response arrives before the end of the connection")
    }

    /// Reads the next HTTP response. `None` at the end of the connection.
    #[track_caller]
    pub fn try_response(&mut self) -> Option<HttpResponse> {
        self.take(take_response)
    }

    /// Reads everything until the connection ends, possibly with a reset.
    #[track_caller]
    pub fn read_to_end(&mut self) -> Vec<u8> {
        let until = Instant::now() + TIMEOUT;
        loop {
            match self.read_some(until) {
                Ok(None) => panic!("the connection does not end"),
                Ok(Some(0)) | Err(_) => return std::mem::take(&mut self.received),
                Ok(Some(_)) => {}
            }
        }
    }

    /// Waits for the end of the connection, and discards the input before it. Returns the time of the end.
    #[track_caller]
    pub fn await_end(&mut self) -> Instant {
        self.read_to_end();
        Instant::now()
    }

    pub fn reset(self) {
        let linger = SockRef::from(self.stream.tcp()).set_linger(Some(Duration::ZERO));
        linger.expect("the socket option can be set");
    }

    /// Reads what is available. Returns `None` if nothing arrives before `until`, and 0 at the end of the
    /// stream.
    fn read_some(&mut self, until: Instant) -> io::Result<Option<usize>> {
        let mut buffer = [0; 16 * 1024];
        loop {
            let now = Instant::now();
            match self.stream.read(&mut buffer).map_err(|error| (error.kind(), error)) {
                Ok(read) => {
                    self.received.extend(&buffer[..read]);
                    return Ok(Some(read));
                }
                Err((ErrorKind::WouldBlock | ErrorKind::TimedOut, _)) => self.last_empty_read = now,
                Err((ErrorKind::Interrupted, _)) => {}
                Err((_, error)) => return Err(error),
            }
            if now >= until {
                return Ok(None);
            }
        }
    }
}

fn is_end(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset)
}

/// Removes everything up to and including `end`.
pub fn take_through(received: &mut Vec<u8>, end: &[u8]) -> Option<Vec<u8>> {
    let at = received.windows(end.len()).position(|bytes| bytes == end)?;
    Some(received.drain(..at + end.len()).collect())
}
