//! Fuzzes resume tokens and event ids. A parsed value must parse to the same value after it is written, and a truncated
//! event id must have no positions.

use encke_server::SessionId;
use encke_server::testing::fuzzing::{self, EventId};

/// Checks a resume token or an event id from a client.
pub(crate) fn run(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    if let Ok(id) = text.parse::<SessionId>() {
        assert_eq!(id.to_string(), text, "a session id must have one text form");
    }
    if let Some(token) = fuzzing::resume_token(text) {
        assert_eq!(token, text, "a resume token must have one text form");
    }
    let Some(id) = fuzzing::event_id(text) else { return };
    for (_, epoch, _) in &id.positions {
        let is_harmless = epoch.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
        assert!(is_harmless && epoch.len() <= 32, "{epoch:?} is written into every event");
    }
    let again = write(&id);
    assert_eq!(fuzzing::event_id(&again).as_ref(), Some(&id), "{again}");
    let without_positions = EventId { positions: Vec::new(), has_others: true, ..id };
    for (length, _) in again.char_indices().skip_while(|(_, letter)| *letter != ';') {
        let truncated = &again[..length];
        assert_eq!(fuzzing::event_id(truncated).as_ref(), Some(&without_positions), "{truncated}");
    }
}

fn write(EventId { token, seq, positions, has_others }: &EventId) -> String {
    let positions = positions.iter().map(|(channel, epoch, offset)| format!("{channel}:{epoch}:{offset}"));
    let entries = positions.chain(has_others.then(|| "*".to_owned()));
    format!("{token}:{seq};{}.", entries.collect::<Vec<_>>().join(","))
}
