use encke_tests::redis::Redis;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use redis::{Connection, Script, Value, from_redis_value};

use super::model::{Model, OpenedChannel};

const EPOCH: &str = include_str!("../../../../server/broker/src/engine/redis/scripts/epoch.lua");
const PUBLISH: &str = include_str!("../../../../server/broker/src/engine/redis/scripts/publish.lua");
const OPEN: &str = include_str!("../../../../server/broker/src/engine/redis/scripts/open.lua");
const GENERATION: &str = include_str!("../../../../server/broker/src/engine/redis/scripts/generation.lua");

const CHANNELS: [&str; 3] = ["a", "b", "c"];

/// Minimum number of messages that a log retains.
const MIN_LOG_MESSAGES: usize = 20;

const MINUTE_MS: &str = "60000";

/// Lifetimes of the logs, which keep messages for at least a minute, and of the meta keys.
const LIFETIMES_MS: [&str; 2] = ["70000", "80000"];

/// Maximum number of known publishes.
const MAX_KNOWN_PUBLISHES: usize = 8;

/// Calls the scripts as a server does.
struct ScriptRunner {
    connection: Connection,
    publish: Script,
    open: Script,
}

impl ScriptRunner {
    fn new(redis: &Redis) -> Self {
        let script = |body: &str| Script::new(&format!("{EPOCH}\n{body}"));
        Self { connection: redis.connect(), publish: script(PUBLISH), open: script(OPEN) }
    }

    fn publish(&mut self, channel: &str, data: &str, new_epoch: &str, generation: u64) -> (String, u64) {
        self.publish_as("", channel, data, new_epoch, generation)
    }

    fn publish_as(
        &mut self,
        user: &str,
        channel: &str,
        data: &str,
        new_epoch: &str,
        generation: u64,
    ) -> (String, u64) {
        let [meta, log, feed] = keys(channel);
        let mut call = self.publish.key(meta);
        call.key(log).arg(data).arg(MIN_LOG_MESSAGES).arg(MINUTE_MS).arg(&LIFETIMES_MS);
        call.arg(new_epoch).arg(generation).arg(feed).arg(user);
        let published = call.invoke(&mut self.connection).expect("an epoch and an offset");
        self.assert_lifetimes(channel);
        published
    }

    fn publish_once(
        &mut self,
        channel: &str,
        data: &str,
        new_epoch: &str,
        generation: u64,
        id: &str,
    ) -> (String, u64, bool) {
        let [meta, log, feed] = keys(channel);
        let mut call = self.publish.key(meta);
        call.key(log).key(known(channel)).arg(data).arg(MIN_LOG_MESSAGES).arg(MINUTE_MS).arg(&LIFETIMES_MS);
        call.arg(new_epoch).arg(generation).arg(feed).arg("").arg(id).arg(MAX_KNOWN_PUBLISHES);
        let answer: Value = call.invoke(&mut self.connection).expect("the reply of a publish");
        let left = self.left_ms(&known(channel));
        assert!((1..=60_000).contains(&left), "{left} ms");
        let fields: usize =
            redis::cmd("HLEN").arg(known(channel)).query(&mut self.connection).expect("a number");
        assert!(fields <= 2 * MAX_KNOWN_PUBLISHES + 1, "{fields}");
        match from_redis_value::<(String, u64)>(answer.clone()) {
            Ok((epoch, offset)) => {
                self.assert_lifetimes(channel);
                (epoch, offset, false)
            }
            Err(_) => {
                let (epoch, offset, _): (String, u64, u64) =
                    from_redis_value(answer).expect("the reply of a repeat");
                (epoch, offset, true)
            }
        }
    }

    /// Asserts that the log lives as long as required, and that the meta key lives longer.
    #[track_caller]
    fn assert_lifetimes(&mut self, channel: &str) {
        let [meta, log, _] = keys(channel).map(|key| self.left_ms(&key));
        // Some time has passed since the lifetimes were set.
        assert!((55_000..=70_000).contains(&log) && (log..=80_000).contains(&meta), "{log} {meta}");
    }

    fn left_ms(&mut self, key: &str) -> i64 {
        redis::cmd("PTTL").arg(key).query(&mut self.connection).expect("a number")
    }

    /// Removes the log, as if it had expired.
    fn expire_log(&mut self, channel: &str) {
        let [meta, log, _] = keys(channel);
        self.delete(&log);
        if self.left_ms(&meta) > 0 {
            redis::cmd("HSET").arg(&[&meta, "kept", "1"]).exec(&mut self.connection).expect("the key is set");
        }
    }

