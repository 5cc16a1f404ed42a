//! The little of RFC 6455 that a client needs to stay.

/// A frame from the server.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Frame<'a> {
    Text(&'a [u8]),
    Ping(&'a [u8]),
    Close,
    Other,
}

/// A frame that no server of ours sends.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct BadFrame;

const LENGTH_FOLLOWS: u8 = 126;
const LONGEST_PONG: usize = 6 + 125;

/// The first frame in `bytes` and how long it is; `None` if it is not whole.
pub(crate) fn parse(bytes: &[u8]) -> Result<Option<(Frame<'_>, usize)>, BadFrame> {
    let (head, body, length) = match *bytes {
        [head, length, ref body @ ..] if length < LENGTH_FOLLOWS => (head, body, usize::from(length)),
        [head, LENGTH_FOLLOWS, high, low, ref body @ ..] => {
            (head, body, usize::from(u16::from_be_bytes([high, low])))
        }
        [_] | [] | [_, LENGTH_FOLLOWS, ..] => return Ok(None),
        // Masked, or longer than anything that is sent to an idle client.
        _ => return Err(BadFrame),
    };
    let Some(payload) = body.get(..length) else { return Ok(None) };
    let frame = match head {
        0x81 => Frame::Text(payload),
        0x88 => Frame::Close,
        0x89 if length < usize::from(LENGTH_FOLLOWS) => Frame::Ping(payload),
        _ => Frame::Other,
    };
    Ok(Some((frame, bytes.len() - body.len() + length)))
}

/// Answers a ping, with a mask of zeros: the server unmasks it as it does any other.
pub(crate) fn pong<'a>(payload: &[u8], buffer: &'a mut [u8; LONGEST_PONG]) -> &'a [u8] {
    let length = payload.len().min(125);
    #[expect(clippy::cast_possible_truncation, reason = "at most 125")]
    buffer[..6].copy_from_slice(&[0x8A, 0x80 | length as u8, 0, 0, 0, 0]);
    buffer[6..6 + length].copy_from_slice(&payload[..length]);
    &buffer[..6 + length]
}

/// A text with a mask of zeros.
pub(crate) fn masked_text(text: &[u8]) -> Vec<u8> {
    let mut frame = vec![0x81];
    match u8::try_from(text.len()) {
        Ok(length) if length < LENGTH_FOLLOWS => frame.push(0x80 | length),
        _ => {
            let length = u16::try_from(text.len()).expect("no text of ours is as long");
            frame.push(0x80 | LENGTH_FOLLOWS);
            frame.extend(length.to_be_bytes());
        }
    }
    frame.extend([0; 4]);
    frame.extend(text);
    frame
}

/// Room for a pong.
pub(crate) const PONG_BUFFER: [u8; LONGEST_PONG] = [0; LONGEST_PONG];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_cut_out_of_a_stream() {
        let stream = [0x89, 2, 7, 8, 0x81, 1, b'x', 0x88];
        assert_eq!(parse(&stream), Ok(Some((Frame::Ping(&[7, 8]), 4))));
        assert_eq!(parse(&stream[4..]), Ok(Some((Frame::Text(b"x"), 3))));
        assert_eq!(parse(&stream[7..]), Ok(None));
        assert_eq!(parse(&stream[..3]), Ok(None));
        let mut long = vec![0x81, 126, 1, 0];
        assert_eq!(parse(&long), Ok(None));
        long.resize(4 + 256, b'x');
        assert_eq!(parse(&long), Ok(Some((Frame::Text(&[b'x'; 256]), 260))));
        assert_eq!(parse(&[0x81, 0x81]), Err(BadFrame));
        assert_eq!(parse(&[0x81, 127]), Err(BadFrame));
    }

    #[test]
    fn a_pong_is_masked_and_carries_the_payload() {
        assert_eq!(pong(&[7, 8], &mut PONG_BUFFER.clone()), [0x8A, 0x82, 0, 0, 0, 0, 7, 8]);
    }

    #[test]
    fn texts_are_masked() {
        assert_eq!(masked_text(b"x"), [0x81, 0x81, 0, 0, 0, 0, b'x']);
        assert_eq!(masked_text(&[b'x'; 126])[..8], [0x81, 0xFE, 0, 126, 0, 0, 0, 0]);
    }
}
