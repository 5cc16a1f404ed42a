//! Arguments of the script for session records, and parsing of its replies.

use std::time::Duration;

use encke_core::ownership::{Loss, Operation, Outcome, Term};
use redis::{Cmd, FromRedisValue, RedisError, Value, from_redis_value};

use super::messages::encode_id;
use crate::engine::directory::{
    DirectoryReply, DirectoryRequest, GrantedSession, LEASE, RecordUser, RecordWrite, SecretHash, SessionKey,
};
use crate::engine::redis::errors::is_other_generation;
use crate::engine::redis::presence::wire::is_id;

/// How long the end of a session is remembered. A server that was cut off for longer, and verifies the session,
/// drops it without the close code; its client receives that the session does not exist.
const REMEMBER_END: Duration = Duration::from_secs(10 * 60);

/// How long a released session is left to the server that its client reaches. Then any server may adopt it, so
/// that it ends when its reconnect window does.
const RELEASE_GRACE: Duration = Duration::from_secs(2);

/// How long a server must have held its lease before it may regard others as dead. If Redis has lost all leases,
/// the other servers renew theirs in this time.
const SETTLE_TIME: Duration = LEASE;

/// Server that sends requests.
#[derive(Clone, Copy, Debug)]
pub(super) struct RequestSource<'a> {
    pub(super) server: &'a str,
    pub(super) generation: u64,
    pub(super) reconnect_window: Duration,
}

/// Returns the session of a request.
pub(super) fn session_of(request: &DirectoryRequest) -> &SessionKey {
    match request {
        DirectoryRequest::Operate { session, .. }
        | DirectoryRequest::Claim { session, .. }
        | DirectoryRequest::Adopt { session, .. } => session,
    }
}

/// Converts a duration to milliseconds, rounded up, so that no deadline is early.
pub(super) fn to_ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

/// Adds all arguments of a request except the replication id.
pub(super) fn add_arguments(call: &mut Cmd, request: &DirectoryRequest, source: &RequestSource<'_>) {
    let word = match request {
        DirectoryRequest::Operate { operation, .. } => match operation {
            Operation::Write { .. } => "write",
            Operation::Verify { .. } => "verify",
            Operation::Release { .. } => "release",
            Operation::End { .. } => "end",
        },
        DirectoryRequest::Claim { .. } => "claim",
        DirectoryRequest::Adopt { .. } => "adopt",
    };
    call.arg(word).arg(source.server).arg(source.generation).arg(encode_id(session_of(request)));
    match request {
        DirectoryRequest::Operate { term, operation, write, .. } => {
            add_operation(call, *term, *operation, write);
        }
        DirectoryRequest::Claim { secret, user, from, .. } => {
            let no_term = Term { generation: 0, number: 0 };
            let (owner, Term { generation, number }) =
                from.as_ref().map_or(("", no_term), |(owner, term)| (owner, *term));
            call.arg(secret)
                .arg(owner)
                .arg(generation)
                .arg(number)
                .arg(to_ms(SETTLE_TIME))
                .arg(user.argument());
        }
        DirectoryRequest::Adopt { is_own, .. } => {
            call.arg(to_ms(source.reconnect_window)).arg(to_ms(RELEASE_GRACE)).arg(to_ms(SETTLE_TIME));
            call.arg(u8::from(*is_own));
        }
    }
}

fn add_operation(call: &mut Cmd, term: Term, operation: Operation, write: &RecordWrite) {
    let (version, is_attached, may_create) = match operation {
        Operation::Write { version, is_attached, is_first } => (version, is_attached, u64::from(is_first)),
        Operation::Verify { version, is_attached, existed_in } => (version, is_attached, existed_in),
        Operation::Release { version, is_first } | Operation::End { version, is_first } => {
            (version, false, u64::from(is_first))
        }
    };
    call.arg(term.generation).arg(term.number).arg(version).arg(u8::from(is_attached)).arg(may_create);
    let RecordWrite { remaining, secret, user, state } = write;
    call.arg(to_ms(*remaining)).arg(secret).arg(state).arg(to_ms(REMEMBER_END)).arg(user.argument());
}

impl RecordUser {
    fn argument(&self) -> String {
        match self {
            Self::Known(Some(name)) => format!("={name}"),
            Self::Known(None) => String::new(),
            Self::Unknown => "*".to_owned(),
        }
    }
}

