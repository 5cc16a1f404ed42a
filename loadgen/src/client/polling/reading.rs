//! Answers of the `json` dialect: arrays of the objects that a WebSocket would get.

use encke_core::close::CloseCode;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Said, Saying};
use crate::client::take_number;
use crate::client::ticket::seq_of;
use crate::transport::websocket::{End, Fault};

/// What a server says when the session that was asked for is none any more.
pub(super) const GONE: u16 = 410;

/// The objects of an answer.
pub(super) fn objects(body: &[u8]) -> Result<Vec<&str>, End> {
    let objects: Vec<&RawValue> = serde_json::from_slice(body).map_err(|_| End::Fault(Fault::Answer))?;
    Ok(objects.into_iter().map(RawValue::get).collect())
}

/// Takes the objects of an answer in. `seq` is that of the last one that has one. A farewell is an end, as is the greeting of another
/// session.
pub(super) fn take(objects: Vec<&str>, seq: &mut u64, said: &mut Said) -> Result<(), End> {
    for text in objects {
        match kind(text) {
            Kind::Numbered(number) => *seq = number,
            Kind::Goaway(end) => return Err(end),
            Kind::Hello => return Err(End::Status(GONE)),
            Kind::Other => {}
        }
        said.push_back(Saying::Text(text.into()));
    }
    Ok(())
}

/// How a farewell ends the session, if the object is one.
pub(super) fn farewell(text: &str) -> Option<End> {
    if let Kind::Goaway(end) = kind(text) { Some(end) } else { None }
}

enum Kind {
    /// A message or a gap.
    Numbered(u64),
    Goaway(End),
    Hello,
    Other,
}

fn kind(text: &str) -> Kind {
    // Every delivery passes here, so messages in their usual form are read without a parser.
    let number = text.strip_prefix(r#"{"message":{"seq":"#).and_then(take_number);
    if let Some(seq) = number.map(|(seq, _)| seq).or_else(|| seq_of(text)) {
        return Kind::Numbered(seq);
    }
    match serde_json::from_str(text) {
        Ok(Last::Goaway { reason }) => {
            let code = CloseCode::ALL.into_iter().find(|code| code.reason() == reason);
            Kind::Goaway(End::Closed(code.map(CloseCode::code)))
        }
        Ok(Last::Hello {}) => Kind::Hello,
        Err(_) => Kind::Other,
    }
}

/// What may come in place of messages.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Last {
    Goaway { reason: String },
    Hello {},
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(body: &str) -> (Result<(), End>, u64, Vec<String>) {
        let (mut seq, mut said) = (7, Said::new());
        let result = objects(body.as_bytes()).and_then(|objects| take(objects, &mut seq, &mut said));
        let texts = said.iter().map(|saying| match saying {
            Saying::Text(text) => text.to_string(),
            Saying::Nothing(_) | Saying::Id(_) => panic!("an answer has objects or none"),
        });
        (result, seq, texts.collect())
    }

    #[test]
    fn the_last_seq_of_an_answer_counts() {
        let message = r#"{"message":{"seq":8,"channel":"news","offset":1,"data":[1,"]"]}}"#;
        let gap = r#"{"gap":{"seq":9,"channel":"news","epoch":"e"}}"#;
        let reply = r#"{"reply":{"id":1,"ok":{}}}"#;
        let (result, seq, texts) = read(&format!("[{message},{gap},\n{reply}]"));
        assert_eq!((result, seq), (Ok(()), 9));
        assert_eq!(texts, [message, gap, reply]);
        assert_eq!(read("[]"), (Ok(()), 7, vec![]));
    }

    #[test]
    fn what_ends_the_session_comes_last() {
        let message = r#"{"message":{"seq":8,"channel":"news","offset":1,"data":1}}"#;
        let goaway =
            |reason: &str| format!(r#"[{message},{{"goaway":{{"reason":"{reason}","retry_ms":1}}}}]"#);
        assert_eq!(read(&goaway("idle")), (Err(End::Closed(Some(4004))), 8, vec![message.to_owned()]));
        assert_eq!(read(&goaway("of_next_year")).0, Err(End::Closed(None)));
        let other = r#"[{"hello":{"version":1,"session":"s","resume":"s.x","recovered":false,"seq":0}}]"#;
        assert_eq!(read(other).0, Err(End::Status(410)), "the session is another");
        assert_eq!(read("{}").0, Err(End::Fault(Fault::Answer)));
        assert_eq!(read("<html>").0, Err(End::Fault(Fault::Answer)));
    }
}
