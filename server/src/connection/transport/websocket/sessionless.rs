//! WebSockets without a session, for a dialect that opens sessions with messages.

use std::future::poll_fn;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use encke_core::close::CloseCode;
use encke_core::dialect::TextSink;
use encke_core::frame::{ClientFrame, Fragments, decode};
use tokio::io::ReadBuf;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use super::frame::Frames;
use super::protocol::{WebSocket, close_code};
use super::{BayeuxSocket, Upgraded};
use crate::admission::PartialMessage;
use crate::client::{PartialMessageSender, Services};
use crate::connection::{Ending, PendingWrite, Socket, close_socket, poll_read_with_time};
use crate::session::Arrival;

/// Number of bytes read at a time.
const READ_BYTES: usize = 2048;

/// An upgraded socket without a session. Its input beyond the current message is kept for the session.
pub(crate) struct SessionlessSocket<S> {
    socket: S,
    read: Vec<u8>,
    /// When the kernel received the first byte of the message that is being received.
    message_received: Option<Duration>,
    /// When the kernel received the first byte of the next read. Known before the read completes if TLS has read
    /// part of a record.
    next_received: Option<Duration>,
    fragments: Fragments,
    out: PendingWrite,
    account: PartialMessage<PartialMessageSender>,
    /// Ready when this socket's partial message has been evicted.
    evicted: Pin<Box<WaitForCancellationFutureOwned>>,
    services: Arc<Services>,
}

impl<S: Socket> SessionlessSocket<S> {
    pub(crate) fn new((socket, read): Upgraded<S>, address: IpAddr, services: &Arc<Services>) -> Self {
        let evicted = CancellationToken::new();
        let now = services.timeouts.clock().now();
        let sender = PartialMessageSender::Request(evicted.clone());
        let account = services.limits.partial_messages.begin(sender, address, now);
        Self {
            message_received: (!read.is_empty()).then(|| socket.last_received()),
            next_received: None,
            socket,
            read,
            fragments: Fragments::default(),
            out: PendingWrite::default(),
            account,
            evicted: Box::pin(evicted.cancelled_owned()),
            services: Arc::clone(services),
        }
    }

    /// Sets the first output, before anything else is sent.
    pub(crate) fn begin(&mut self, output: Vec<u8>) {
        self.out = output.into();
    }

    /// Returns the next text message, and when its first byte arrived.
    ///
    /// # Errors
    /// Returns why the socket ends.
    pub(crate) async fn next(&mut self) -> Result<(String, Arrival), Ending> {
        poll_fn(|task| self.poll_next(task)).await
    }

    fn poll_next(&mut self, task: &mut Context<'_>) -> Poll<Result<(String, Arrival), Ending>> {
        if self.evicted.as_mut().poll(task).is_ready() {
            return Poll::Ready(Err(CloseCode::TryAgainLater.into()));
        }
        loop {
            // Pongs come first: a client that sends pings without reading must not fill the memory.
            ready!(self.poll_flush(task))?;
            match self.take_frame()? {
                Some(Some(message)) => return Poll::Ready(Ok(message)),
                Some(None) => {}
                None => ready!(self.poll_read(task))?,
            }
        }
    }

    /// Handles the first frame of the input. Returns the text message that the frame completes, if any. The outer
    /// `None` means that no frame is complete.
    fn take_frame(&mut self) -> Result<Option<Option<(String, Arrival)>>, Ending> {
        let max_message = self.services.settings.max_message;
        let decoded = decode(&mut self.read, &mut self.fragments, max_message)
            .map_err(|error| Ending::from(close_code(error)))?;
        let Some((frame, length)) = decoded else {
            self.account();
            return Ok(None);
        };
        let mut frames = Frames(&mut self.out.bytes);
        let text = match frame {
            ClientFrame::Text(text) => Some(text.into_owned()),
            ClientFrame::Ping(payload) => {
                frames.pong(payload);
                None
            }
            ClientFrame::Pong(_) | ClientFrame::Fragment => None,
            ClientFrame::Binary => return Err(CloseCode::UnsupportedData.into()),
            ClientFrame::Close(code) => return Err(Ending::ClosedByPeer(code)),
        };
        self.read.drain(..length);
        self.read.shrink_to_fit();
        self.account();
        let received = if self.fragments.is_empty() { self.message_received.take() } else { None };
        let arrival = || Arrival::at(received.unwrap_or_else(|| self.socket.last_received()));
        Ok(Some(text.map(|text| (text, arrival()))))
    }

    fn account(&self) {
        let (bytes, now) =
            (self.read.capacity() + self.fragments.capacity(), self.services.timeouts.clock().now());
        self.services.account_partial_message(&self.account, bytes, now);
    }

    fn poll_read(&mut self, task: &mut Context<'_>) -> Poll<Result<(), Ending>> {
        let mut scratch = [0; READ_BYTES];
        let mut buffer = ReadBuf::new(&mut scratch);
        let read = ready!(poll_read_with_time(&mut self.socket, task, &mut buffer, &mut self.next_received));
        if read.is_err() || buffer.filled().is_empty() {
            return Poll::Ready(Err(Ending::Lost));
        }
        let received = self.next_received.take();
        self.message_received = self.message_received.or(received);
        self.read.extend_from_slice(buffer.filled());
        Poll::Ready(Ok(()))
    }

    fn poll_flush(&mut self, task: &mut Context<'_>) -> Poll<Result<(), Ending>> {
        if self.out.is_empty() {
            return Poll::Ready(Ok(()));
        }
        self.out.poll_write(task, &mut self.socket).map(|written| written.map(drop).map_err(|_| Ending::Lost))
    }

    /// Sends a text message.
    ///
    /// # Errors
    /// Returns why the socket ends.
    pub(crate) async fn send(&mut self, text: &str) -> Result<(), Ending> {
        Frames(&mut self.out.bytes).text(text);
        poll_fn(|task| self.poll_flush(task)).await
    }

    pub(crate) fn into_parts(self) -> Upgraded<S> {
        (self.socket, self.read)
    }

    /// Closes the socket.
    pub(crate) async fn close(self, ending: Ending) {
        let Self { socket, read, fragments, account, out, services, .. } = self;
        // Free the memory of a partial message now: the closing handshake may take a while.
        drop((read, fragments, account));
        close_socket::<S, WebSocket<BayeuxSocket, ()>>(socket, out, ending, &services).await;
    }

    /// When the latest bytes arrived.
    pub(crate) fn last_arrival(&self) -> Arrival {
        Arrival::at(self.socket.last_received())
    }

    /// Whether the client has ended the connection.
    pub(crate) fn is_closed_by_peer(&self) -> bool {
        self.socket.is_closed_by_peer()
    }
}
