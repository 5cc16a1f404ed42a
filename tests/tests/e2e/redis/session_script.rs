//! Compares the script for session records with the model of the directory that the simulation of nodes uses.

use std::collections::BTreeSet;

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

pub(super) const SCRIPT: &str =
    include_str!("../../../../server/broker/src/engine/redis/scripts/session.lua");
pub(super) const LEASE_SCRIPT: &str =
    include_str!("../../../../server/broker/src/engine/redis/scripts/lease.lua");
/// The scripts' time, and its replacement: the test's own time.
const TIME: &str = "time[1] * 1000 + math.floor(time[2] / 1000)";
const TEST_TIME: &str = "tonumber(redis.call('GET', 'now'))";
const SECRET: &str = "digest";
const END_CODE: &str = "4002";
/// The end of a session is forgotten by the test, not by Redis.
const REMEMBERED_MS: &str = "1000000000";
const USER: &str = "=ada";

/// A directory in Redis and its model.
struct Both {
    connection: Connection,
    script: String,
    lease_script: String,
    model: Directory,
    rng: StdRng,
    now: Millis,
}

impl Both {
    fn new(redis: &Redis, seed: u64) -> Self {
        let mut connection = redis.connect();
        exec(&mut connection, &["FLUSHALL"]);
        let [script, lease_script] = [SCRIPT, LEASE_SCRIPT].map(with_test_time);
        let (model, rng) = (Directory::new(None), StdRng::seed_from_u64(seed));
        Self { connection, script, lease_script, model, rng, now: 1_000_000 }
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
            USER.to_owned(),
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
        arguments.extend([LEASE.to_string(), USER.to_owned()]);
        let exists = self.model.record(session).is_some();
        let [mut wrong, mut other] = [(); 2].map(|()| arguments.clone());
        "another digest".clone_into(&mut wrong[0]);
        let refused = self.call("claim", node, session, &wrong);
        assert!(refused == ["unknown"] || (!exists && refused == ["unsettled"]), "{refused:?}");
        "=eve".clone_into(other.last_mut().expect("the user"));
        let is_refused = self.call("claim", node, session, &other) == ["other_user"];
        assert_eq!(is_refused, exists && !self.model.has_ended(session));
        let reply = self.call("claim", node, session, &arguments);
        let expected = match self.model.claim(node, session, from, self.now) {
            Claimed::Granted(granted) => words(granted, owner.filter(|owner| *owner != node)),
            Claimed::OwnedBy(owner, Term { generation, number }) => {
                format!("owned {} {generation} {number}", name(owner))
            }
            Claimed::Ended => format!("fenced {END_CODE}"),
            Claimed::NoRecord if reply == ["unsettled"] => "unsettled".to_owned(),
            Claimed::NoRecord => "unknown".to_owned(),
        };
        assert_eq!(reply.join(" "), expected, "claim by {node:?}, from {from:?}");
    }

    fn adopt(&mut self, node: NodeId, session: SessionId) {
        let reply =
            self.call("adopt", node, session, &[WINDOW, RELEASE_GRACE, LEASE].map(|it| it.to_string()));
        let owner = self.model.record(session).and_then(|record| record.owner);
        let expected = match self.model.adopt(node, session, self.now) {
            Some(granted) => words(granted, owner),
            None if self.model.has_ended(session) => format!("fenced {END_CODE}"),
            None => "unknown".to_owned(),
        };
        assert_eq!(reply.join(" "), expected, "adoption by {node:?}");
    }

