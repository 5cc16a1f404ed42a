//! Encoding of messages between servers: `<verb> <session> <sender>`. Received messages are not trusted: anyone
//! with access to Redis may have written them.

use data_encoding::HEXLOWER;

use crate::engine::directory::{ServerMessage, SessionKey};
use crate::engine::redis::presence::wire::is_id;

const RELEASE: &str = "release";
const RELEASED: &str = "released";

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
pub(super) fn encode(message: ServerMessage, from: &str) -> String {
    let (verb, session) = match message {
        ServerMessage::Release(session) => (RELEASE, session),
        ServerMessage::Released(session) => (RELEASED, session),
    };
    format!("{verb} {} {from}", encode_id(&session))
}

/// Parses a message. Returns it and its sender, or `None` if it is malformed.
pub(super) fn parse(payload: &[u8]) -> Option<(ServerMessage, &str)> {
    let mut words = std::str::from_utf8(payload).ok()?.splitn(3, ' ');
    let (verb, session, from) = (words.next()?, parse_id(words.next()?.as_bytes())?, words.next()?);
    let message = match verb {
        RELEASE => ServerMessage::Release(session),
        RELEASED => ServerMessage::Released(session),
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
        for (message, verb) in
            [(ServerMessage::Release(session), "release"), (ServerMessage::Released(session), "released")]
        {
            let text = encode(message, "n_1");
            assert_eq!(text, format!("{verb} {ID} n_1"));
            assert_eq!(parse(text.as_bytes()), Some((message, "n_1")));
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
        ] {
            assert_eq!(parse(text.as_bytes()), None, "{text}");
        }
        assert_eq!(parse(&[b'r', 0xff]), None);
    }
}
