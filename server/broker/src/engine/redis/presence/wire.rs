//! Encoding of presence queries and replies between servers. Received messages are not trusted: anyone with
//! access to Redis may have written them.

use serde::{Deserialize, Serialize};

use crate::channel::{Member, MemberPhase, PresencePage};

/// Maximum number of subscribers requested from one server.
const MAX_MEMBERS: usize = 1001;

/// Maximum length of a server name or session id.
const MAX_ID_LEN: usize = 64;

/// Approximate maximum size of a reply. The remaining subscribers are on the next page.
const TARGET_REPLY_BYTES: usize = 64 * 1024;

/// Maximum size of a received reply. A reply may exceed its target size by one user name, whose length is
/// limited by the maximum length of a token.
pub(super) const MAX_REPLY_LEN: usize = 4 * TARGET_REPLY_BYTES;

/// Query for the subscribers of a channel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PresenceQuery {
    /// Unique among the queries of its server.
    pub(super) id: u64,
    /// Querying server.
    pub(super) server: String,
    pub(super) channel: String,
    /// First index requested.
    pub(super) from: usize,
    pub(super) limit: usize,
}

/// Subscribers of the channel on one server.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct PresenceReply {
    id: u64,
    /// Replying server.
    server: String,
    total: usize,
    /// Index, session id, user and phase.
    members: Vec<(usize, String, Option<String>, MemberPhase)>,
    next: Option<usize>,
}

/// A validated reply.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ReceivedReply {
    pub(super) id: u64,
    pub(super) server: String,
    pub(super) present: PresencePage,
}

impl PresenceQuery {
    pub(super) fn write(&self) -> String {
        json(self)
    }

    pub(super) fn parse(payload: &[u8]) -> Option<Self> {
        let query: Self = serde_json::from_slice(payload).ok()?;
        (is_id(&query.server) && (1..=MAX_MEMBERS).contains(&query.limit)).then_some(query)
    }
}

/// Encodes a reply. If not all subscribers fit, `next` is the index of the first that was left out.
pub(super) fn encode_reply(id: u64, server: &str, present: PresencePage) -> String {
    let PresencePage { total, members: all, mut next } = present;
    let (mut members, mut bytes) = (Vec::with_capacity(all.len()), 0);
    for (index, Member { id, user, phase }) in all {
        if bytes > TARGET_REPLY_BYTES {
            next = Some(index);
            break;
        }
        // Estimate that includes JSON syntax and assumes that every character of the name is escaped.
        bytes += 32 + id.len() + 6 * user.as_ref().map_or(0, String::len);
        members.push((index, id, user, phase));
    }
    json(&PresenceReply { id, server: server.to_owned(), total, members, next })
}

pub(super) fn parse_reply(payload: &[u8]) -> Option<ReceivedReply> {
    if payload.len() > MAX_REPLY_LEN {
        return None;
    }
    let PresenceReply { id, server, total, members, next } = serde_json::from_slice(payload).ok()?;
    let are_in_order = members.is_sorted_by(|(one, ..), (next, ..)| one < next);
    let last = members.last().map(|(index, ..)| *index);
    let next_is_valid = next.is_none_or(|next| last.is_none_or(|last| next > last));
    let are_ids = is_id(&server) && members.iter().all(|(_, id, ..)| is_id(id));
    if !are_ids || !are_in_order || !next_is_valid || members.len() > MAX_MEMBERS.min(total) {
        return None;
    }
    let members =
        members.into_iter().map(|(index, id, user, phase)| (index, Member { id, user, phase })).collect();
    Some(ReceivedReply { id, server, present: PresencePage { total, members, next } })
}

/// Whether `text` has the form of a server name or session id.
pub(in crate::engine::redis) fn is_id(text: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
    (1..=MAX_ID_LEN).contains(&text.len()) && text.bytes().all(is_allowed)
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("numbers and text can be serialized")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(index: usize, user: &str) -> (usize, Member) {
        let user = (!user.is_empty()).then(|| user.into());
        (index, Member { id: format!("s_{index}"), user, phase: MemberPhase::Suspended })
    }

    #[test]
    fn encoding_round_trips() {
        let query =
            PresenceQuery { id: 7, server: "n_1".into(), channel: "a \"b\"".into(), from: 3, limit: 10 };
        assert_eq!(PresenceQuery::parse(query.write().as_bytes()), Some(query));
        let present = PresencePage {
            total: 9,
            members: vec![member(1, "alice \u{2028}"), member(4, "")],
            next: Some(5),
        };
        let written = encode_reply(u64::MAX, "n_2", present.clone());
        let reply = ReceivedReply { id: u64::MAX, server: "n_2".into(), present };
        assert_eq!(parse_reply(written.as_bytes()), Some(reply));
    }

    #[test]
    fn invalid_messages_are_rejected() {
        for query in [
            "",
            "{}",
            "7",
            r#"{"id":1,"server":"n","channel":"a","from":0,"limit":0}"#,
            r#"{"id":1,"server":"n","channel":"a","from":0,"limit":1002}"#,
            r#"{"id":1,"server":"n n","channel":"a","from":0,"limit":1}"#,
            r#"{"id":1,"server":"","channel":"a","from":0,"limit":1}"#,
            r#"{"id":-1,"server":"n","channel":"a","from":0,"limit":1}"#,
        ] {
            assert_eq!(PresenceQuery::parse(query.as_bytes()), None, "{query}");
        }
        let whole = r#"{"id":1,"server":"n","total":2,"members":[[0,"s",null,"attached"],[1,"t","u","closed"]],"next":2}"#;
        assert!(parse_reply(whole.as_bytes()).is_some());
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
            assert_eq!(parse_reply(other.as_bytes()), None, "{other}");
        }
    }

    #[test]
    fn large_reply_is_truncated() {
        let long = "u".repeat(40_000);
        let members: Vec<_> = (0..5).map(|index| member(2 * index, &long)).collect();
        let written = encode_reply(1, "n", PresencePage { total: 5, members, next: None });
        let reply = parse_reply(written.as_bytes()).expect("a valid reply");
        assert_eq!((reply.present.members.len(), reply.present.next), (1, Some(2)));
    }
}
