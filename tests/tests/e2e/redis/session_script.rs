//! Compares the script for session records with the model of the directory that the simulation of nodes uses.

use encke_core::ownership::{Loss, Operation, Outcome, Term};
use encke_nodes::Millis;
use encke_nodes::directory::{
    Claimed, Directory, Granted, Journal, LEASE, NodeId, RELEASE_GRACE, SessionId, State, WINDOW,
};
use encke_seeds::with_seeds;
use encke_tests::redis::Redis;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use redis::{Connection, Value, from_redis_value};

use super::{exec, query};

const SCRIPT: &str = include_str!("../../../../server/broker/src/engine/redis/scripts/session.lua");
/// The script's time, and its replacement: the test's own time.
const TIME: &str = "time[1] * 1000 + math.floor(time[2] / 1000)";
const TEST_TIME: &str = "tonumber(redis.call('GET', 'now'))";
const SECRET: &str = "digest";
const END_CODE: &str = "4002";
/// The end of a session is forgotten by the test, not by Redis.
const REMEMBERED_MS: &str = "1000000000";

/// A directory in Redis and its model.
struct Both {
    connection: Connection,
    script: String,
    model: Directory,
    rng: StdRng,
    now: Millis,
}

impl Both {
    fn new(redis: &Redis, seed: u64) -> Self {
        let mut connection = redis.connect();
        exec(&mut connection, &["FLUSHALL"]);
        let script = SCRIPT.replace(TIME, TEST_TIME);
        assert_ne!(script, SCRIPT);
        let (model, rng) = (Directory::new(None), StdRng::seed_from_u64(seed));
        Self { connection, script, model, rng, now: 1_000_000 }
    }

    fn below(&mut self, bound: u32) -> u32 {
        self.rng.random_range(0..bound)
    }

    fn is_true(&mut self) -> bool {
        self.rng.random()
    }

    /// Calls the script. Returns the words of its reply.
    fn call(
        &mut self,
        operation: &str,
        node: NodeId,
        session: SessionId,
        arguments: &[String],
    ) -> Vec<String> {
        exec(&mut self.connection, &["SET", "now", &self.now.to_string()]);
        let mut call = redis::cmd("EVAL");
        call.arg(&self.script).arg(5).arg(key(session));
        call.arg("of:").arg("ended").arg("leases").arg("since");
        call.arg(operation).arg(name(node)).arg(self.model.generation()).arg(session.0).arg(arguments);
        let reply: Vec<Value> = call.query(&mut self.connection).expect("the script succeeds");
        reply.into_iter().map(|word| from_redis_value(word).expect("a word")).collect()
    }

    /// Returns a term that the session has, had or may get.
    fn term(&mut self, session: SessionId) -> Term {
        let current = self.model.record(session).map_or(Term::first(self.model.generation()), |it| it.term);
        match self.below(8) {
            0 => Term { number: current.number + 1, ..current },
            1 => Term { generation: current.generation.saturating_sub(1).max(1), ..current },
            2 => Term { number: current.number.saturating_sub(1).max(1), ..current },
            _ => current,
        }
    }

    fn operate(&mut self, node: NodeId, session: SessionId) {
        let term = self.term(session);
        let (version, is_attached, is_first) = (u64::from(self.below(5)), self.is_true(), self.is_true());
        let remaining = u64::from(self.below(30_000));
        let existed_in = self.model.generation() - u64::from(self.below(2));
        let [acknowledged, sent] = [(); 2].map(|()| u64::from(self.below(9)));
        let journal = Journal { acknowledged, sent, is_outdated: false };
        let (word, operation) = match self.below(8) {
            0 => ("end", Operation::End { version, is_first }),
            1 => ("release", Operation::Release { version, is_first }),
            2 | 3 => ("verify", Operation::Verify { version, is_attached, existed_in }),
            _ => ("write", Operation::Write { version, is_attached, is_first }),
        };
        let content = match operation {
            Operation::End { .. } => END_CODE.to_owned(),
            _ => format!("{} {}", journal.acknowledged, journal.sent),
        };
        let [attached, first] = [is_attached, is_first].map(|it| u8::from(it).to_string());
        let first = if word == "verify" { existed_in.to_string() } else { first };
        let arguments = [
            term.generation.to_string(),
            term.number.to_string(),
            version.to_string(),
            attached,
            first,
            remaining.to_string(),
            SECRET.to_owned(),
            content,
            REMEMBERED_MS.to_owned(),
        ];
        let reply = self.call(word, node, session, &arguments);
        let expected = match self.model.operate(
            (node, session, term),
            operation,
            State { remaining, journal },
            self.now,
        ) {
            Outcome::Accepted { term: Term { generation, number }, generation: current } => {
                format!("accepted {generation} {number} {current}")
            }
            Outcome::Fenced(Loss::Ended) if !self.model.has_ended(session) => "fenced ".to_owned(),
            Outcome::Fenced(Loss::Ended) => format!("fenced {END_CODE}"),
            Outcome::Fenced(Loss::Moved) => "fenced".to_owned(),
            Outcome::Unverified | Outcome::Unknown => "unverified".to_owned(),
        };
        assert_eq!(reply.join(" "), expected, "{operation:?} of {node:?} in {term:?}");
    }

