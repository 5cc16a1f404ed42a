use std::collections::{BTreeMap, BTreeSet};

use encke_seeds::with_seeds;
use encke_tests::redis::Redis;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use redis::{Connection, Value, from_redis_value};

use super::{exec, query};

const SCRIPT: &str = include_str!("../../../../server/broker/src/engine/redis/scripts/users.lua");
const KEYS: [&str; 5] = ["names", "given-up", "online", "of:", "events:"];
const USERS: [&str; 4] = ["ann", "bob", "car ol", "dan"];
const LEASE_MS: &str = "1000000";

/// Name of a server, and its calls.
#[derive(Default)]
struct Caller {
    name: String,
    calls: u64,
    acknowledged: u64,
}

/// Calls the script as servers do, and compares its events with a model: the users of each name.
struct World {
    connection: Connection,
    script: String,
    rng: StdRng,
    callers: Vec<Caller>,
    registered: BTreeMap<String, BTreeSet<String>>,
    /// Changes that must have caused events.
    expected: Vec<String>,
    /// Changes by the ids of their events.
    received: BTreeMap<String, String>,
    names: usize,
}

impl World {
    fn new(redis: &Redis, seed: u64) -> Self {
        let mut connection = redis.connect();
        exec(&mut connection, &["FLUSHALL"]);
        Self {
            connection,
            // Names are unregistered in one call or in several.
            script: match seed % 2 {
                0 => SCRIPT.to_owned(),
                _ => SCRIPT.replace("MAX_UNREGISTERED = 100", "MAX_UNREGISTERED = 2"),
            },
            rng: StdRng::seed_from_u64(seed),
            callers: Vec::new(),
            registered: BTreeMap::new(),
            expected: Vec::new(),
            received: BTreeMap::new(),
            names: 0,
        }
    }

    fn online(&self) -> BTreeSet<String> {
        self.registered.values().flatten().cloned().collect()
    }

    fn members(&mut self, key: &str) -> BTreeSet<String> {
        query(&mut self.connection, &["ZRANGE", key, "0", "-1"])
    }

    /// Makes a call. Returns whether more users are to be unregistered, or `None` if the name is not in use.
    /// Without `has_reply`, the caller does not learn of it.
    fn call(
        &mut self,
        caller: &mut Caller,
        given_up: &str,
        changes: &[(bool, &str)],
        has_reply: bool,
    ) -> Option<bool> {
        caller.calls += 1;
        let was_in_use = caller.calls == 1 || self.members("names").contains(&caller.name);
        let waiting = self.members("given-up");
        let before = self.online();
        let mut call = redis::cmd("EVAL");
        call.arg(&self.script).arg(KEYS.len()).arg(&KEYS).arg(&caller.name).arg(LEASE_MS).arg(caller.calls);
        call.arg(if caller.calls == 1 { String::new() } else { caller.acknowledged.to_string() });
        call.arg(given_up).arg("1");
        for (is_online, user) in changes {
            call.arg(format!("{}{user}", if *is_online { '+' } else { '-' }));
        }
        let mut reply: Vec<Value> = call.query(&mut self.connection).expect("the script succeeds");
        let status: u8 = from_redis_value(reply.remove(0)).expect("a number");
        assert_eq!(status != 0, was_in_use, "{}", caller.name);
        if !was_in_use {
            return None;
        }
        let users = self.registered.entry(caller.name.clone()).or_default();
        for (is_online, user) in changes {
            if *is_online {
                users.insert((*user).to_owned())
            } else {
                users.remove(*user)
            };
        }
        let (names, waits) = (self.members("names"), self.members("given-up"));
        assert!(given_up.is_empty() || !names.contains(given_up));
        // At most one name is unregistered in a call.
        let gone: Vec<_> = self
            .registered
            .keys()
            .filter(|name| !names.contains(*name) && !waits.contains(*name))
            .cloned()
            .collect();
        assert!(
            gone.len() <= 1 && gone.len() + waits.len() >= waiting.len(),
            "{gone:?} {waits:?} {waiting:?}"
        );
        gone.iter().for_each(|name| _ = self.registered.remove(name));
        for name in waits {
            let left = self.members(&format!("of:{name}"));
            self.registered.insert(name, left);
        }
        let after = self.online();
        self.expected.extend(after.difference(&before).map(|user| format!("+{user}")));
        self.expected.extend(before.difference(&after).map(|user| format!("-{user}")));
        if has_reply {
            caller.acknowledged = caller.calls;
            for event in reply {
                let event: String = from_redis_value(event).expect("text");
                let [id, _at, change] = event.splitn(3, ' ').collect::<Vec<_>>()[..] else {
                    panic!("{event}")
                };
                self.received.insert(id.to_owned(), change.to_owned());
            }
        }
        Some(status == 2)
    }

    fn step(&mut self) {
        let action = self.rng.random_range(0..20);
        if self.callers.is_empty() || (action == 0 && self.callers.len() < 4) {
            self.names += 1;
            let mut caller = Caller { name: format!("n{}", self.names), ..Caller::default() };
            self.call(&mut caller, "", &[], true).expect("the name is new");
            self.callers.push(caller);
            return;
        }
        let mut caller = self.callers.swap_remove(self.rng.random_range(0..self.callers.len()));
        let name = caller.name.clone();
        match action {
            // The server dies, and its lease ends.
            1 => exec(&mut self.connection, &["ZADD", "names", "XX", "1", &name]),
            // A lease expires although its server is alive.
            2 => {
                exec(&mut self.connection, &["ZADD", "names", "XX", "1", &name]);
                self.callers.push(caller);
            }
            _ => {
                let other = match self.callers.last() {
                    Some(other) if action == 3 => other.name.clone(),
                    _ => String::new(),
                };
                let mut changes = Vec::new();
                for user in USERS {
                    if self.rng.random_bool(0.3) {
                        changes.push((self.rng.random(), user));
                    }
                }
                let has_reply = self.rng.random_bool(0.8);
                if self.call(&mut caller, &other, &changes, has_reply).is_some() {
                    self.callers.push(caller);
                }
            }
        }
    }

    /// Gives up all names, and receives all events.
    fn finish(mut self) {
        let mut last = Caller { name: "last".to_owned(), ..Caller::default() };
        let names: Vec<_> = self.registered.keys().cloned().collect();
        self.call(&mut last, "", &[], true);
        for name in names {
            self.call(&mut last, &name, &[], true);
        }
        while self.call(&mut last, "", &[], true) == Some(true) {}
        let mut received: Vec<_> = self.received.values().cloned().collect();
        received.sort();
        self.expected.sort();
        assert_eq!(received, self.expected);
        for user in USERS {
            let count = |sign: char| received.iter().filter(|it| **it == format!("{sign}{user}")).count();
            assert_eq!(count('+'), count('-'), "{user}");
        }
        let left: BTreeSet<String> = query(&mut self.connection, &["KEYS", "*"]);
        assert_eq!(left, ["names".to_owned()].into(), "nothing is left of the other names");
    }
}

/// Replies are lost, and leases end. Still, all events arrive, and a repeated event has the same id.
#[test]
fn each_change_causes_one_event() {
    let redis = Redis::start();
    with_seeds(0..50, |seed| {
        let mut world = World::new(&redis, seed);
        (0..200).for_each(|_| world.step());
        world.finish();
    });
}
