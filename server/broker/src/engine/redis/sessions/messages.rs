//! Encoding of messages between servers: `<verb> <session> <sender>`, or `<verb> <number> <sender>`, a line feed and a
//! payload. Received messages are not trusted: anyone with access to Redis may have written them.

use data_encoding::HEXLOWER;

use crate::engine::directory::{ServerMessage, SessionKey};
use crate::engine::redis::presence::wire::is_id;

const RELEASE: &str = "release";
const RELEASED: &str = "released";
const REQUEST: &str = "request";
const REPLY: &str = "reply";

/// Returns a session's id as scripts and messages contain it.
pub(super) fn encode_id(session: &SessionKey) -> String {
    HEXLOWER.encode(session)
}

/// Parses an id. `None` if it is malformed.
pub(super) fn parse_id(text: &[u8]) -> Option<SessionKey> {
    // Check the length before anything is allocated.
    let is_complete = text.len() == 2 * size_of::<SessionKey>();
    is_complete.then(|| HEXLOWER.decode(text).ok()?.try_into().ok()).flatten()
}

/// Encodes a message of the server `from`.
pub(super) fn encode(message: ServerMessage, from: &str) -> Vec<u8> {
    let with_payload = |verb, number: u64, payload: Vec<u8>| {
        [format!("{verb} {number:016x} {from}\n").into_bytes(), payload].concat()
    };
    match message {
        ServerMessage::Release(session) => format!("{RELEASE} {} {from}", encode_id(&session)).into_bytes(),
        ServerMessage::Released(session) => format!("{RELEASED} {} {from}", encode_id(&session)).into_bytes(),
        ServerMessage::Request { number, payload } => with_payload(REQUEST, number, payload),
        ServerMessage::Reply { number, payload } => with_payload(REPLY, number, payload),
    }
}

/// Parses a message. Returns it and its sender, or `None` if it is malformed.
pub(super) fn parse(message: &[u8]) -> Option<(ServerMessage, &str)> {
    let end = message.iter().position(|byte| *byte == b'\n');
    let (head, payload) = end.map_or((message, None), |end| (&message[..end], Some(&message[end + 1..])));
    let mut words = std::str::from_utf8(head).ok()?.splitn(3, ' ');
    let (verb, id, from) = (words.next()?, words.next()?, words.next()?);
    let session = || parse_id(id.as_bytes());
    let number = || u64::from_str_radix(id, 16).ok().filter(|number| format!("{number:016x}") == id);
    let message = match (verb, payload) {
        (RELEASE, None) => ServerMessage::Release(session()?),
        (RELEASED, None) => ServerMessage::Released(session()?),
        (REQUEST, Some(payload)) => ServerMessage::Request { number: number()?, payload: payload.to_vec() },
        (REPLY, Some(payload)) => ServerMessage::Reply { number: number()?, payload: payload.to_vec() },
        _ => return None,
    };
    is_id(from).then_some((message, from))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "00000000000000000000000000000a0b";

    #[test]
    fn messages_round_trip() {
        let session = parse_id(ID.as_bytes()).expect("an id");
        assert_eq!((session[14..].to_vec(), encode_id(&session)), (vec![10, 11], ID.to_owned()));
        let payload = b"two\nlines \xff".to_vec();
        for (message, expected) in [
            (ServerMessage::Release(session), format!("release {ID} n_1").into_bytes()),
            (ServerMessage::Released(session), format!("released {ID} n_1").into_bytes()),
            (
                ServerMessage::Request { number: 0xab, payload: payload.clone() },
                [b"request 00000000000000ab n_1\n", &*payload].concat(),
            ),
            (
                ServerMessage::Reply { number: 0, payload: Vec::new() },
                b"reply 0000000000000000 n_1\n".to_vec(),
            ),
        ] {
            let bytes = encode(message.clone(), "n_1");
            assert_eq!(bytes, expected);
            assert_eq!(parse(&bytes), Some((message, "n_1")));
        }
    }

    #[test]
    fn malformed_messages_are_rejected() {
        for text in [
            "",
            "release",
            &format!("release {ID}"),
            &format!("release {ID} "),
            &format!("release {ID} n m"),
            &format!("release {ID} {}", "n".repeat(65)),
            &format!("release {ID}0 n"),
            &format!("release {} n", &ID[2..]),
            &format!("release {} n", ID.to_uppercase()),
            &format!("Release {ID} n"),
            &format!("releases {ID} n"),
            &format!("release {ID} n\n"),
            "request 00000000000000ab n",
            "request ab n\n",
            "request 00000000000000AB n\n",
            &format!("request {ID} n\n"),
        ] {
            assert_eq!(parse(text.as_bytes()), None, "{text}");
        }
        assert_eq!(parse(&[b'r', 0xff]), None);
    }
}
