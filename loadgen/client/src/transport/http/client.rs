//! An HTTP client. It reconnects after the server has closed the connection.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::ReusableBoxFuture;

use super::body::Framing;
use super::head::ResponseHead;
use crate::transport::stream::{poll_parse, poll_read, poll_write_all, tcp};
use crate::transport::websocket::{ConnectionEnd, ProtocolFault};
use crate::transport::{ConnectError, Endpoint, Stream};

/// Size limit for a response, which may contain all messages that a server has gathered for a client.
const MAX_RESPONSE_BYTES: usize = 4 << 20;

#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) method: &'static str,
    pub(crate) path: String,
    pub(crate) body: String,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
    /// Time since the request was sent.
    pub(crate) waited: Duration,
    /// Whether this is the last response on the connection, so that no other request may follow.
    is_last: bool,
}

/// Sends one request after the other. A server may delay a response, as in long-polling. Until the response
/// arrives, only the socket is kept: bytes are read into the thread's shared buffer.
#[derive(Debug)]
pub(crate) struct HttpClient {
    endpoint: Arc<Endpoint>,
    /// Header lines of every request.
    headers: Arc<str>,
    /// Local address and the server's address. `None`: resolved when connecting.
    route: Option<(IpAddr, SocketAddr)>,
    connection: Connection,
    unwritten: Vec<u8>,
    /// Incomplete response.
    unparsed: Vec<u8>,
    /// When the pending request was sent.
    sent_at: Option<Instant>,
}

#[derive(Debug)]
enum Connection {
    Closed,
    Connecting(ReusableBoxFuture<'static, Result<Stream, ConnectError>>),
    Open(Stream),
}

impl HttpClient {
    pub(crate) fn new(endpoint: &Arc<Endpoint>, headers: Arc<str>) -> Self {
        Self {
            endpoint: Arc::clone(endpoint),
            headers,
            route: None,
            connection: Connection::Closed,
            unwritten: Vec::new(),
            unparsed: Vec::new(),
            sent_at: None,
        }
    }

    /// Returns a client with this connection. Later connections have the same addresses, so that the server
    /// attributes them to the same client.
    pub(crate) fn over(stream: Stream, endpoint: &Arc<Endpoint>, headers: Arc<str>) -> Self {
        let local = tcp(&stream).local_addr().map(|address| address.ip()).ok();
        let route = local.zip(tcp(&stream).peer_addr().ok());
        Self { route, connection: Connection::Open(stream), ..Self::new(endpoint, headers) }
    }

    /// Returns a client for a second connection between the same addresses.
    pub(crate) fn second(&self) -> Self {
        Self { route: self.route, ..Self::new(&self.endpoint, Arc::clone(&self.headers)) }
    }

    pub(crate) fn is_pending(&self) -> bool {
        self.sent_at.is_some()
    }

    /// Ready when the next request can be sent. A new connection is opened for it if none is open, if the server
    /// has closed the last one, or if the caller did not wait for the response to the previous request.
    pub(crate) fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), ConnectError>> {
        if self.sent_at.take().is_some() || self.poll_end(context).is_ready() {
            let connecting = Arc::clone(&self.endpoint).connect(self.route);
            self.connection = Connection::Connecting(ReusableBoxFuture::new(connecting));
            (self.unwritten, self.unparsed) = (Vec::new(), Vec::new());
        }
        if let Connection::Connecting(connecting) = &mut self.connection {
            let stream = ready!(connecting.poll(context));
            self.connection = Connection::Closed;
            self.connection = Connection::Open(stream?);
        }
        Poll::Ready(Ok(()))
    }

    /// Becomes ready when there is no connection, because the server has closed it or has sent something
    /// without a request. No request may be pending.
    pub(crate) fn poll_end(&mut self, context: &mut Context<'_>) -> Poll<()> {
        match &mut self.connection {
            Connection::Open(stream) => poll_read(stream, context, &mut [0]).map(drop),
            Connection::Connecting(_) => Poll::Pending,
            Connection::Closed => Poll::Ready(()),
        }
    }