    fn renew(&mut self, node: NodeId) {
        exec(&mut self.connection, &["SET", "now", &self.now.to_string()]);
        let renewal = call_lease(&mut self.connection, &self.lease_script, "renew", &name(node));
        let (was_held, alive, dead) = renewal.expect("a reply to a renewal");
        assert_eq!(was_held, self.model.renew(node, self.now), "renewal by {node:?}");
        assert!(alive.contains(&name(node)), "{alive:?}");
        let after_now = format!("({}", self.now);
        let leases: BTreeSet<String> =
            query(&mut self.connection, &["ZRANGEBYSCORE", "leases", &after_now, "+inf"]);
        assert_eq!(alive, leases);
        // The server of each session has a lease, or is found by the others.
        let owners = self.model.records().filter_map(|(_, record)| record.owner).map(name);
        assert_eq!(dead, owners.filter(|owner| !alive.contains(owner)).collect::<BTreeSet<_>>());
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

/// Returns the script with the test's time.
pub(super) fn with_test_time(script: &str) -> String {
    let replaced = script.replace(TIME, TEST_TIME);
    assert_ne!(replaced, script);
    replaced
}

/// Reply to a renewal: whether the lease was held, the servers with a lease, and those without one that own sessions.
type Renewal = (bool, BTreeSet<String>, BTreeSet<String>);

/// Calls the script for leases. The end of a lease has no reply.
fn call_lease(connection: &mut Connection, script: &str, operation: &str, server: &str) -> Option<Renewal> {
    let mut call = redis::cmd("EVAL");
    call.arg(script).arg(3).arg("leases").arg("since").arg("of:");
    type Reply = (bool, BTreeSet<String>, BTreeSet<String>, u64, u64);
    let reply: Option<Reply> =
        call.arg(operation).arg(server).arg(LEASE).query(connection).expect("the script succeeds");
    let (was_held, alive, dead, unowned, owned) = reply?;
    let count = |connection: &mut Connection, key: String| query::<u64>(connection, &["SCARD", &key]);
    assert_eq!(unowned, count(connection, "of:".to_owned()));
    assert_eq!(owned, count(connection, format!("of:{server}")));
    Some((was_held, alive, dead))
}

fn key(session: SessionId) -> String {
    format!("session:{}", session.0)
}

fn name(node: NodeId) -> String {
    format!("n_{}", node.0)
}

fn words(
    Granted { term, version, is_attached, journal, is_complete, remaining, .. }: Granted,
    former: Option<NodeId>,
) -> String {
    let [attached, complete] = [is_attached, is_complete].map(u8::from);
    let former = former.map(name).unwrap_or_default();
    let Term { generation, number } = term;
    let Journal { acknowledged, sent, .. } = journal;
    format!(
        "granted {generation} {number} {version} {attached} {complete} {remaining} {acknowledged} {sent} {SECRET} {former}"
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

/// Writes a session that this server opens.
fn write_session(connection: &mut Connection, script: &str, operation: &str, server: &str, session: &str) {
    let mut call = redis::cmd("EVAL");
    call.arg(script).arg(5).arg(format!("session:{session}"));
    call.arg("of:").arg("ended").arg("leases").arg("since");
    call.arg(operation).arg(server).arg(1).arg(session);
    call.arg(&["1", "1", "1", "1", "1", "1000", SECRET, END_CODE, REMEMBERED_MS, USER]);
    let reply: Vec<Value> = call.query(connection).expect("the script succeeds");
    let status: String = from_redis_value(reply[0].clone()).expect("a word");
    assert_eq!(status, "accepted");
}

#[test]
fn a_server_without_a_lease_is_found_while_it_owns_sessions() {
    let redis = Redis::start();
    let mut connection = redis.connect();
    let [script, lease_script] = [SCRIPT, LEASE_SCRIPT].map(with_test_time);
    let set_time = |connection: &mut Connection, now: Millis| {
        exec(connection, &["SET", "now", &now.to_string()]);
    };
    let call = |connection: &mut Connection, operation: &str, server: &str| {
        call_lease(connection, &lease_script, operation, server)
    };
    let names = |names: &[&str]| names.iter().map(ToString::to_string).collect::<BTreeSet<_>>();
    set_time(&mut connection, 1_000_000);
    assert_eq!(call(&mut connection, "renew", "n_1"), Some((false, names(&["n_1"]), names(&[]))));
    assert_eq!(call(&mut connection, "renew", "n_2"), Some((false, names(&["n_1", "n_2"]), names(&[]))));
    write_session(&mut connection, &script, "write", "n_1", "7");
    assert_eq!(call(&mut connection, "end", "n_1"), None);
    assert_eq!(call(&mut connection, "renew", "n_2"), Some((true, names(&["n_2"]), names(&["n_1"]))));
    write_session(&mut connection, &script, "end", "n_1", "7");
    assert_eq!(call(&mut connection, "renew", "n_2"), Some((true, names(&["n_2"]), names(&[]))));
    let count = |connection: &mut Connection, key: &str| query::<u64>(connection, &["ZCARD", key]);
    assert_eq!(["leases", "since"].map(|key| count(&mut connection, key)), [1, 1]);
    // A request that was sent before the end of the lease is executed after its removal.
    write_session(&mut connection, &script, "write", "n_1", "8");
    assert_eq!(call(&mut connection, "renew", "n_2"), Some((true, names(&["n_2"]), names(&["n_1"]))));
    assert_eq!(call(&mut connection, "renew", "n_1"), Some((false, names(&["n_1", "n_2"]), names(&[]))));
    // The lease lasts until exactly its length after the renewal.
    set_time(&mut connection, 1_000_000 + LEASE);
    assert_eq!(call(&mut connection, "renew", "n_2"), Some((false, names(&["n_2"]), names(&["n_1"]))));
    assert_eq!(call(&mut connection, "end", "n_2"), None);
    assert_eq!(["leases", "since"].map(|key| count(&mut connection, key)), [1, 1]);
}

/// A server that has not received the reply to its claim does not know that it owns the session.
#[test]
fn a_server_adopts_a_session_that_it_owns_unknowingly() {
    let redis = Redis::start();
    let mut connection = redis.connect();
    let script = with_test_time(SCRIPT);
    exec(&mut connection, &["SET", "now", "1000000"]);
    write_session(&mut connection, &script, "write", "n_1", "7");
    let mut adopt = |server: &str, is_own: &str| {
        let mut call = redis::cmd("EVAL");
        call.arg(&script).arg(5).arg("session:7").arg("of:").arg("ended").arg("leases").arg("since");
        call.arg("adopt").arg(server).arg(1).arg("7").arg(&["1000", "1000", "1000", is_own]);
        let reply: Vec<Value> = call.query(&mut connection).expect("the script succeeds");
        from_redis_value::<String>(reply[0].clone()).expect("a word")
    };
    let replies = [adopt("n_1", "0"), adopt("n_2", "1"), adopt("n_1", "1")];
    assert_eq!(replies, ["unknown", "unknown", "granted"]);
}

#[test]
fn servers_and_ended_sessions_are_limited() {
    const MAX_SERVERS: usize = 1024;
    let redis = Redis::start();
    let mut connection = redis.connect();
    let lease_script = with_test_time(LEASE_SCRIPT);
    exec(&mut connection, &["SET", "now", "1000000"]);
    let mut add = redis::pipe();
    for number in 0..=MAX_SERVERS {
        add.cmd("ZADD").arg("leases").arg(2_000_000).arg(format!("alive-{number}"));
        add.cmd("ZADD").arg("leases").arg(900_000).arg(format!("dead-{number}"));
        add.cmd("ZADD").arg("leases").arg(800_000).arg(format!("empty-{number}"));
        add.cmd("SADD").arg(format!("of:dead-{number}")).arg(number);
    }
    add.exec(&mut connection).expect("the servers are added");
    let mut renew = || {
        let renewal = call_lease(&mut connection, &lease_script, "renew", "n_1");
        let (_, alive, dead) = renewal.expect("a reply to a renewal");
        (alive.len(), dead.len())
    };
    // Each call examines so many ended leases, the oldest first.
    assert_eq!(
        [renew(), renew(), renew()],
        [0, MAX_SERVERS - 1, MAX_SERVERS].map(|dead| (MAX_SERVERS, dead))
    );

    let script = SCRIPT.replace("MAX_ENDED = 10000", "MAX_ENDED = 100");
    assert_ne!(script, SCRIPT);
    for session in 0..500 {
        write_session(&mut connection, &script, "end", "n_1", &session.to_string());
    }
    let ended: u64 = query(&mut connection, &["XLEN", "ended"]);
    assert!((100..=200).contains(&ended), "Redis trims the stream by whole blocks: {ended}");
}
