use encke_tests::redis::Redis;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use redis::{Connection, Script, Value, from_redis_value};

use super::model::{Model, Opened};

const EPOCH: &str = include_str!("../../../../server/src/engine/redis/scripts/epoch.lua");
const PUBLISH: &str = include_str!("../../../../server/src/engine/redis/scripts/publish.lua");
const OPEN: &str = include_str!("../../../../server/src/engine/redis/scripts/open.lua");
const LIFE: &str = include_str!("../../../../server/src/engine/redis/scripts/generation.lua");

const CHANNELS: [&str; 3] = ["a", "b", "c"];

/// What a log keeps at least.
const MESSAGES: usize = 20;

const MINUTE_MS: &str = "60000";

/// For how long logs are kept, so that they are kept for a minute, and the keys that say what is known of channels.
const KEPT_MS: [&str; 2] = ["70000", "80000"];

/// Publishes that are known by their keys.
const MOST_KNOWN: usize = 8;

/// The scripts, as a server calls them.
struct Real {
    connection: Connection,
    publish: Script,
    open: Script,
}

impl Real {
    fn new(redis: &Redis) -> Self {
        let script = |body: &str| Script::new(&format!("{EPOCH}\n{body}"));
        Self { connection: redis.connect(), publish: script(PUBLISH), open: script(OPEN) }
    }

    fn publish(&mut self, channel: &str, data: &str, new_epoch: &str, life: u64) -> (String, u64) {
        self.publish_as("", channel, data, new_epoch, life)
    }

    fn publish_as(
        &mut self,
        user: &str,
        channel: &str,
        data: &str,
        new_epoch: &str,
        life: u64,
    ) -> (String, u64) {
        let [meta, log, feed] = keys(channel);
        let mut call = self.publish.key(meta);
        call.key(log).arg(data).arg(MESSAGES).arg(MINUTE_MS).arg(&KEPT_MS);
        call.arg(new_epoch).arg(life).arg(feed).arg(user);
        let published = call.invoke(&mut self.connection).expect("an epoch and an offset");
        self.assert_kept(channel);
        published
    }

    fn publish_once(
        &mut self,
        channel: &str,
        data: &str,
        new_epoch: &str,
        life: u64,
        id: &str,
    ) -> (String, u64, bool) {
        let [meta, log, feed] = keys(channel);
        let mut call = self.publish.key(meta);
        call.key(log).key(known(channel)).arg(data).arg(MESSAGES).arg(MINUTE_MS).arg(&KEPT_MS);
        call.arg(new_epoch).arg(life).arg(feed).arg("").arg(id).arg(MOST_KNOWN);
        let answer: Value = call.invoke(&mut self.connection).expect("an epoch, an offset, perhaps a mark");
        let left = self.left_ms(&known(channel));
        assert!((1..=60_000).contains(&left), "{left} ms");
        let fields: usize =
            redis::cmd("HLEN").arg(known(channel)).query(&mut self.connection).expect("a number");
        assert!(fields <= 2 * MOST_KNOWN + 1, "{fields}");
        match from_redis_value::<(String, u64)>(answer.clone()) {
            Ok((epoch, offset)) => {
                self.assert_kept(channel);
                (epoch, offset, false)
            }
            Err(_) => {
                let (epoch, offset, _): (String, u64, u64) = from_redis_value(answer).expect("a mark");
                (epoch, offset, true)
            }
        }
    }

    /// A log is kept for as long as it must be, and what is known of its channel for longer.
    #[track_caller]
    fn assert_kept(&mut self, channel: &str) {
        let [meta, log, _] = keys(channel).map(|key| self.left_ms(&key));
        // Less what has passed since; an hour says that it was not said at all.
        assert!((55_000..=70_000).contains(&log) && (log..=80_000).contains(&meta), "{log} {meta}");
    }

    fn left_ms(&mut self, key: &str) -> i64 {
        redis::cmd("PTTL").arg(key).query(&mut self.connection).expect("a number")
    }

    /// The log has not been used for so long that it is gone.
    fn expire_log(&mut self, channel: &str) {
        let [meta, log, _] = keys(channel);
        self.delete(&log);
        if self.left_ms(&meta) > 0 {
            redis::cmd("HSET").arg(&[&meta, "kept", "1"]).exec(&mut self.connection).expect("set");
        }
    }

