//! What servers ask each other, and answer. Anyone may have written it.

use serde::{Deserialize, Serialize};

use crate::channel::{Member, MemberPhase, Present};

/// What one server is asked for at most.
const MOST_MEMBERS: usize = 1001;

/// Names of servers and of sessions are shorter.
const LONGEST_ID: usize = 64;

/// About what one answer has at most. What has no room comes with the next page.
const ANSWER_BYTES: usize = 64 * 1024;

/// An answer may have one name more than there is room for. A name is in a token, and so not long.
pub(super) const LONGEST_ANSWER: usize = 4 * ANSWER_BYTES;

/// Who follows a channel?
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Question {
    /// Told apart from all others of its server.
    pub(super) id: u64,
    /// Who asks.
    pub(super) server: String,
    pub(super) channel: String,
    /// From this index on.
    pub(super) from: usize,
    pub(super) limit: usize,
}

/// Those who follow it on one server.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Answer {
    id: u64,
    /// Who answers.
    server: String,
    total: usize,
    /// Index, session, user, phase.
    members: Vec<(usize, String, Option<String>, MemberPhase)>,
    next: Option<usize>,
}

/// What came to a question.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Heard {
    pub(super) id: u64,
    pub(super) server: String,
    pub(super) present: Present,
}

impl Question {
    pub(super) fn write(&self) -> String {
        json(self)
    }

    pub(super) fn parse(payload: &[u8]) -> Option<Self> {
        let question: Self = serde_json::from_slice(payload).ok()?;
        (is_id(&question.server) && (1..=MOST_MEMBERS).contains(&question.limit)).then_some(question)
    }
}

/// Writes an answer. Whom it has no room for are not in it, and it says from where on.
pub(super) fn answer(id: u64, server: &str, present: Present) -> String {
    let Present { total, members: all, mut next } = present;
    let (mut members, mut bytes) = (Vec::with_capacity(all.len()), 0);
    for (index, Member { id, user, phase }) in all {
        if bytes > ANSWER_BYTES {
            next = Some(index);
            break;
        }
        // With the rest, and as if all had to be escaped.
        bytes += 32 + id.len() + 6 * user.as_ref().map_or(0, String::len);
        members.push((index, id, user, phase));
    }
    json(&Answer { id, server: server.to_owned(), total, members, next })
}

pub(super) fn parse_answer(payload: &[u8]) -> Option<Heard> {
    if payload.len() > LONGEST_ANSWER {
        return None;
    }
    let Answer { id, server, total, members, next } = serde_json::from_slice(payload).ok()?;
    let are_in_order = members.is_sorted_by(|(one, ..), (next, ..)| one < next);
    let last = members.last().map(|(index, ..)| *index);
    let goes_on = next.is_none_or(|next| last.is_none_or(|last| next > last));
    let are_ids = is_id(&server) && members.iter().all(|(_, id, ..)| is_id(id));
    if !are_ids || !are_in_order || !goes_on || members.len() > MOST_MEMBERS.min(total) {
        return None;
    }
    let members =
        members.into_iter().map(|(index, id, user, phase)| (index, Member { id, user, phase })).collect();
    Some(Heard { id, server, present: Present { total, members, next } })
}

/// Whether it is in the form of a server's name or a session's.
fn is_id(text: &str) -> bool {
    let is_of_one = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
    (1..=LONGEST_ID).contains(&text.len()) && text.bytes().all(is_of_one)
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("numbers and text can be written")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(index: usize, user: &str) -> (usize, Member) {
        let user = (!user.is_empty()).then(|| user.into());
        (index, Member { id: format!("s_{index}"), user, phase: MemberPhase::Suspended })
    }

    #[test]
    fn what_is_written_is_read() {
        let question =
            Question { id: 7, server: "n_1".into(), channel: "a \"b\"".into(), from: 3, limit: 10 };
        assert_eq!(Question::parse(question.write().as_bytes()), Some(question));
        let present =
            Present { total: 9, members: vec![member(1, "alice \u{2028}"), member(4, "")], next: Some(5) };
        let written = answer(u64::MAX, "n_2", present.clone());
        let heard = Heard { id: u64::MAX, server: "n_2".into(), present };
        assert_eq!(parse_answer(written.as_bytes()), Some(heard));
    }

    #[test]
    fn what_makes_no_sense_is_nothing() {
        for question in [
            "",
            "{}",
            "7",
            r#"{"id":1,"server":"n","channel":"a","from":0,"limit":0}"#,
            r#"{"id":1,"server":"n","channel":"a","from":0,"limit":1002}"#,
            r#"{"id":1,"server":"n n","channel":"a","from":0,"limit":1}"#,
            r#"{"id":1,"server":"","channel":"a","from":0,"limit":1}"#,
            r#"{"id":-1,"server":"n","channel":"a","from":0,"limit":1}"#,
        ] {
            assert_eq!(Question::parse(question.as_bytes()), None, "{question}");
        }
        let whole = r#"{"id":1,"server":"n","total":2,"members":[[0,"s",null,"attached"],[1,"t","u","closed"]],"next":2}"#;
        assert!(parse_answer(whole.as_bytes()).is_some());
        for (from, to) in [
            ("\"n\"", "\"n:n\""),
            ("[0,", "[1,"),
            ("[0,", "[2,"),
            ("\"total\":2", "\"total\":1"),
            ("\"s\"", "\"<s>\""),
            ("closed", "away"),
            ("\"next\":2", "\"next\":1"),
            ("}", ""),
        ] {
            let other = whole.replacen(from, to, 1);
            assert_ne!(other, whole);
            assert_eq!(parse_answer(other.as_bytes()), None, "{other}");
        }
    }

    #[test]
    fn whom_an_answer_has_no_room_for_comes_later() {
        let long = "u".repeat(40_000);
        let members: Vec<_> = (0..5).map(|index| member(2 * index, &long)).collect();
        let written = answer(1, "n", Present { total: 5, members, next: None });
        let heard = parse_answer(written.as_bytes()).expect("an answer");
        assert_eq!((heard.present.members.len(), heard.present.next), (1, Some(2)));
    }
}
