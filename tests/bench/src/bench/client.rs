//! The crowd: many clients that connect at a rate and answer pings. As an audience they subscribe, and count what comes.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use nix::sys::socket::{setsockopt, sockopt::IpBindAddressNoPort};
use tokio::io::{AsyncRead, AsyncWriteExt, ReadBuf};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

use crate::Failure;
use crate::audience::{self, Audience, Ear, Refused};
use crate::frames::{self, Frame};

/// Source addresses, taken in turn: one has about 28,000 ports, and finding a free one gets slow at half of them.
const ADDRESSES: u32 = 8;
/// How long the last connection may take to its hello, after it was due.
const PATIENCE: Duration = Duration::from_secs(20);
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// All clients. Dropping it drops their sockets.
#[derive(Debug)]
pub(crate) struct Crowd {
    counts: Rc<Counts>,
    size: u32,
    _clients: JoinSet<()>,
}

/// What the clients have seen.
#[derive(Debug, Default)]
struct Counts {
    /// Connections that got a first text.
    greeted: Cell<u32>,
    /// Connections that got a first ping.
    pinged: Cell<u32>,
    /// Pings answered.
    pings: Cell<u64>,
    /// Connections that have ended, greeted or not.
    ended: Cell<u32>,
    last_error: RefCell<Option<io::Error>>,
    /// What they have heard, if they are to subscribe.
    audience: Option<Audience>,
}

impl Crowd {
    /// Connects `size` clients, `rate` a second, and waits for their hellos.
    pub(crate) async fn connect(server: SocketAddr, size: u32, rate: u32) -> Result<Self, Failure> {
        Self::gather(server, size, rate, Counts::default()).await
    }

    /// The same, and has each of them subscribe.
    pub(crate) async fn subscribe(
        server: SocketAddr,
        size: u32,
        rate: u32,
        audience: Audience,
    ) -> Result<Self, Failure> {
        let counts = Counts { audience: Some(audience), ..Counts::default() };
        let crowd = Self::gather(server, size, rate, counts).await?;
        let subscribed = |counts: &Counts| counts.audience.as_ref().map_or(0, |it| it.subscribed.get());
        crowd.wait_for(subscribed, PATIENCE, "subscribed").await?;
        Ok(crowd)
    }

    async fn gather(server: SocketAddr, size: u32, rate: u32, counts: Counts) -> Result<Self, Failure> {
        let counts = Rc::new(counts);
        let mut clients = JoinSet::new();
        let start = Instant::now();
        for number in 0..size {
            let due = start + Duration::from_secs(1) * number / rate;
            if due > Instant::now() {
                sleep_until(due).await;
            }
            clients.spawn_local(live(server, number, Rc::clone(&counts)));
        }
        let crowd = Self { counts, size, _clients: clients };
        crowd.wait_for(|counts| counts.greeted.get(), PATIENCE, "greeted").await?;
        Ok(crowd)
    }

    /// Waits until each of them had its first ping.
    pub(crate) async fn all_pinged(&self, patience: Duration) -> Result<(), Failure> {
        self.wait_for(|counts| counts.pinged.get(), patience, "pinged").await
    }

    /// How many pings were answered.
    pub(crate) fn pings(&self) -> u64 {
        self.counts.pings.get()
    }

    /// What they have heard, if they have subscribed.
    pub(crate) fn audience(&self) -> Option<&Audience> {
        self.counts.audience.as_ref()
    }

    /// How many connections have ended.
    pub(crate) fn ended(&self) -> u32 {
        self.counts.ended.get()
    }

    async fn wait_for(
        &self,
        count: impl Fn(&Counts) -> u32,
        patience: Duration,
        what: &str,
    ) -> Result<(), Failure> {
        let until = Instant::now() + patience;
        while count(&self.counts) < self.size {
            if self.ended() > 0 || Instant::now() > until {
                let counted = count(&self.counts);
                let (size, ended) = (self.size, self.ended());
                let why = self.counts.last_error.borrow().as_ref().map(|error| format!(": {error}"));
                let why = why.unwrap_or_default();
                return Err(
                    format!("{counted} of {size} clients were {what}; {ended} have ended{why}").into()
                );
            }
            sleep(LOOK_AGAIN).await;
        }
        Ok(())
    }
}

