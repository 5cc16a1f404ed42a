//! Parses what a client receives on a WebSocket or an event stream.

use tungstenite::protocol::frame::coding::OpCode;

use super::frames::{self, CLOSE, PING, PONG, TEXT};
use super::{ClientLink, http_answer};

/// An item parsed from a client's input.
pub(super) enum ReceivedItem {
    Text(String),
    Ping(u64),
    Close(u16),
    Nothing,
}

impl ClientLink {
    /// Takes the next complete item from the bytes received.
    pub(super) fn next_item(&mut self) -> Result<Option<ReceivedItem>, String> {
        let (item, taken) = if self.is_websocket() {
            let Some((opcode, payload, taken)) = frames::read(&self.incoming)? else { return Ok(None) };
            (item_of(opcode, payload)?, taken)
        } else if !self.head_read {
            let Some(head) = http_answer::read_head(&self.incoming)? else { return Ok(None) };
            if head.status != 200 {
                return Err(format!("status {}", head.status));
            }
            self.head_read = true;
            (ReceivedItem::Nothing, head.length)
        } else {
            let Some((event, taken)) = read_event(&self.incoming)? else { return Ok(None) };
            self.event_id = event.id.filter(|id| *id != "end").map(ToOwned::to_owned);
            (event.data.map_or(ReceivedItem::Nothing, |data| ReceivedItem::Text(data.to_owned())), taken)
        };
        self.incoming.drain(..taken);
        Ok(Some(item))
    }
}

fn item_of(opcode: OpCode, payload: &[u8]) -> Result<ReceivedItem, String> {
    Ok(match (opcode, payload) {
        (TEXT, text) => {
            ReceivedItem::Text(String::from_utf8(text.to_vec()).map_err(|error| error.to_string())?)
        }
        (PING, payload) => ReceivedItem::Ping(u64::from_be_bytes(
            payload.try_into().map_err(|_| format!("a ping with payload {payload:?}"))?,
        )),
        (PONG, _) => ReceivedItem::Nothing,
        (CLOSE, [high, low, ..]) => ReceivedItem::Close(u16::from_be_bytes([*high, *low])),
        (CLOSE, _) => ReceivedItem::Close(1005),
        (opcode, _) => return Err(format!("a frame with opcode {opcode:?}")),
    })
}

/// A server-sent event.
#[derive(Debug, Default, PartialEq, Eq)]
struct StreamEvent<'a> {
    id: Option<&'a str>,
    data: Option<&'a str>,
}

/// Parses the first event in `bytes`. Returns it with its length, or `None` if it is incomplete.
fn read_event(bytes: &[u8]) -> Result<Option<(StreamEvent<'_>, usize)>, String> {
    let mut event = StreamEvent::default();
    if bytes.starts_with(b":") {
        // A comment ends with its line.
        let end = bytes.iter().position(|byte| *byte == b'\n');
        return Ok(end.map(|end| (event, end + 1)));
    }
    let Some(end) = bytes.windows(2).position(|two| two == b"\n\n") else { return Ok(None) };
    let text = std::str::from_utf8(&bytes[..end]).map_err(|error| error.to_string())?;
    for line in text.split('\n') {
        match line.split_once(':').map(|(name, value)| (name, value.strip_prefix(' ').unwrap_or(value))) {
            Some(("id", id)) => event.id = Some(id),
            Some(("data", data)) if event.data.is_none() => event.data = Some(data),
            Some(("retry", _)) => {}
            _ => return Err(format!("an invalid line of an event: {line}")),
        }
    }
    Ok(Some((event, end + 2)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn incomplete_events_are_not_parsed() {
        let bytes = b"id: t:7\ndata: {}\n\n:\nretry: 5\n\n";
        assert_eq!(read_event(bytes), Ok(Some((StreamEvent { id: Some("t:7"), data: Some("{}") }, 18))));
        assert_eq!(read_event(&bytes[18..]), Ok(Some((StreamEvent::default(), 2))));
        assert_eq!(read_event(b"id: t:7\n"), Ok(None));
        assert!(read_event(b"x\n\n").is_err());
    }
}
