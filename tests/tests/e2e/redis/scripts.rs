use encke_tests::redis::Redis;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use redis::{Cmd, Connection, Value, from_redis_value};

use super::model::{Model, OpenedChannel};
use super::session_script::with_test_time;
use super::{exec, query};

macro_rules! script {
    ($name:literal) => {
        include_str!(concat!("../../../../server/broker/src/engine/redis/scripts/", $name, ".lua"))
    };
}
const PUBLISH: &str = concat!(script!("epoch"), "\n", script!("publish"));
const OPEN: &str = concat!(script!("epoch"), "\n", script!("open"));
const GENERATION: &str = script!("generation");

const CHANNELS: [&str; 3] = ["a", "b", "c"];

/// Minimum number of messages that a log retains.
const MIN_LOG_MESSAGES: usize = 20;

/// Minimum age at which messages are removed, and the lifetimes of the logs and of the meta keys.
const LIFETIMES_MS: [&str; 3] = ["60000", "70000", "80000"];

/// Maximum number of known publishes.
const MAX_KNOWN_PUBLISHES: usize = 8;

/// Returns a call of a script, to which arguments can be added.
fn eval(script: &str, keys: &[&str]) -> Cmd {
    let mut call = redis::cmd("EVAL");
    call.arg(script).arg(keys.len()).arg(keys);
    call
}