async fn live(server: SocketAddr, number: u32, counts: Rc<Counts>) {
    let ended = match connect(server, number).await {
        Ok(stream) => {
            let mut client =
                Client { stream, rest: Vec::new(), stage: Stage::Upgrading, ear: Ear::default() };
            poll_fn(|context| client.poll(context, &counts)).await
        }
        Err(error) => Err(error),
    };
    counts.ended.set(counts.ended.get() + 1);
    *counts.last_error.borrow_mut() = ended.err();
}

pub(crate) async fn connect(server: SocketAddr, number: u32) -> io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.set_nodelay(true)?;
    // The port is chosen at connect; `bind` would reserve it for all destinations.
    setsockopt(&socket, IpBindAddressNoPort, &true)?;
    let host = (number % ADDRESSES) as u8 + 1;
    socket.bind((Ipv4Addr::new(127, 0, 0, host), 0).into())?;
    let mut stream = socket.connect(server).await?;
    let request = format!(
        "GET /ws HTTP/1.1\r\nHost: {server}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await?;
    Ok(stream)
}

/// One client. What it does costs the server nothing, but should be small: there are as many as connections.
struct Client {
    stream: TcpStream,
    /// The beginning of what has not arrived in whole.
    rest: Vec<u8>,
    stage: Stage,
    ear: Ear,
}

#[derive(Clone, Copy, PartialEq)]
enum Stage {
    Upgrading,
    Upgraded,
    Greeted,
    Pinged,
}

impl Client {
    fn poll(&mut self, context: &mut Context<'_>, counts: &Counts) -> Poll<io::Result<()>> {
        loop {
            let mut buffer = [0; 1024];
            let mut buffer = ReadBuf::new(&mut buffer);
            ready!(Pin::new(&mut self.stream).poll_read(context, &mut buffer))?;
            if buffer.filled().is_empty() {
                return Poll::Ready(Err(io::Error::new(
                    io::ErrorKind::UnexpectedEof,
                    "closed by the server",
                )));
            }
            if self.rest.is_empty() {
                // As a rule what arrives is whole.
                let used = self.take_in(buffer.filled(), counts)?;
                self.rest.extend_from_slice(&buffer.filled()[used..]);
                continue;
            }
            let mut bytes = std::mem::take(&mut self.rest);
            bytes.extend_from_slice(buffer.filled());
            let used = self.take_in(&bytes, counts)?;
            self.rest = bytes.split_off(used);
        }
    }

    /// Returns how much of `bytes` is done with.
    fn take_in(&mut self, bytes: &[u8], counts: &Counts) -> io::Result<usize> {
        let mut used = 0;
        if self.stage == Stage::Upgrading {
            let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else { return Ok(0) };
            if !bytes.starts_with(b"HTTP/1.1 101 ") {
                return Err(invalid("the server does not upgrade"));
            }
            self.stage = Stage::Upgraded;
            used = end + 4;
        }
        while let Some((frame, length)) =
            frames::parse(&bytes[used..]).map_err(|_| invalid("the server sent a bad frame"))?
        {
            match frame {
                Frame::Text(text) => self.hear(text, counts)?,
                Frame::Ping(payload) => self.answer(payload, counts)?,
                Frame::Close => return Err(invalid("the server sent a Close frame")),
                Frame::Other => {}
            }
            used += length;
        }
        Ok(used)
    }

    fn hear(&mut self, text: &[u8], counts: &Counts) -> io::Result<()> {
        if self.stage == Stage::Upgraded {
            self.stage = Stage::Greeted;
            counts.greeted.set(counts.greeted.get() + 1);
            if counts.audience.is_some() {
                self.send(&frames::masked_text(audience::SUBSCRIBE))?;
            }
        } else if let Some(audience) = &counts.audience {
            let heard = audience.hear(text, &mut self.ear);
            heard.map_err(|Refused| invalid("the server lets no one subscribe"))?;
        }
        Ok(())
    }

    /// What clients say is short, and the kernel has room for it.
    fn send(&self, bytes: &[u8]) -> io::Result<()> {
        if self.stream.try_write(bytes)? < bytes.len() {
            return Err(io::ErrorKind::WriteZero.into());
        }
        Ok(())
    }

    fn answer(&mut self, payload: &[u8], counts: &Counts) -> io::Result<()> {
        let mut buffer = frames::PONG_BUFFER;
        let pong = frames::pong(payload, &mut buffer);
        self.send(pong)?;
        counts.pings.set(counts.pings.get() + 1);
        if self.stage != Stage::Pinged {
            self.stage = Stage::Pinged;
            counts.pinged.set(counts.pinged.get() + 1);
        }
        Ok(())
    }
}

fn invalid(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}