    /// Makes all known publishes look old.
    fn age_publishes(&mut self, channel: &str) {
        let known = known(channel);
        let fields: Vec<(String, String)> =
            redis::cmd("HGETALL").arg(&known).query(&mut self.connection).expect("a hash");
        for (id, record) in fields {
            if let Some((_, rest)) = record.split_once(' ') {
                let record = format!("1 {rest}");
                redis::cmd("HSET")
                    .arg(&[&known, &id, &record])
                    .exec(&mut self.connection)
                    .expect("the key is set");
            }
        }
    }

    fn open(&mut self, channel: &str, new_epoch: &str, generation: u64) -> OpenedChannel {
        let [meta, log, _] = keys(channel);
        let mut call = self.open.key(meta);
        call.key(&log).arg(LIFETIMES_MS[1]).arg(new_epoch).arg(generation);
        let (epoch, offset, past, _ms): (String, u64, String, u64) =
            call.invoke(&mut self.connection).expect("the state of the channel");
        let words: Vec<&str> = past.split_whitespace().collect();
        let past = words.chunks(2).map(|pair| (pair[0].to_owned(), pair[1].parse().expect("a cut")));
        let entries: Vec<(String, Vec<(String, String)>)> =
            redis::cmd("XRANGE").arg(log).arg("-").arg("+").query(&mut self.connection).expect("a log");
        let log = entries.into_iter().map(|(id, fields)| {
            let offset = id.strip_prefix("0-").expect("an id with this prefix").parse().expect("an offset");
            let [(_, at), (name, data)] = <[_; 2]>::try_from(fields).expect("two fields");
            assert!(at.parse::<u64>().is_ok() && name == "d", "{at} {name}");
            (offset, data)
        });
        OpenedChannel { epoch, offset, past: past.collect(), log: log.collect() }
    }