    fn claim(&mut self, node: NodeId, session: SessionId) {
        let owner = self.model.record(session).and_then(|record| record.owner);
        let from = owner.filter(|_| self.rng.random()).map(|owner| (owner, self.term(session)));
        let mut arguments = vec![SECRET.to_owned()];
        if let Some((owner, Term { generation, number })) = from {
            arguments.extend([name(owner), generation.to_string(), number.to_string()]);
        } else {
            arguments.extend(["", "0", "0"].map(ToOwned::to_owned));
        }
        arguments.push(LEASE.to_string());
        let mut wrong = arguments.clone();
        "another digest".clone_into(&mut wrong[0]);
        assert_eq!(self.call("claim", node, session, &wrong), ["unknown"]);
        let reply = self.call("claim", node, session, &arguments);
        let expected = match self.model.claim(node, session, from, self.now) {
            Claimed::Granted(granted) => words(granted),
            Claimed::OwnedBy(owner, Term { generation, number }) => {
                format!("owned {} {generation} {number}", name(owner))
            }
            Claimed::Ended => format!("fenced {END_CODE}"),
            Claimed::NoRecord => "unknown".to_owned(),
        };
        assert_eq!(reply.join(" "), expected, "claim by {node:?}, from {from:?}");
    }

    fn adopt(&mut self, node: NodeId, session: SessionId) {
        let reply =
            self.call("adopt", node, session, &[WINDOW, RELEASE_GRACE, LEASE].map(|it| it.to_string()));
        let expected = match self.model.adopt(node, session, self.now) {
            Some(granted) => words(granted),
            None if self.model.has_ended(session) => format!("fenced {END_CODE}"),
            None => "unknown".to_owned(),
        };
        assert_eq!(reply.join(" "), expected, "adoption by {node:?}");
    }

    fn renew(&mut self, node: NodeId) {
        if !self.model.renew(node, self.now) {
            exec(&mut self.connection, &["ZADD", "since", &self.now.to_string(), &name(node)]);
        }
        exec(&mut self.connection, &["ZADD", "leases", &(self.now + LEASE).to_string(), &name(node)]);
    }

    /// Copies all data to another database, or back from it.
    fn copy(&mut self, from: &str, to: &str) {
        exec(&mut self.connection, &["SELECT", to]);
        exec(&mut self.connection, &["FLUSHDB"]);
        exec(&mut self.connection, &["SELECT", from]);
        let keys: Vec<String> = query(&mut self.connection, &["KEYS", "*"]);
        for key in keys {
            exec(&mut self.connection, &["COPY", &key, &key, "DB", to]);
        }
        exec(&mut self.connection, &["SELECT", "0"]);
    }

    fn check(&mut self, sessions: u32) {
        let mut ended: Vec<String> =
            self.model.events().iter().map(|session| session.0.to_string()).collect();
        ended.sort();
        let events: Vec<(String, Vec<String>)> = query(&mut self.connection, &["XRANGE", "ended", "-", "+"]);
        let mut found: Vec<_> = events.into_iter().map(|(_, fields)| fields[1].clone()).collect();
        found.sort();
        assert_eq!(found, ended);
        for session in (0..sessions).map(SessionId) {
            let fields = ["HMGET", &key(session), "owner", "attached", "until"];
            let found: Vec<Option<String>> = query(&mut self.connection, &fields);
            let expected = self.model.record(session).map(|record| {
                let attached = u8::from(record.is_attached).to_string();
                [record.owner.map(name).unwrap_or_default(), attached, record.deadline.to_string()]
            });
            let expected = expected.map_or(vec![None; 3], |fields| fields.into_iter().map(Some).collect());
            assert_eq!(found, expected, "{session:?}");
            let owner = self.model.record(session).map(|record| record.owner.map(name).unwrap_or_default());
            for place in (0..3).map(|number| name(NodeId(number))).chain([String::new()]) {
                let is_member: bool = query(
                    &mut self.connection,
                    &["SISMEMBER", &format!("of:{place}"), &session.0.to_string()],
                );
                assert_eq!(is_member, owner.as_ref() == Some(&place), "{session:?} of {place}");
            }
        }
    }
}

fn key(session: SessionId) -> String {
    format!("session:{}", session.0)
}

fn name(node: NodeId) -> String {
    format!("n_{}", node.0)
}

fn words(
    Granted { term, version, is_attached, journal, is_complete, remaining, was_taken }: Granted,
) -> String {
    let [attached, complete, taken] = [is_attached, is_complete, was_taken].map(u8::from);
    let Term { generation, number } = term;
    let Journal { acknowledged, sent, .. } = journal;
    format!(
        "granted {generation} {number} {version} {attached} {complete} {remaining} {taken} {acknowledged} {sent}"
    )
}

#[test]
fn the_session_script_agrees_with_the_model() {
    const SESSIONS: u32 = 3;
    let redis = Redis::start();
    with_seeds(1..9, |seed| {
        let mut both = Both::new(&redis, seed);
        for _ in 0..400 {
            both.now += u64::from(both.rng.random_range(0..700_u32));
            let (node, session) = (NodeId(both.below(3)), SessionId(both.below(SESSIONS)));
            match both.below(20) {
                0..8 => both.operate(node, session),
                8..12 => both.claim(node, session),
                12..15 => both.adopt(node, session),
                15..17 => both.renew(node),
                17 => {
                    both.model.replicate();
                    both.copy("0", "1");
                }
                18 if both.below(4) == 0 => {
                    both.model.fail_over();
                    both.copy("1", "0");
                }
                _ => both.check(SESSIONS),
            }
        }
        both.check(SESSIONS);
    });
}
