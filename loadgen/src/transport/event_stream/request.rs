//! Request for an event stream (section 9.2.2 of the HTML standard), without origins and redirects.

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::stream::EventStream;
use crate::transport::body::Framing;
use crate::transport::error::ConnectError;
use crate::transport::http_head::ResponseHead;

const EVENT_STREAM: &str = "text/event-stream";

/// Requests the stream at `path` from `host`, with additional header lines. With `last_id`, the stream
/// continues after the event with this id.
pub(crate) async fn request(
    mut stream: TcpStream,
    host: &str,
    path: &str,
    headers: &str,
    last_id: Option<&str>,
) -> Result<EventStream, ConnectError> {
    let after = last_id.map_or_else(String::new, |id| format!("Last-Event-ID: {id}\r\n"));
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: {host}\r\nAccept: {EVENT_STREAM}\r\nCache-Control: no-store\r\n{headers}{after}\r\n"
    );
    stream.write_all(request.as_bytes()).await?;
    let head = ResponseHead::read(&mut stream).await?;
    if head.status != 200 {
        return Err(ConnectError::Refused(head.status));
    }
    let content_type = head.header("content-type").and_then(|it| it.split(';').next()).unwrap_or_default();
    if !content_type.trim().eq_ignore_ascii_case(EVENT_STREAM) {
        return Err(ConnectError::NoEventStream);
    }
    Ok(EventStream::new(stream, Framing::of(&head), head.rest))
}