    fn delete(&mut self, key: &str) {
        redis::cmd("DEL").arg(key).exec(&mut self.connection).expect("the key is deleted");
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
    let seeds = match std::env::var("ENCKE_SEED") {
        Ok(seed) => vec![seed.parse().expect("ENCKE_SEED is a number")],
        Err(_) => vec![1, rand::random()],
    };
    for seed in seeds {
        println!("ENCKE_SEED={seed}");
        random_run(&redis, seed);
    }
}

fn random_run(redis: &Redis, seed: u64) {
    let mut rng = StdRng::seed_from_u64(seed);
    let (mut real, mut model) = (ScriptRunner::new(redis), Model::default());
    redis::cmd("FLUSHALL").exec(&mut real.connection).expect("Redis is flushed");
    let mut generation = 1;
    for step in 0..2000 {
        let channel = CHANNELS[rng.random_range(0..CHANNELS.len())];
        let new_epoch = format!("epoch-{step}");
        // A server that has not noticed the change yet passes the previous generation.
        let passed = if rng.random_ratio(1, 8) { 1.max(generation - 1) } else { generation };
        match rng.random_range(0..200) {
            0..75 => {
                let data = format!(r#"{{"step":{step}}}"#);
                let id = format!("id-{}", rng.random_range(0..3 * MAX_KNOWN_PUBLISHES));
                let expected =
                    model.publish_once(channel, &data, &new_epoch, passed, (&id, MAX_KNOWN_PUBLISHES));
                assert_eq!(
                    real.publish_once(channel, &data, &new_epoch, passed, &id),
                    expected,
                    "step {step}"
                );
            }
            75..150 => {
                let data = format!(r#"{{"step":{step}}}"#);
                let expected = model.publish(channel, &data, &new_epoch, passed);
                assert_eq!(real.publish(channel, &data, &new_epoch, passed), expected, "step {step}");
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
                real.delete(&keys(channel)[0]);
                model.lose_meta(channel);
            }
            _ => {
                redis::cmd("FLUSHALL").exec(&mut real.connection).expect("Redis is flushed");
                model.flush();
            }
        }
    }
}

#[test]
fn publishes_are_sent_to_the_feed() {
    let redis = Redis::start();
    let mut real = ScriptRunner::new(&redis);
    let mut listener = redis.connect();
    let mut listener = listener.as_pubsub();
    let [.., feed] = keys("a");
    listener.subscribe(&feed).expect("the feed is subscribed to");
    real.publish("a", r#""one two""#, "e", 1);
    let message: String = listener.get_message().expect("a message").get_payload().expect("text");
    let mut words = message.splitn(4, ' ');
    assert_eq!((words.next(), words.next()), (Some("e"), Some("1")));
    assert!(words.next().is_some_and(|at| at.parse::<u64>().is_ok()), "{message}");
    assert_eq!(words.next(), Some(r#""one two""#));
    let user = "a b\u{e9}";
    real.publish_as(user, "a", "2", "e", 1);
    let message: String = listener.get_message().expect("a message").get_payload().expect("text");
    let mut words = message.splitn(4, ' ');
    let (at, rest) = (words.nth(2).expect("the time"), words.next().expect("the user and the message"));
    let (at, bytes) = at.split_once(':').expect("the length of the name");
    assert!(at.parse::<u64>().is_ok(), "{message}");
    assert_eq!((bytes, rest), ("5", "a b\u{e9} 2"));
    let [_, log, _] = keys("a");
    let entries: Vec<(String, Vec<(String, String)>)> =
        redis::cmd("XRANGE").arg(log).arg("-").arg("+").query(&mut real.connection).expect("a log");
    let names: Vec<Vec<&str>> =
        entries.iter().map(|(_, fields)| fields.iter().map(|(name, _)| &**name).collect()).collect();
    assert_eq!(names, [vec!["t", "d"], vec!["t", "d", "u"]], "anonymous messages have no user field");
    assert_eq!(entries[1].1[2].1, user);
}

#[test]
fn expiry_is_extended_only_when_needed() {
    let redis = Redis::start();
    let mut real = ScriptRunner::new(&redis);
    let [meta, log, _] = keys("a");
    let kept = |real: &mut ScriptRunner| -> u64 {
        redis::cmd("HGET").arg(&[&*meta, "kept"]).query(&mut real.connection).expect("a time")
    };
    real.publish("a", "1", "e", 1);
    let first = kept(&mut real);
    real.publish("a", "2", "e", 1);
    assert_eq!(kept(&mut real), first, "the remaining lifetime is sufficient");
    // Act as if the lifetime had been set twelve seconds ago.
    let long_ago = first - 12_000;
    redis::cmd("HSET")
        .arg(&meta)
        .arg("kept")
        .arg(long_ago)
        .exec(&mut real.connection)
        .expect("the key is set");
    redis::cmd("PEXPIREAT").arg(&log).arg(long_ago).exec(&mut real.connection).expect("the key is set");
    real.publish("a", "3", "e", 1);
    assert!(kept(&mut real) >= first);
    real.assert_lifetimes("a");
}

#[test]
fn unlimited_history_sets_no_expiry() {
    let redis = Redis::start();
    let mut real = ScriptRunner::new(&redis);
    let [meta, log, feed] = keys("a");
    // In the second round, another server has already set an expiry.
    for before in [false, true] {
        if before {
            real.publish("a", "0", "e", 1);
        }
        let mut call = real.publish.key(&meta);
        call.key(&log).key(known("a")).arg("1").arg(MIN_LOG_MESSAGES).arg(&["0"; 3]);
        call.arg("e").arg(1).arg(&feed).arg("").arg(format!("id-{before}")).arg(MAX_KNOWN_PUBLISHES);
        let _: Value = call.invoke(&mut real.connection).expect("the message is published");
        for key in [&meta, &log, &known("a")] {
            assert_eq!(real.left_ms(key), -1, "{key}");
        }
        real.delete(&meta);
    }
}

#[test]
fn a_new_replication_id_starts_a_new_generation() {
    let redis = Redis::start();
    let mut connection = redis.connect();
    let script = Script::new(GENERATION);
    let mut generation_of =
        |id: &str| script.key("life").arg(id).invoke::<u64>(&mut connection).expect("a generation");
    let [first, later @ ..] = ["x", "x", "y", "y", "x"].map(&mut generation_of);
    assert_eq!(later, [0, 1, 1, 2].map(|more| first + more));
    // A lost generation is replaced by one above any that channels may know.
    redis::cmd("HSET").arg(&["life", "life", "7"]).exec(&mut connection).expect("the key is set");
    assert_eq!(script.key("life").arg("x").invoke(&mut connection), Ok(7));
    redis::cmd("DEL").arg("life").exec(&mut connection).expect("the key is deleted");
    assert!(script.key("life").arg("x").invoke::<u64>(&mut connection).expect("a generation") >= first);
}
