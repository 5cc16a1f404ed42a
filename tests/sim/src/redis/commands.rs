//! What commands do.

use super::resp::{Value, read_command};
use super::{RedisConnection, State};

/// What servers look for in INFO.
const INFO: &str = "role:master\r\nmaxmemory_policy:noeviction\r\nmaster_replid:";

impl State {
    /// Carries out all commands that have come whole.
    pub(super) fn work(&mut self, number: RedisConnection) -> Result<u32, String> {
        let mut done = 0;
        loop {
            let Some(connection) = self.connections.get_mut(&number) else { return Ok(done) };
            if connection.is_silent || !connection.is_open() {
                return Ok(done);
            }
            let Some((words, taken)) = read_command(&connection.said)? else { return Ok(done) };
            connection.said.drain(..taken);
            done += 1;
            let answer = self.command(number, words)?;
            if let (Some(connection), Some(answer)) = (self.connections.get_mut(&number), answer) {
                connection.say(&answer);
                self.news.push(number);
            }
        }
    }

    fn command(&mut self, number: RedisConnection, words: Vec<String>) -> Result<Option<Value>, String> {
        let connection = self.connections.get_mut(&number).ok_or("a connection that is gone")?;
        let name = words.first().map_or("", String::as_str).to_ascii_uppercase();
        if let Some(transaction) = connection.transaction.as_mut().filter(|_| name != "EXEC") {
            transaction.push(words);
            return Ok(Some(Value::Simple("QUEUED")));
        }
        match name.as_str() {
            "MULTI" => {
                connection.transaction = Some(Vec::new());
                Ok(Some(Value::Simple("OK")))
            }
            "EXEC" => {
                let commands = connection.transaction.take().unwrap_or_default();
                let answers: Result<Vec<Value>, String> =
                    commands.iter().map(|words| self.plain(words)).collect();
                Ok(Some(Value::Array(answers?)))
            }
            "SUBSCRIBE" => {
                connection.subscriptions.extend(words.iter().skip(1).cloned());
                self.confirm(number, "subscribe", &words[1..]);
                Ok(None)
            }
            "UNSUBSCRIBE" => {
                connection.subscriptions.retain(|feed| !words[1..].contains(feed));
                self.confirm(number, "unsubscribe", &words[1..]);
                Ok(None)
            }
            _ => self.plain(&words).map(Some),
        }
    }

    fn confirm(&mut self, number: RedisConnection, what: &str, feeds: &[String]) {
        let Some(connection) = self.connections.get_mut(&number) else { return };
        for feed in feeds {
            let count = connection.subscriptions.len() as u64;
            connection.say(&Value::Push(vec![
                Value::text(what),
                Value::text(feed.as_str()),
                Value::Number(count),
            ]));
        }
        self.news.push(number);
    }

    /// A command that concerns the data alone.
    fn plain(&mut self, words: &[String]) -> Result<Value, String> {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        Ok(match words.as_slice() {
            ["HELLO", ..] => Value::Map(vec![(Value::text("proto"), Value::Number(3))]),
            ["CLIENT", ..] => Value::Simple("OK"),
            ["INFO", ..] => Value::Text(format!("{INFO}{:040}\r\n", self.replication)),
            ["SCRIPT", "LOAD", script] => Value::text(script_name(script)),
            ["EVALSHA", "life", _, _, replication] => {
                let replication = replication.parse().map_err(|_| "a replication id of another Redis")?;
                Value::Number(self.life_of(replication))
            }
            ["EVALSHA", "publish", keys, meta, rest @ ..] => {
                let arguments = after_keys(keys, rest)?;
                // The data; how much is kept, and for how long; then these, and perhaps what stands for the publisher.
                let feed_at = arguments.iter().rposition(|it| it.contains("}c:")).ok_or("no feed")?;
                let [data, .., epoch, life, _] = &arguments[..=feed_at] else {
                    return Err(format!("a publish of {arguments:?}"));
                };
                let life = life.parse().map_err(|_| "a life that is no number")?;
                let (epoch, offset) = self.publish(channel_of(meta)?, data, Some(epoch), life);
                Value::Array(vec![Value::Text(epoch), Value::Number(offset)])
            }
            ["EVALSHA", "open", keys, meta, rest @ ..] => {
                let [.., epoch, life] = after_keys(keys, rest)? else { return Err("an open".into()) };
                let life = life.parse().map_err(|_| "a life that is no number")?;
                let opened = self.data.open(channel_of(meta)?, epoch, life);
                let past: Vec<String> =
                    opened.past.iter().map(|(epoch, cut)| format!("{epoch} {cut}")).collect();
                Value::Array(vec![
                    Value::Text(opened.epoch),
                    Value::Number(opened.offset),
                    Value::Text(past.join(" ")),
                    Value::Number(self.now_ms),
                ])
            }
            ["XRANGE", log, from, ..] => {
                let from = from.strip_prefix("0-").and_then(|from| from.parse().ok()).unwrap_or(0);
                let channel = log.split_once("}l:").ok_or("a log")?.1;
                let at = self.touched.get(channel).copied().unwrap_or(self.now_ms);
                let entries = self.data.log(channel).iter().filter(|(offset, _)| *offset >= from);
                Value::Array(entries.map(|(offset, data)| entry(*offset, at, data)).collect())
            }
            ["EVALSHA", "servers", _, _, server, lease_ms, feed, question] => {
                let lease: u64 = lease_ms.parse().map_err(|_| "a lease that is no number")?;
                let now = self.now_ms;
                self.servers.retain(|_, until| *until > now);
                self.servers.insert((*server).to_owned(), now + lease);
                if !question.is_empty() {
                    self.tell(feed, question);
                }
                Value::Array(self.servers.keys().map(Value::text).collect())
            }
            ["ZREM", _, server] => Value::Number(self.servers.remove(*server).map_or(0, |_| 1)),
            ["HMGET", meta, "epoch", "offset", "life"] => {
                let known = self.data.state(channel_of(meta)?);
                let fields = known.map_or(["", "", ""].map(|_| Value::Nothing), |(epoch, offset, life)| {
                    [epoch, offset.to_string(), life.to_string()].map(Value::Text)
                });
                Value::Array(fields.to_vec())
            }
            // What a channel is known by outlives every scenario.
            ["PEXPIRE", ..] => Value::Number(1),
            ["PING"] => Value::Simple("PONG"),
            ["PUBLISH", feed, message] => Value::Number(self.tell(feed, message)),
            other => {
                let name = other.first().unwrap_or(&"");
                return Err(format!("a command {name} that servers do not use"));
            }
        })
    }