    /// Sends the request that `make` returns, unless one is pending already, and returns the response. After
    /// `Pending`, the caller may stop calling without losing data.
    pub(crate) fn poll_exchange(
        &mut self,
        context: &mut Context<'_>,
        make: impl FnOnce() -> Request,
    ) -> Poll<Result<Response, ConnectionEnd>> {
        if !self.is_pending() {
            ready!(self.poll_ready(context)).map_err(|_| ConnectionEnd::NoCloseFrame)?;
        }
        let Self { connection: Connection::Open(stream), unparsed, .. } = self else {
            return Poll::Ready(Err(ConnectionEnd::NoCloseFrame));
        };
        let sent_at = *self.sent_at.get_or_insert_with(|| {
            let Request { method, path, body } = make();
            self.unwritten = self.endpoint.request(method, &path, &self.headers, &body);
            // Take the time before the request is sent, so that a wait never seems shorter than it was.
            Instant::now()
        });
        // Ignore errors: a server may respond before it has read the whole request.
        let _ = poll_write_all(stream, context, &mut self.unwritten);
        let response = loop {
            match ready!(poll_parse(stream, context, unparsed, |input| parse(input, false).transpose())) {
                Ok(None) => {}
                Ok(Some(response)) => break response?,
                Err(_) => break parse(&mut unparsed.as_slice(), true)?.ok_or(ConnectionEnd::NoCloseFrame)?,
            }
        };
        self.sent_at = None;
        if response.is_last {
            self.connection = Connection::Closed;
        }
        Poll::Ready(Ok(Response { waited: sent_at.elapsed(), ..response }))
    }
}

/// Removes a response from the beginning of the bytes, if it is complete. `is_over`: the stream has ended.
fn parse(input: &mut &[u8], is_over: bool) -> Result<Option<Response>, ConnectionEnd> {
    let (total, mut rest) = (input.len(), *input);
    let head = ResponseHead::parse(&mut rest).map_err(|_| ConnectionEnd::Fault(ProtocolFault::NotHttp))?;
    let Some(head) = head else { return Ok(None) };
    if total > MAX_RESPONSE_BYTES {
        return Err(ConnectionEnd::Fault(ProtocolFault::TooBig(total as u64)));
    }
    let (mut framing, mut body) = (Framing::of(&head), Vec::new());
    loop {
        match framing.next(&mut rest).map_err(ConnectionEnd::Fault)? {
            [] => break,
            bytes => body.extend_from_slice(bytes),
        }
    }
    let is_complete = framing.is_over() || (is_over && framing.may_end());
    if !is_complete {
        return Ok(None);
    }
    *input = rest;
    let is_last = is_over || head.has_token("connection", "close");
    Ok(Some(Response { status: head.status, body, waited: Duration::ZERO, is_last }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parses a response, and the bytes that follow it.
    fn read(text: &str, is_over: bool) -> Result<Option<(u16, String, bool, usize)>, ConnectionEnd> {
        let mut input = text.as_bytes();
        let response = parse(&mut input, is_over)?;
        Ok(response.map(|Response { status, body, is_last, .. }| {
            (status, String::from_utf8(body).expect("the body is text"), is_last, input.len())
        }))
    }

    #[test]
    fn responses_end_where_their_framing_says() {
        for (head, body, is_over, expected) in [
            ("200 OK\r\nContent-Length: 2\r\n", "[]rest", false, (200, "[]", false, 4)),
            ("409 x\r\nConnection: close\r\nContent-Length: 0\r\n", "", false, (409, "", true, 0)),
            (
                "200 OK\r\nTransfer-Encoding: chunked\r\n",
                "1\r\n[\r\nA;x=y\r\n,3 chunks:\r\n1\r\n]\r\n0\r\nTrailer: x\r\n\r\nrest",
                false,
                (200, "[,3 chunks:]", false, 4),
            ),
            ("200 OK\r\n", "[]", true, (200, "[]", true, 0)),
            ("204 No Content\r\n", "", false, (204, "", false, 0)),
        ] {
            let whole = format!("HTTP/1.1 {head}\r\n{body}");
            let (status, body, is_last, rest) = expected;
            assert_eq!(read(&whole, is_over), Ok(Some((status, body.to_owned(), is_last, rest))), "{whole}");
            for end in 0..whole.len() - rest {
                assert_eq!(read(&whole[..end], false), Ok(None), "{}", &whole[..end]);
            }
        }
        assert_eq!(read("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[", true), Ok(None));
    }

    #[test]
    fn invalid_responses_are_faults() {
        let head = |length: usize| format!("HTTP/1.1 200 OK\r\nA: {}", "x".repeat(length));
        for text in ["\x01\x02", &head(16 * 1024)] {
            assert_eq!(read(text, false), Err(ConnectionEnd::Fault(ProtocolFault::NotHttp)));
        }
        for chunk in ["x\r\n", "\r\n", "-1\r\n", "+1\r\n", "11111111111111111\r\n", "1\r\nabc", "0\r\n:\r\n"]
        {
            let text = format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{chunk}");
            assert_eq!(read(&text, false), Err(ConnectionEnd::Fault(ProtocolFault::Chunk)), "{chunk}");
        }
        let long = format!("{}\r\n\r\n{}", head(0), "x".repeat(MAX_RESPONSE_BYTES));
        assert!(matches!(read(&long, false), Err(ConnectionEnd::Fault(ProtocolFault::TooBig(_)))));
    }
}