/// Parses the reply to a request. `None` if it is malformed, or the outcome of the request is unknown.
pub(super) fn parse(reply: Result<Value, RedisError>, is_operation: bool) -> Option<DirectoryReply> {
    match reply {
        Ok(Value::Array(mut words)) if !words.is_empty() => {
            let status: String = from_redis_value(words.remove(0)).ok()?;
            if is_operation {
                parse_outcome(&status, words).map(DirectoryReply::Outcome)
            } else {
                parse_grant(&status, words)
            }
        }
        Err(error) if is_other_generation(&error) => Some(DirectoryReply::OtherGeneration),
        Ok(_) | Err(_) => None,
    }
}

fn parse_outcome(status: &str, words: Vec<Value>) -> Option<Outcome> {
    match status {
        "accepted" => {
            let (term_generation, number, generation) = fields(words)?;
            Some(Outcome::Accepted {
                term: parse_term(term_generation, number)?,
                generation: parse_number(generation)?,
            })
        }
        // The close code may be forgotten; the owner does not need it.
        "fenced" => Some(Outcome::Fenced(if words.is_empty() { Loss::Moved } else { Loss::Ended })),
        "unverified" => Some(Outcome::Unverified),
        _ => None,
    }
}

fn parse_grant(status: &str, words: Vec<Value>) -> Option<DirectoryReply> {
    match status {
        "fenced" => {
            let (code,): (String,) = fields(words)?;
            Some(DirectoryReply::Ended(code.parse().ok()))
        }
        "owned" => {
            let (owner, generation, number): (String, _, _) = fields(words)?;
            let term = parse_term(generation, number)?;
            is_id(&owner).then_some(DirectoryReply::OwnedBy(owner, term))
        }
        "unknown" => Some(DirectoryReply::Refused),
        "unsettled" => Some(DirectoryReply::Unsettled),
        "other_user" => Some(DirectoryReply::OtherUser),
        "granted" => parse_granted(words).map(DirectoryReply::Granted),
        _ => None,
    }
}

fn parse_granted(words: Vec<Value>) -> Option<GrantedSession> {
    type Fields = (i64, i64, i64, bool, bool, i64, Vec<u8>, Vec<u8>, String);
    let (generation, number, version, is_attached, is_complete, remaining_ms, state, secret, former): Fields =
        fields(words)?;
    Some(GrantedSession {
        term: parse_term(generation, number)?,
        version: parse_number(version)?,
        is_attached,
        is_complete,
        remaining: Duration::from_millis(parse_number(remaining_ms)?),
        former_owner: is_id(&former).then_some(former),
        secret: SecretHash::try_from(secret).ok()?,
        state,
    })
}

fn parse_term(generation: i64, number: i64) -> Option<Term> {
    Some(Term { generation: parse_number(generation)?, number: parse_number(number)? })
}

/// Converts a number of a reply. The redis crate would turn a negative one into a large one.
fn parse_number(number: i64) -> Option<u64> {
    u64::try_from(number).ok()
}

fn fields<T: FromRedisValue>(words: Vec<Value>) -> Option<T> {
    from_redis_value(Value::Array(words)).ok()
}

#[cfg(test)]
mod tests {
    use redis::{Arg, cmd, parse_redis_value};

    use super::*;
    use crate::engine::redis::errors::check_reply;

    const SESSION: SessionKey = [0xab; 16];
    const ID: &str = "abababababababababababababababab";
    const SECRET: SecretHash = [b's'; 32];
    const TERM: Term = Term { generation: 7, number: 3 };

    fn arguments(request: &DirectoryRequest) -> String {
        let mut call = cmd("X");
        let reconnect_window = Duration::from_secs(30);
        add_arguments(&mut call, request, &RequestSource { server: "n_1", generation: 9, reconnect_window });
        let word = |argument: Arg<&[u8]>| match argument {
            Arg::Simple(word) => String::from_utf8_lossy(word).into_owned(),
            _ => unreachable!("no argument is a cursor"),
        };
        call.args_iter().skip(1).map(word).collect::<Vec<_>>().join(",")
    }

    #[test]
    fn operations_are_encoded() {
        let secret = "s".repeat(32);
        for (operation, word, numbers) in [
            (Operation::Write { version: 5, is_attached: true, is_first: false }, "write", "5,1,0"),
            (Operation::Verify { version: 5, is_attached: false, existed_in: 8 }, "verify", "5,0,8"),
            (Operation::Release { version: 5, is_first: true }, "release", "5,0,1"),
            (Operation::End { version: 5, is_first: false }, "end", "5,0,0"),
        ] {
            let write = RecordWrite {
                remaining: Duration::from_micros(1500),
                secret: SECRET,
                user: RecordUser::named("ada"),
                state: b"state".to_vec(),
            };
            let request = DirectoryRequest::Operate { session: SESSION, term: TERM, operation, write };
            let expected = format!("{word},n_1,9,{ID},7,3,{numbers},2,{secret},state,600000,=ada");
            assert_eq!(arguments(&request), expected);
        }
    }

