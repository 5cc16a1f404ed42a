//! Server-sent events: the body of an HTTP response, as specified in section 9.2 of the WHATWG HTML standard.

use std::io::ErrorKind;
use std::ops::ControlFlow;
use std::task::{Context, Poll, ready};

use tokio::io::AsyncWriteExt;

use super::event_parser::EventParser;
use super::http::{Framing, ResponseHead};
use super::stream::poll_parse;
use super::websocket::{ConnectionEnd, ProtocolFault};
use super::{ConnectError, Endpoint, Stream};
use crate::event::{ClientEvent, EventQueue};

const EVENT_STREAM: &str = "text/event-stream";

#[derive(Debug)]
pub(crate) struct EventStream {
    stream: Stream,
    framing: Framing,
    /// Bytes that cannot be assigned to the body or its framing yet.
    unparsed: Vec<u8>,
    parser: EventParser,
    received: EventQueue,
}

impl EventStream {
    /// Requests the stream, with additional header lines. With `last_id`, the stream continues after the
    /// event with this id.
    pub(crate) async fn open(
        mut stream: Stream,
        endpoint: &Endpoint,
        headers: &str,
        last_id: Option<&str>,
    ) -> Result<Self, ConnectError> {
        let after = last_id.map_or_else(String::new, |id| format!("Last-Event-ID: {id}\r\n"));
        let headers = format!("Accept: {EVENT_STREAM}\r\nCache-Control: no-store\r\n{headers}{after}");
        stream.write_all(&endpoint.request("GET", &endpoint.url.path_with(""), &headers, "")).await?;
        stream.flush().await?;
        let head = ResponseHead::read(&mut stream).await?;
        if head.status != 200 {
            return Err(ConnectError::Refused(head.status));
        }
        let kind = head.header("content-type").and_then(|it| it.split(';').next()).unwrap_or_default();
        if !kind.trim().eq_ignore_ascii_case(EVENT_STREAM) {
            return Err(ConnectError::NoEventStream);
        }
        let (parser, received) = (EventParser::default(), EventQueue::default());
        Ok(Self { stream, framing: Framing::of(&head), unparsed: head.rest, parser, received })
    }

    /// Passes everything that arrives to `on_event`, until it breaks or the stream ends.
    pub(crate) fn poll_each<T>(
        &mut self,
        context: &mut Context<'_>,
        on_event: &mut impl FnMut(ClientEvent<'_>) -> ControlFlow<T>,
    ) -> Poll<Result<T, ConnectionEnd>> {
        loop {
            if let ControlFlow::Break(value) = self.received.deliver(on_event) {
                return Poll::Ready(Ok(value));
            }
            if self.framing.is_over() {
                return Poll::Ready(Err(ConnectionEnd::Closed(None)));
            }
            let Self { stream, framing, unparsed, parser, received } = self;
            let fault =
                poll_parse(stream, context, unparsed, |input| parse(input, framing, parser, received).err());
            match ready!(fault) {
                Ok(None) => {}
                Ok(Some(fault)) => return Poll::Ready(Err(ConnectionEnd::Fault(fault))),
                Err(error) => {
                    let is_end = error.kind() == ErrorKind::UnexpectedEof && self.framing.may_end();
                    let end = if is_end { ConnectionEnd::Closed(None) } else { ConnectionEnd::NoCloseFrame };
                    return Poll::Ready(Err(end));
                }
            }
        }
    }
}

fn parse(
    input: &mut &[u8],
    framing: &mut Framing,
    parser: &mut EventParser,
    received: &mut EventQueue,
) -> Result<(), ProtocolFault> {
    loop {
        match framing.next(input)? {
            [] => return Ok(()),
            bytes => parser.push(bytes, received)?,
        }
    }
}
