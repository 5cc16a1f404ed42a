//! Implementation of the Redis commands.

use super::resp::{RespValue, read_command};
use super::{RedisConnection, RedisState};

/// Fields of INFO that servers read.
const INFO: &str = "role:master\r\nmaxmemory_policy:noeviction\r\nmaster_replid:";

impl RedisState {
    /// Executes all complete commands received on a connection. Returns their number.
    pub(super) fn work(&mut self, number: RedisConnection) -> Result<u32, String> {
        let mut done = 0;
        loop {
            let Some(connection) = self.connections.get_mut(&number) else { return Ok(done) };
            if connection.is_silent || !connection.is_open() {
                return Ok(done);
            }
            let Some((words, taken)) = read_command(&connection.received)? else { return Ok(done) };
            connection.received.drain(..taken);
            done += 1;
            let answer = self.command(number, words)?;
            if let (Some(connection), Some(answer)) = (self.connections.get_mut(&number), answer) {
                connection.send(&answer);
                self.changed.push(number);
            }
        }
    }

    fn command(&mut self, number: RedisConnection, words: Vec<String>) -> Result<Option<RespValue>, String> {
        let connection = self.connections.get_mut(&number).ok_or("the connection is closed")?;
        let name = words.first().map_or("", String::as_str).to_ascii_uppercase();
        if let Some(transaction) = connection.transaction.as_mut().filter(|_| name != "EXEC") {
            transaction.push(words);
            return Ok(Some(RespValue::Simple("QUEUED")));
        }
        match name.as_str() {
            "MULTI" => {
                connection.transaction = Some(Vec::new());
                Ok(Some(RespValue::Simple("OK")))
            }
            "EXEC" => {
                let commands = connection.transaction.take().unwrap_or_default();
                let answers: Result<Vec<RespValue>, String> =
                    commands.iter().map(|words| self.data_command(words)).collect();
                Ok(Some(RespValue::Array(answers?)))
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
            _ => self.data_command(&words).map(Some),
        }
    }

    fn confirm(&mut self, number: RedisConnection, what: &str, feeds: &[String]) {
        let Some(connection) = self.connections.get_mut(&number) else { return };
        for feed in feeds {
            let count = connection.subscriptions.len() as u64;
            connection.send(&RespValue::Push(vec![
                RespValue::text(what),
                RespValue::text(feed.as_str()),
                RespValue::Number(count),
            ]));
        }
        self.changed.push(number);
    }

    /// Executes a command that does not depend on the state of the connection.
    fn data_command(&mut self, words: &[String]) -> Result<RespValue, String> {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        Ok(match words.as_slice() {
            ["HELLO", ..] => RespValue::Map(vec![(RespValue::text("proto"), RespValue::Number(3))]),
            ["CLIENT", ..] => RespValue::Simple("OK"),
            ["INFO", ..] => RespValue::Text(format!("{INFO}{:040}\r\n", self.replication)),
            ["SCRIPT", "LOAD", script] => RespValue::text(script_name(script)),
            ["EVALSHA", "life", _, _, replication] => {
                let replication = replication.parse().map_err(|_| "an invalid replication id")?;
                RespValue::Number(self.generation_of(replication))
            }
            ["EVALSHA", "publish", keys, meta, rest @ ..] => {
                let arguments = after_keys(keys, rest)?;
                // The arguments are the data, the history limits, the epoch, the generation, the feed, and
                // possibly the publisher's key.
                let feed_at =
                    arguments.iter().rposition(|it| it.contains("}c:")).ok_or("a publish without a feed")?;
                let [data, .., epoch, generation, _] = &arguments[..=feed_at] else {
                    return Err(format!("a publish with arguments {arguments:?}"));
                };
                let generation = generation.parse().map_err(|_| "an invalid generation")?;
                let (epoch, offset) = self.publish(channel_of(meta)?, data, Some(epoch), generation);
                RespValue::Array(vec![RespValue::Text(epoch), RespValue::Number(offset)])
            }
            ["EVALSHA", "open", keys, meta, rest @ ..] => {
                let [.., epoch, generation] = after_keys(keys, rest)? else {
                    return Err("an open with too few arguments".into());
                };
                let generation = generation.parse().map_err(|_| "an invalid generation")?;
                let opened = self.data.open(channel_of(meta)?, epoch, generation);
                let past: Vec<String> =
                    opened.past.iter().map(|(epoch, cut)| format!("{epoch} {cut}")).collect();
                RespValue::Array(vec![
                    RespValue::Text(opened.epoch),
                    RespValue::Number(opened.offset),
                    RespValue::Text(past.join(" ")),
                    RespValue::Number(self.now_ms),
                ])
            }
            ["XRANGE", log, from, ..] => {
                let from = from.strip_prefix("0-").and_then(|from| from.parse().ok()).unwrap_or(0);
                let channel = log.split_once("}l:").ok_or("not a key of a log")?.1;
                let at = self.touched.get(channel).copied().unwrap_or(self.now_ms);
                let entries = self.data.log(channel).iter().filter(|(offset, _)| *offset >= from);
                RespValue::Array(entries.map(|(offset, data)| entry(*offset, at, data)).collect())
            }
            ["EVALSHA", "servers", _, _, server, lease_ms, feed, question] => {
                let lease: u64 = lease_ms.parse().map_err(|_| "an invalid lease")?;
                let now = self.now_ms;
                self.servers.retain(|_, until| *until > now);
                self.servers.insert((*server).to_owned(), now + lease);
                if !question.is_empty() {
                    self.push_to_feed(feed, question);
                }
                RespValue::Array(self.servers.keys().map(RespValue::text).collect())
            }
            ["ZREM", _, server] => RespValue::Number(self.servers.remove(*server).map_or(0, |_| 1)),
            ["HMGET", meta, "epoch", "offset", "life"] => {
                let known = self.data.state(channel_of(meta)?);
                let fields =
                    known.map_or(["", "", ""].map(|_| RespValue::Nothing), |(epoch, offset, generation)| {
                        [epoch, offset.to_string(), generation.to_string()].map(RespValue::Text)
                    });
                RespValue::Array(fields.to_vec())
            }
            // Not simulated: the metadata of a channel would outlive every scenario.
            ["PEXPIRE", ..] => RespValue::Number(1),
            ["PING"] => RespValue::Simple("PONG"),
            ["PUBLISH", feed, message] => RespValue::Number(self.push_to_feed(feed, message)),
            other => {
                let name = other.first().unwrap_or(&"");
                return Err(format!("an unknown command: {name}"));
            }
        })
    }

    /// Returns the generation of the data set, counting a new one if the replication id has changed.
    fn generation_of(&mut self, replication: u32) -> u64 {
        if self.generation.0 != replication {
            self.generation = (replication, self.generation.1 + 1);
        }
        self.generation.1
    }

    pub(super) fn learn_generation(&mut self) -> u64 {
        self.generation_of(self.replication)
    }

    /// Publishes a message. Returns the epoch and the offset.
    pub(super) fn publish(
        &mut self,
        channel: &str,
        data: &str,
        new_epoch: Option<&str>,
        generation: u64,
    ) -> (String, u64) {
        self.epochs += 1;
        let new_epoch = new_epoch.map_or_else(|| format!("peer{}", self.epochs), ToOwned::to_owned);
        let (epoch, offset) = self.data.publish(channel, data, &new_epoch, generation);
        self.data.trim(channel, self.max_messages);
        self.touched.insert(channel.to_owned(), self.now_ms);
        let message = format!("{epoch} {offset} {} {data}", self.now_ms);
        let suffix = format!("}}c:{channel}");
        let feed = self.connections.values().flat_map(|it| &it.subscriptions);
        if let Some(feed) = feed.into_iter().find(|feed| feed.ends_with(&suffix)).cloned() {
            self.push_to_feed(&feed, &message);
        }
        (epoch, offset)
    }

    /// Sends a message to all subscribers of a feed. Returns their number.
    fn push_to_feed(&mut self, feed: &str, message: &str) -> u64 {
        if self.pushes_to_lose > 0 {
            self.pushes_to_lose -= 1;
            return 0;
        }
        let mut reached = 0;
        for (number, connection) in &mut self.connections {
            if connection.subscriptions.contains(feed) {
                let words = [RespValue::text("message"), RespValue::text(feed), RespValue::text(message)];
                connection.send(&RespValue::Push(words.to_vec()));
                self.changed.push(*number);
                reached += 1;
            }
        }
        reached
    }
}

/// Identifies a script by its content, and returns a name to be used instead of its SHA-1.
fn script_name(script: &str) -> &'static str {
    if script.contains("'XADD'") {
        "publish"
    } else if script.contains("'id', 'life'") {
        "life"
    } else if script.contains("'ZADD'") {
        "servers"
    } else {
        "open"
    }
}

/// Returns the arguments after the keys. `rest` starts after the first key.
fn after_keys<'a, 'b>(keys: &str, rest: &'a [&'b str]) -> Result<&'a [&'b str], String> {
    let keys: usize = keys.parse().map_err(|_| "an invalid number of keys")?;
    rest.get(keys.saturating_sub(1)..).ok_or_else(|| "too few keys".to_owned())
}

fn channel_of(meta: &str) -> Result<&str, String> {
    Ok(meta.split_once("}m:").ok_or("not a key of a channel")?.1)
}

fn entry(offset: u64, at_ms: u64, data: &str) -> RespValue {
    let fields = [
        RespValue::text("t"),
        RespValue::Text(at_ms.to_string()),
        RespValue::text("d"),
        RespValue::text(data),
    ];
    RespValue::Array(vec![RespValue::Text(format!("0-{offset}")), RespValue::Array(fields.to_vec())])
}