    #[test]
    fn claims_and_adoptions_are_encoded() {
        let claim = |user, from| DirectoryRequest::Claim { session: SESSION, secret: SECRET, user, from };
        let secret = "s".repeat(32);
        assert_eq!(
            arguments(&claim(RecordUser::ANONYMOUS, None)),
            format!("claim,n_1,9,{ID},{secret},,0,0,10000,")
        );
        let from = Some(("n_2".to_owned(), TERM));
        assert_eq!(
            arguments(&claim(RecordUser::Unknown, from)),
            format!("claim,n_1,9,{ID},{secret},n_2,7,3,10000,*")
        );
        for (is_own, flag) in [(false, 0), (true, 1)] {
            let adopt = DirectoryRequest::Adopt { session: SESSION, is_own };
            assert_eq!(arguments(&adopt), format!("adopt,n_1,9,{ID},30000,2000,10000,{flag}"));
        }
    }

    /// Creates a reply with these words, of which numbers are integers as in the replies of the script.
    fn reply(words: &str) -> Value {
        let word = |word: &str| match word.parse() {
            Ok(number) => Value::Int(number),
            Err(_) => Value::BulkString(word.trim_matches('\'').into()),
        };
        Value::Array(words.split(' ').map(word).collect())
    }

    #[test]
    fn outcomes_are_parsed() {
        let outcome = |words: &str| match parse(Ok(reply(words)), true) {
            Some(DirectoryReply::Outcome(outcome)) => Some(outcome),
            None => None,
            other => panic!("{other:?}"),
        };
        assert_eq!(outcome("accepted 7 3 9"), Some(Outcome::Accepted { term: TERM, generation: 9 }));
        assert_eq!(outcome("fenced"), Some(Outcome::Fenced(Loss::Moved)));
        assert_eq!(outcome("fenced '4002'"), Some(Outcome::Fenced(Loss::Ended)));
        assert_eq!(outcome("fenced ''"), Some(Outcome::Fenced(Loss::Ended)));
        assert_eq!(outcome("unverified"), Some(Outcome::Unverified));
        for malformed in ["accepted 7 3", "accepted 7 3 9 1", "accepted 7 3 -9", "unknown", "7", "''"] {
            assert_eq!(outcome(malformed), None, "{malformed}");
        }
        for malformed in [Value::Nil, Value::Array(Vec::new()), Value::Okay, Value::Array(vec![Value::Nil])] {
            assert_eq!(parse(Ok(malformed), true), None);
        }
    }

    #[test]
    fn replies_to_claims_are_parsed() {
        let parsed = |words: &str| parse(Ok(reply(words)), false);
        let secret = "s".repeat(32);
        let granted = GrantedSession {
            term: TERM,
            version: 4,
            is_attached: true,
            is_complete: false,
            remaining: Duration::from_millis(1500),
            former_owner: Some("n_2".to_owned()),
            secret: SECRET,
            state: b"state".to_vec(),
        };
        assert_eq!(
            parsed(&format!("granted 7 3 4 1 0 1500 state {secret} n_2")),
            Some(DirectoryReply::Granted(granted))
        );
        assert_eq!(parsed("owned n_2 7 3"), Some(DirectoryReply::OwnedBy("n_2".into(), TERM)));
        assert_eq!(parsed("fenced '4002'"), Some(DirectoryReply::Ended(Some(4002))));
        assert_eq!(parsed("fenced ''"), Some(DirectoryReply::Ended(None)));
        assert_eq!(parsed("unknown"), Some(DirectoryReply::Refused));
        assert_eq!(parsed("unsettled"), Some(DirectoryReply::Unsettled));
        assert_eq!(parsed("other_user"), Some(DirectoryReply::OtherUser));
        for malformed in [
            "fenced",
            "owned n_2 7",
            "owned '' 7 3",
            "accepted 7 3 9",
            "granted 7 3 4 1 0 1500 state",
            "granted 7 3 4 1 0 1500 state short n_2",
            "granted 7 3 4 1 0 -1 state ssssssssssssssssssssssssssssssss n_2",
        ] {
            assert_eq!(parsed(malformed), None, "{malformed}");
        }
    }

    #[test]
    fn only_a_changed_generation_is_a_known_error() {
        let error = |text: &str| check_reply(parse_redis_value(text.as_bytes()).expect("a reply"));
        for is_operation in [false, true] {
            let other = error("-ANOTHER the replication id has changed\r\n");
            assert_eq!(parse(other, is_operation), Some(DirectoryReply::OtherGeneration));
            assert_eq!(parse(error("-OOM the memory is full\r\n"), is_operation), None);
        }
    }
}