    /// All publishes that had keys were long ago.
    fn age_publishes(&mut self, channel: &str) {
        let known = known(channel);
        let fields: Vec<(String, String)> =
            redis::cmd("HGETALL").arg(&known).query(&mut self.connection).expect("a hash");
        for (id, record) in fields {
            if let Some((_, rest)) = record.split_once(' ') {
                let record = format!("1 {rest}");
                redis::cmd("HSET").arg(&[&known, &id, &record]).exec(&mut self.connection).expect("set");
            }
        }
    }

    fn open(&mut self, channel: &str, new_epoch: &str, life: u64) -> Opened {
        let [meta, log, _] = keys(channel);
        let mut call = self.open.key(meta);
        call.key(&log).arg(KEPT_MS[1]).arg(new_epoch).arg(life);
        let (epoch, offset, past, _ms): (String, u64, String, u64) =
            call.invoke(&mut self.connection).expect("what is known of the channel");
        let words: Vec<&str> = past.split_whitespace().collect();
        let past = words.chunks(2).map(|pair| (pair[0].to_owned(), pair[1].parse().expect("a cut")));
        let entries: Vec<(String, Vec<(String, String)>)> =
            redis::cmd("XRANGE").arg(log).arg("-").arg("+").query(&mut self.connection).expect("a log");
        let log = entries.into_iter().map(|(id, fields)| {
            let offset = id.strip_prefix("0-").expect("an id of ours").parse().expect("an offset");
            let [(_, at), (name, data)] = <[_; 2]>::try_from(fields).expect("two fields");
            assert!(at.parse::<u64>().is_ok() && name == "d", "{at} {name}");
            (offset, data)
        });
        Opened { epoch, offset, past: past.collect(), log: log.collect() }
    }

    fn delete(&mut self, key: &str) {
        redis::cmd("DEL").arg(key).exec(&mut self.connection).expect("deleted");
    }
}

/// The meta key, the log, and where servers listen.
fn keys(channel: &str) -> [String; 3] {
    ["m", "l", "c"].map(|kind| format!("{{7}}{kind}:{channel}"))
}

/// Where publishes that had keys are known.
fn known(channel: &str) -> String {
    format!("{{7}}k:{channel}")
}

/// The newest that must be there, and nothing that was not: Redis trims logs by whole blocks.
#[track_caller]
fn assert_same(real: Opened, model: Opened) {
    let first = model.log.len() - real.log.len().min(model.log.len());
    assert!(real.log.len() >= MESSAGES.min(model.log.len()), "{real:?}\n{model:?}");
    assert_eq!(real, Opened { log: model.log[first..].to_vec(), ..model });
}