    /// Which life of Redis it is.
    fn life_of(&mut self, replication: u32) -> u64 {
        if self.life.0 != replication {
            self.life = (replication, self.life.1 + 1);
        }
        self.life.1
    }

    pub(super) fn learn_life(&mut self) -> u64 {
        self.life_of(self.replication)
    }

    /// Returns the epoch and the offset.
    pub(super) fn publish(
        &mut self,
        channel: &str,
        data: &str,
        new_epoch: Option<&str>,
        life: u64,
    ) -> (String, u64) {
        self.epochs += 1;
        let new_epoch = new_epoch.map_or_else(|| format!("peer{}", self.epochs), ToOwned::to_owned);
        let (epoch, offset) = self.data.publish(channel, data, &new_epoch, life);
        self.data.trim(channel, self.most_messages);
        self.touched.insert(channel.to_owned(), self.now_ms);
        let message = format!("{epoch} {offset} {} {data}", self.now_ms);
        let suffix = format!("}}c:{channel}");
        let feed = self.connections.values().flat_map(|it| &it.subscriptions);
        if let Some(feed) = feed.into_iter().find(|feed| feed.ends_with(&suffix)).cloned() {
            self.tell(&feed, &message);
        }
        (epoch, offset)
    }

    /// Tells all that listen. Returns how many.
    fn tell(&mut self, feed: &str, message: &str) -> u64 {
        if self.loses_pushes > 0 {
            self.loses_pushes -= 1;
            return 0;
        }
        let mut told = 0;
        for (number, connection) in &mut self.connections {
            if connection.subscriptions.contains(feed) {
                let words = [Value::text("message"), Value::text(feed), Value::text(message)];
                connection.say(&Value::Push(words.to_vec()));
                self.news.push(*number);
                told += 1;
            }
        }
        told
    }
}

/// What a script is called by.
fn script_name(script: &str) -> &'static str {
    if script.contains("'XADD'") {
        "publish"
    } else if script.contains("the key of the life") {
        "life"
    } else if script.contains("'ZADD'") {
        "servers"
    } else {
        "open"
    }
}

/// The arguments, without the keys after the first.
fn after_keys<'a, 'b>(keys: &str, rest: &'a [&'b str]) -> Result<&'a [&'b str], String> {
    let keys: usize = keys.parse().map_err(|_| "a number of keys that is none")?;
    rest.get(keys.saturating_sub(1)..).ok_or_else(|| "fewer keys than there should be".to_owned())
}

fn channel_of(meta: &str) -> Result<&str, String> {
    Ok(meta.split_once("}m:").ok_or("a key that is none of a channel")?.1)
}

fn entry(offset: u64, at_ms: u64, data: &str) -> Value {
    let fields = [Value::text("t"), Value::Text(at_ms.to_string()), Value::text("d"), Value::text(data)];
    Value::Array(vec![Value::Text(format!("0-{offset}")), Value::Array(fields.to_vec())])
}
