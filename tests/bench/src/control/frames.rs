//! A minimal WebSocket implementation for a server, without fragmentation, extensions and checks.

use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

pub(crate) const TEXT: u8 = 1;
pub(crate) const CLOSE: u8 = 8;
pub(crate) const PING: u8 = 9;

/// Maximum number of headers. loadgen's clients send fewer.
const MAX_HEADERS: usize = 32;

/// Error for invalid input, after which the connection is closed.
#[derive(Debug)]
pub(crate) struct InvalidInput;

/// A complete frame from a client. Its payload is still masked.
#[derive(Debug)]
pub(crate) struct ClientFrame<'a> {
    pub(crate) opcode: u8,
    mask: [u8; 4],
    payload: &'a mut [u8],
}

/// Returns the response to a WebSocket upgrade request, and the request's length; `None` if the request is
/// incomplete.
pub(crate) fn upgrade(input: &[u8]) -> Result<Option<(String, usize)>, InvalidInput> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    let httparse::Status::Complete(length) = request.parse(input).map_err(|_| InvalidInput)? else {
        return Ok(None);
    };
    let key = request.headers.iter().find(|header| header.name.eq_ignore_ascii_case("sec-websocket-key"));
    let accept = derive_accept_key(key.ok_or(InvalidInput)?.value);
    let answer = format!(
        "HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-accept: {accept}\r\n\r\n"
    );
    Ok(Some((answer, length)))
}

/// Takes the first frame from the input; `None` if it is incomplete.
pub(crate) fn take_frame<'a>(input: &mut &'a mut [u8]) -> Result<Option<ClientFrame<'a>>, InvalidInput> {
    let Some((length, head)) = payload_length(input)? else { return Ok(None) };
    let Some(end) = length.checked_add(head + 4).filter(|end| *end <= input.len()) else { return Ok(None) };
    let (frame, further) = std::mem::take(input).split_at_mut(end);
    *input = further;
    let opcode = frame[0] & 0xF;
    let (mask, payload) = frame[head..].split_first_chunk_mut().expect("the mask is within the frame");
    Ok(Some(ClientFrame { opcode, mask: *mask, payload }))
}

/// Returns the length of the payload, and the position of the mask.
fn payload_length(input: &[u8]) -> Result<Option<(usize, usize)>, InvalidInput> {
    let [first, second, rest @ ..] = input else { return Ok(None) };
    if first & 0xF0 != 0x80 || second & 0x80 == 0 {
        // The frame is fragmented or not masked.
        return Err(InvalidInput);
    }
    Ok(match second & 0x7F {
        126 => rest.first_chunk().map(|length| (usize::from(u16::from_be_bytes(*length)), 4)),
        // The frame is longer than the read buffer.
        127 => return Err(InvalidInput),
        length => Some((length.into(), 2)),
    })
}

impl ClientFrame<'_> {
    pub(crate) fn text(&mut self) -> Result<&str, InvalidInput> {
        for (byte, mask) in self.payload.iter_mut().zip(self.mask.iter().cycle()) {
            *byte ^= mask;
        }
        std::str::from_utf8(self.payload).map_err(|_| InvalidInput)
    }
}

/// Encodes a frame from the server, unmasked.
pub(crate) fn encode_frame(opcode: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![0x80 | opcode];
    match (u8::try_from(payload.len()), u16::try_from(payload.len())) {
        (Ok(length @ ..126), _) => frame.push(length),
        (_, Ok(length)) => {
            frame.push(126);
            frame.extend(length.to_be_bytes());
        }
        _ => {
            frame.push(127);
            frame.extend((payload.len() as u64).to_be_bytes());
        }
    }
    frame.extend(payload);
    frame
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Encodes a frame from a client, masked.
    fn masked(opcode: u8, payload: &[u8]) -> Vec<u8> {
        let mask = [1, 2, 3, 4];
        let mut bytes = encode_frame(opcode, payload);
        let head = bytes.len() - payload.len();
        bytes[1] |= 0x80;
        let masked = payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask);
        bytes.splice(head.., mask.into_iter().chain(masked));
        bytes
    }

    #[test]
    fn only_complete_frames_are_taken() {
        let long = "x".repeat(300);
        let bytes = [masked(TEXT, b"one"), masked(10, &[0; 8]), masked(TEXT, long.as_bytes())].concat();
        for cut in 0..bytes.len() {
            let mut bytes = bytes.clone();
            let mut input = &mut bytes[..cut];
            let mut taken = 0;
            while let Some(mut frame) = take_frame(&mut input).expect("valid frames") {
                match taken {
                    0 => assert_eq!(frame.text().ok(), Some("one")),
                    1 => assert_eq!(frame.opcode, 10),
                    _ => panic!("the third frame is never complete"),
                }
                taken += 1;
            }
            assert_eq!(taken, usize::from(cut >= 9) + usize::from(cut >= 23));
        }
        let mut bytes = bytes;
        let mut input = &mut bytes[23..];
        let mut third = take_frame(&mut input).expect("a valid frame").expect("it is complete");
        assert_eq!(third.text().ok(), Some(long.as_str()));
        assert!(input.is_empty());
    }

    #[test]
    fn unmasked_and_fragmented_frames_are_rejected() {
        for mut bytes in [encode_frame(TEXT, b"one"), vec![0x01, 0x80], vec![0x81, 0xFF]] {
            assert!(take_frame(&mut &mut bytes[..]).is_err());
        }
    }

    /// Uses the example in RFC 6455, section 1.3.
    #[test]
    fn only_a_complete_request_is_answered() {
        let request =
            b"GET /ws HTTP/1.1\r\nHost: a\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\nfurther";
        let length_without_rest = request.len() - "further".len();
        assert!(upgrade(&request[..length_without_rest - 1]).expect("a valid beginning").is_none());
        let (answer, length) = upgrade(request).expect("a valid request").expect("it is complete");
        assert_eq!(length, length_without_rest);
        assert!(answer.contains("sec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"), "{answer}");
        assert!(upgrade(b"GET / HTTP/1.1\r\n\r\n").is_err());
    }
}