#[test]
fn the_scripts_do_what_the_model_does() {
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
    let (mut real, mut model) = (Real::new(redis), Model::default());
    redis::cmd("FLUSHALL").exec(&mut real.connection).expect("flushed");
    let mut life = 1;
    for step in 0..2000 {
        let channel = CHANNELS[rng.random_range(0..CHANNELS.len())];
        let new_epoch = format!("epoch-{step}");
        // A server that has not noticed yet says a lower one.
        let said = if rng.random_ratio(1, 8) { 1.max(life - 1) } else { life };
        match rng.random_range(0..200) {
            0..75 => {
                let data = format!(r#"{{"step":{step}}}"#);
                let id = format!("id-{}", rng.random_range(0..3 * MOST_KNOWN));
                let expected = model.publish_once(channel, &data, &new_epoch, said, (&id, MOST_KNOWN));
                assert_eq!(real.publish_once(channel, &data, &new_epoch, said, &id), expected, "step {step}");
            }
            75..150 => {
                let data = format!(r#"{{"step":{step}}}"#);
                let expected = model.publish(channel, &data, &new_epoch, said);
                assert_eq!(real.publish(channel, &data, &new_epoch, said), expected, "step {step}");
            }
            150..152 => {
                real.age_publishes(channel);
                model.forget_publishes(channel);
            }
            152..190 => {
                let expected = model.open(channel, &new_epoch, said);
                assert_same(real.open(channel, &new_epoch, said), expected);
            }
            190..193 => life += 1,
            193..196 => {
                real.expire_log(channel);
                model.expire_log(channel);
            }
            196..199 => {
                real.delete(&keys(channel)[0]);
                model.lose_meta(channel);
            }
            _ => {
                redis::cmd("FLUSHALL").exec(&mut real.connection).expect("flushed");
                model.flush();
            }
        }
    }
}

#[test]
fn what_is_published_is_told() {
    let redis = Redis::start();
    let mut real = Real::new(&redis);
    let mut listener = redis.connect();
    let mut listener = listener.as_pubsub();
    let [.., feed] = keys("a");
    listener.subscribe(&feed).expect("subscribed");
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
    let (at, rest) = (words.nth(2).expect("when"), words.next().expect("who and what"));
    let (at, bytes) = at.split_once(':').expect("how long the name is");
    assert!(at.parse::<u64>().is_ok(), "{message}");
    assert_eq!((bytes, rest), ("5", "a b\u{e9} 2"));
    let [_, log, _] = keys("a");
    let entries: Vec<(String, Vec<(String, String)>)> =
        redis::cmd("XRANGE").arg(log).arg("-").arg("+").query(&mut real.connection).expect("a log");
    let names: Vec<Vec<&str>> =
        entries.iter().map(|(_, fields)| fields.iter().map(|(name, _)| &**name).collect()).collect();
    assert_eq!(names, [vec!["t", "d"], vec!["t", "d", "u"]], "nothing is written of nobody");
    assert_eq!(entries[1].1[2].1, user);
}

#[test]
fn that_a_log_is_kept_is_said_when_it_has_to_be() {
    let redis = Redis::start();
    let mut real = Real::new(&redis);
    let [meta, log, _] = keys("a");
    let kept = |real: &mut Real| -> u64 {
        redis::cmd("HGET").arg(&[&*meta, "kept"]).query(&mut real.connection).expect("a time")
    };
    real.publish("a", "1", "e", 1);
    let first = kept(&mut real);
    real.publish("a", "2", "e", 1);
    assert_eq!(kept(&mut real), first, "there is time left");
    // As if that had been said twelve seconds ago.
    let long_ago = first - 12_000;
    redis::cmd("HSET").arg(&meta).arg("kept").arg(long_ago).exec(&mut real.connection).expect("set");
    redis::cmd("PEXPIREAT").arg(&log).arg(long_ago).exec(&mut real.connection).expect("set");
    real.publish("a", "3", "e", 1);
    assert!(kept(&mut real) >= first);
    real.assert_kept("a");
}

#[test]
fn what_is_kept_for_ever_does_not_expire() {
    let redis = Redis::start();
    let mut real = Real::new(&redis);
    let [meta, log, feed] = keys("a");
    // Another server has kept it for a time.
    for before in [false, true] {
        if before {
            real.publish("a", "0", "e", 1);
        }
        let mut call = real.publish.key(&meta);
        call.key(&log).key(known("a")).arg("1").arg(MESSAGES).arg(&["0"; 3]);
        call.arg("e").arg(1).arg(&feed).arg("").arg(format!("id-{before}")).arg(MOST_KNOWN);
        let _: Value = call.invoke(&mut real.connection).expect("published");
        for key in [&meta, &log, &known("a")] {
            assert_eq!(real.left_ms(key), -1, "{key}");
        }
        real.delete(&meta);
    }
}

#[test]
fn a_redis_with_another_replication_id_lives_another_life() {
    let redis = Redis::start();
    let mut connection = redis.connect();
    let script = Script::new(LIFE);
    let mut life_of = |id: &str| script.key("life").arg(id).invoke::<u64>(&mut connection).expect("a life");
    let [first, lives @ ..] = ["x", "x", "y", "y", "x"].map(&mut life_of);
    assert_eq!(lives, [0, 1, 1, 2].map(|more| first + more));
    // A count that was lost begins again beyond all that channels may know.
    redis::cmd("HSET").arg(&["life", "life", "7"]).exec(&mut connection).expect("set");
    assert_eq!(script.key("life").arg("x").invoke(&mut connection), Ok(7));
    redis::cmd("DEL").arg("life").exec(&mut connection).expect("lost");
    assert!(script.key("life").arg("x").invoke::<u64>(&mut connection).expect("a life") >= first);
}