/// Calls the scripts as a server does.
struct ScriptRunner {
    connection: Connection,
    lifetimes_ms: [&'static str; 3],
}

impl ScriptRunner {
    fn new(redis: &Redis, lifetimes_ms: [&'static str; 3]) -> Self {
        Self { connection: redis.connect(), lifetimes_ms }
    }

    /// Publishes, with an idempotency key unless `id` is empty. Returns the epoch and the offset, and whether
    /// the publish was a repeat.
    fn publish(
        &mut self,
        channel: &str,
        data: &str,
        new_epoch: &str,
        generation: u64,
        id: &str,
    ) -> (String, u64, bool) {
        let [meta, log, feed] = keys(channel);
        let (known, key_count) = (known(channel), if id.is_empty() { 2 } else { 3 });
        let mut call = eval(PUBLISH, &[&*meta, &log, &known][..key_count]);
        call.arg(data).arg(MIN_LOG_MESSAGES).arg(&self.lifetimes_ms);
        call.arg(new_epoch).arg(generation).arg(feed).arg("");
        if !id.is_empty() {
            call.arg(id).arg(MAX_KNOWN_PUBLISHES);
        }
        let reply: Vec<Value> = call.query(&mut self.connection).expect("the reply of a publish");
        let (epoch, offset) = from_redis_value(Value::Array(reply[..2].to_vec())).expect("a position");
        (epoch, offset, reply.len() == 3)
    }

    /// Asserts that the log lives as long as required, that the meta key lives longer, and that known
    /// publishes are limited.
    #[track_caller]
    fn assert_limits(&mut self, channel: &str) {
        let [meta, log, _] = keys(channel).map(|key| self.left_ms(&key));
        // Some time has passed since the lifetimes were set.
        assert!((55_000..=70_000).contains(&log) && (log..=80_000).contains(&meta), "{log} {meta}");
        let known = known(channel);
        let fields: usize = query(&mut self.connection, &["HLEN", &known]);
        assert!(fields <= 2 * MAX_KNOWN_PUBLISHES + 1, "{fields}");
        assert!(fields == 0 || (1..=60_000).contains(&self.left_ms(&known)), "{fields}");
    }

    fn left_ms(&mut self, key: &str) -> i64 {
        query(&mut self.connection, &["PTTL", key])
    }

    /// Removes the log, as if it had expired.
    fn expire_log(&mut self, channel: &str) {
        let [meta, log, _] = keys(channel);
        exec(&mut self.connection, &["DEL", &log]);
        if self.left_ms(&meta) > 0 {
            exec(&mut self.connection, &["HSET", &meta, "kept", "1"]);
        }
    }

    /// Makes all known publishes look old.
    fn age_publishes(&mut self, channel: &str) {
        let known = known(channel);
        let fields: Vec<(String, String)> = query(&mut self.connection, &["HGETALL", &known]);
        for (id, record) in fields {
            if let Some((_, rest)) = record.split_once(' ') {
                exec(&mut self.connection, &["HSET", &known, &id, &format!("1 {rest}")]);
            }
        }
    }

    fn open(&mut self, channel: &str, new_epoch: &str, generation: u64) -> OpenedChannel {
        let [meta, log, _] = keys(channel);
        let mut call = eval(OPEN, &[&meta, &log]);
        call.arg(self.lifetimes_ms[2]).arg(new_epoch).arg(generation);
        let (epoch, offset, past, _ms): (String, u64, String, u64) =
            call.query(&mut self.connection).expect("the state of the channel");
        let words: Vec<&str> = past.split_whitespace().collect();
        let past = words.chunks(2).map(|pair| (pair[0].to_owned(), pair[1].parse().expect("a cut")));
        let entries: Vec<(String, Vec<(String, String)>)> =
            query(&mut self.connection, &["XRANGE", &log, "-", "+"]);
        let log = entries.into_iter().map(|(id, fields)| {
            let offset = id.strip_prefix("0-").expect("an id with this prefix").parse().expect("an offset");
            let [(_, at), (name, data)] = <[_; 2]>::try_from(fields).expect("two fields");
            assert!(at.parse::<u64>().is_ok() && name == "d", "{at} {name}");
            (offset, data)
        });
        OpenedChannel { epoch, offset, past: past.collect(), log: log.collect() }
    }
}

/// Returns the meta key, log and feed of a channel.
fn keys(channel: &str) -> [String; 3] {
    ["m", "l", "c"].map(|kind| format!("{{7}}{kind}:{channel}"))
}

/// Returns the key of the known publishes.
fn known(channel: &str) -> String {
    format!("{{7}}k:{channel}")
}

/// Asserts that the log contains at least the newest messages, and none that the model lacks. The log may
/// lack older ones, because Redis trims logs by whole blocks.
#[track_caller]
fn assert_same(real: OpenedChannel, model: OpenedChannel) {
    let first = model.log.len() - real.log.len().min(model.log.len());
    assert!(real.log.len() >= MIN_LOG_MESSAGES.min(model.log.len()), "{real:?}\n{model:?}");
    assert_eq!(real, OpenedChannel { log: model.log[first..].to_vec(), ..model });
}

#[test]
fn scripts_agree_with_the_model() {
    let redis = Redis::start();
    encke_seeds::with_seeds(1..2, |seed| random_run(&redis, seed));
}

fn random_run(redis: &Redis, seed: u64) {
    let mut rng = StdRng::seed_from_u64(seed);
    let (mut real, mut model) = (ScriptRunner::new(redis, LIFETIMES_MS), Model::default());
    exec(&mut real.connection, &["FLUSHALL"]);
    let mut generation = 1;
    for step in 0..2000 {
        let channel = CHANNELS[rng.random_range(0..CHANNELS.len())];
        let new_epoch = format!("epoch-{step}");
        // A server that has not noticed the change yet passes the previous generation.
        let passed = if rng.random_ratio(1, 8) { 1.max(generation - 1) } else { generation };
        let data = format!(r#"{{"step":{step}}}"#);
        match rng.random_range(0..200) {
            0..75 => {
                let id = format!("id-{}", rng.random_range(0..3 * MAX_KNOWN_PUBLISHES));
                let expected =
                    model.publish_once(channel, &data, &new_epoch, passed, (&id, MAX_KNOWN_PUBLISHES));
                let published = real.publish(channel, &data, &new_epoch, passed, &id);
                assert_eq!(published, expected, "step {step}");
                if !published.2 {
                    real.assert_limits(channel);
                }
            }
            75..150 => {
                let (epoch, offset) = model.publish(channel, &data, &new_epoch, passed);
                let published = real.publish(channel, &data, &new_epoch, passed, "");
                assert_eq!(published, (epoch, offset, false), "step {step}");
                real.assert_limits(channel);
            }
            150..152 => {
                real.age_publishes(channel);
                model.forget_publishes(channel);
            }
            152..190 => {
                let expected = model.open(channel, &new_epoch, passed);
                assert_same(real.open(channel, &new_epoch, passed), expected);
            }
            190..193 => generation += 1,
            193..196 => {
                real.expire_log(channel);
                model.expire_log(channel);
            }
            196..199 => {
                exec(&mut real.connection, &["DEL", &keys(channel)[0]]);
                model.lose_meta(channel);
            }
            _ => {
                exec(&mut real.connection, &["FLUSHALL"]);
                model.flush();
            }
        }
    }
}

#[test]
fn expiry_is_extended_only_when_needed() {
    let redis = Redis::start();
    let mut real = ScriptRunner::new(&redis, LIFETIMES_MS);
    let [meta, log, _] = keys("a");
    let kept = |real: &mut ScriptRunner| -> u64 { query(&mut real.connection, &["HGET", &meta, "kept"]) };
    real.publish("a", "1", "e", 1, "");
    let first = kept(&mut real);
    real.publish("a", "2", "e", 1, "");
    assert_eq!(kept(&mut real), first, "the remaining lifetime is sufficient");
    // Act as if the lifetime had been set twelve seconds ago.
    let long_ago = (first - 12_000).to_string();
    exec(&mut real.connection, &["HSET", &meta, "kept", &long_ago]);
    exec(&mut real.connection, &["PEXPIREAT", &log, &long_ago]);
    real.publish("a", "3", "e", 1, "");
    assert!(kept(&mut real) >= first);
    real.assert_limits("a");
}

#[test]
fn unlimited_history_sets_no_expiry() {
    let redis = Redis::start();
    let [mut limited, mut unlimited] = [LIFETIMES_MS, ["0"; 3]].map(|ms| ScriptRunner::new(&redis, ms));
    let [meta, log, _] = keys("a");
    // In the second round, another server has already set an expiry.
    for id in ["first", "second"] {
        if id == "second" {
            limited.publish("a", "0", "e", 1, "");
        }
        unlimited.publish("a", "1", "e", 1, id);
        for key in [&meta, &log, &known("a")] {
            assert_eq!(unlimited.left_ms(key), -1, "{key}");
        }
        exec(&mut unlimited.connection, &["DEL", &meta]);
    }
}

#[test]
fn a_new_replication_id_starts_a_new_generation() {
    let redis = Redis::start();
    let mut connection = redis.connect();
    let script = with_test_time(GENERATION);
    let mut generation_of = |id: &str, now: u64| {
        exec(&mut connection, &["SET", "now", &now.to_string()]);
        eval(&script, &["life"]).arg(id).query::<u64>(&mut connection).expect("a generation")
    };
    assert_eq!([("x", 1000), ("x", 1001)].map(|(id, now)| generation_of(id, now)), [1000; 2]);
    assert_eq!([("y", 1500), ("y", 1501)].map(|(id, now)| generation_of(id, now)), [1500; 2]);
    assert_eq!(generation_of("x", 1400), 1501, "the clock of this Redis is behind");
    // A failover loses the last generation, whose number must not be used again.
    exec(&mut redis.connect(), &["HSET", "life", "id", "y", "life", "1500"]);
    assert_eq!(generation_of("z", 1600), 1600);
    // A lost generation is replaced by one above any that channels may know.
    exec(&mut redis.connect(), &["DEL", "life"]);
    assert_eq!(generation_of("z", 1700), 1700);
}
