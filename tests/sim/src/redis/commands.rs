//! Implementation of the Redis commands.

use super::resp::{NULL, array, bulk, number, push, read_command, simple};
use super::{RedisConnection, RedisLink, RedisState};
use crate::schedule::Direction;

/// Fields of INFO that servers read.
const INFO: &str = "role:master\r\nmaxmemory_policy:noeviction\r\nmaster_replid:";

impl RedisState {
    /// Executes all complete commands received on a connection. Returns their number.
    pub(crate) fn work(&mut self, connection: RedisConnection) -> Result<u32, String> {
        let Some(link) = self.links.get_mut(&connection) else { return Ok(0) };
        let mut wire = link.wire.lock();
        if wire.has_vanished() {
            return Ok(0);
        }
        wire.carry(Direction::ToClient, usize::MAX);
        wire.client_reads(usize::MAX, &mut link.received);
        drop(wire);
        let mut done = 0;
        loop {
            let Some(link) = self.links.get_mut(&connection) else { return Ok(done) };
            let Some((words, taken)) = read_command(&link.received)? else { return Ok(done) };
            link.received.drain(..taken);
            done += 1;
            let answer = self.command(connection, &words)?;
            self.send(connection, &answer);
        }
    }

    fn command(&mut self, connection: RedisConnection, words: &[String]) -> Result<String, String> {
        let link = self.links.get_mut(&connection).ok_or("the connection is closed")?;
        let name = words.first().map_or("", String::as_str);
        if let Some(transaction) = link.transaction.as_mut().filter(|_| name != "EXEC") {
            transaction.push(words.to_vec());
            return Ok(simple("QUEUED"));
        }
        match name {
            "MULTI" => {
                link.transaction = Some(Vec::new());
                Ok(simple("OK"))
            }
            "EXEC" => {
                let commands = link.transaction.take().unwrap_or_default();
                let answers: Result<Vec<String>, String> =
                    commands.iter().map(|words| self.data_command(words)).collect();
                Ok(array(answers?))
            }
            "SUBSCRIBE" | "UNSUBSCRIBE" => {
                let feeds = &words[1..];
                if name == "SUBSCRIBE" {
                    link.feeds.extend(feeds.iter().cloned());
                } else {
                    link.feeds.retain(|feed| !feeds.contains(feed));
                }
                let count = number(link.feeds.len() as u64);
                let confirm =
                    |feed: &String| push(&[bulk(name.to_ascii_lowercase()), bulk(feed), count.clone()]);
                Ok(feeds.iter().map(confirm).collect())
            }
            _ => self.data_command(words),
        }
    }

    /// Executes a command that does not depend on the state of the connection.
    fn data_command(&mut self, words: &[String]) -> Result<String, String> {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        Ok(match words.as_slice() {
            ["HELLO", ..] => format!("%1\r\n{}{}", bulk("proto"), number(3)),
            ["CLIENT", ..] => simple("OK"),
            ["INFO", ..] => bulk(format!("{INFO}{:040}\r\n", self.replication)),
            ["SCRIPT", "LOAD", script] => bulk(script_name(script)),
            ["EVALSHA", "life", _, _, replication] => number(self.generation_of(parse(replication)?)),
            ["EVALSHA", "publish", keys, meta, rest @ ..] => {
                let arguments = after_keys(keys, rest)?;
                // The arguments are the data, the history limits, the epoch, the generation, the feed, and
                // possibly the publisher's key.
                let feed_at =
                    arguments.iter().rposition(|it| it.contains("}c:")).ok_or("a publish without a feed")?;
                let [data, .., epoch, generation, _] = &arguments[..=feed_at] else {
                    return Err(format!("a publish with arguments {arguments:?}"));
                };
                let (epoch, offset) = self.publish(channel_of(meta)?, data, Some(epoch), parse(generation)?);
                array([bulk(epoch), number(offset)])
            }
            ["EVALSHA", "open", keys, meta, rest @ ..] => {
                let [.., epoch, generation] = after_keys(keys, rest)? else {
                    return Err("an open with too few arguments".into());
                };
                let opened = self.data.open(channel_of(meta)?, epoch, parse(generation)?);
                let past: Vec<String> =
                    opened.past.iter().map(|(epoch, cut)| format!("{epoch} {cut}")).collect();
                array([bulk(opened.epoch), number(opened.offset), bulk(past.join(" ")), number(self.now_ms)])
            }
            ["XRANGE", log, from, ..] => {
                let from = from.strip_prefix("0-").and_then(|from| from.parse().ok()).unwrap_or(0);
                let channel = log.split_once("}l:").ok_or("not a key of a log")?.1;
                let at_ms = self.touched.get(channel).copied().unwrap_or(self.now_ms);
                let entry = |(offset, data): &(u64, String)| {
                    let fields = array([bulk("t"), bulk(at_ms), bulk("d"), bulk(data)]);
                    array([bulk(format!("0-{offset}")), fields])
                };
                let entries = self.data.log(channel).iter().filter(|(offset, _)| *offset >= from);
                array(entries.map(entry).collect::<Vec<_>>())
            }
            ["EVALSHA", "servers", _, _, server, lease_ms, feed, question] => {
                let (now, lease) = (self.now_ms, parse::<u64>(lease_ms)?);
                self.servers.retain(|_, until| *until > now);
                self.servers.insert((*server).to_owned(), now + lease);
                if !question.is_empty() {
                    self.push_to_feed(feed, question);
                }
                array(self.servers.keys().map(bulk).collect::<Vec<_>>())
            }
            ["ZREM", _, server] => number(u64::from(self.servers.remove(*server).is_some())),
            ["HMGET", meta, "epoch", "offset", "life"] => {
                array(self.data.state(channel_of(meta)?).map_or([NULL; 3].map(str::to_owned), |known| {
                    let (epoch, offset, generation) = known;
                    [bulk(epoch), bulk(offset), bulk(generation)]
                }))
            }
            // Not simulated: the metadata of a channel would outlive every scenario.
            ["PEXPIRE", ..] => number(1),
            ["PING"] => simple("PONG"),
            ["PUBLISH", feed, message] => number(self.push_to_feed(feed, message)),
            other => return Err(format!("an unknown command: {:?}", other.first())),
        })
    }

    pub(super) fn generation_of(&mut self, replication: u32) -> u64 {
        if self.generation.0 != replication {
            self.generation = (replication, self.generation.1 + 1);
        }
        self.generation.1
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
        let mut feeds = self.links.values().flat_map(|link| &link.feeds);
        if let Some(feed) = feeds.find(|feed| feed.ends_with(&suffix)).cloned() {
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
        let is_subscribed = |link: &RedisLink| link.feeds.contains(feed) && !link.wire.lock().server_gone;
        let subscribers = self.links.iter().filter(|(_, link)| is_subscribed(link));
        let subscribers: Vec<RedisConnection> = subscribers.map(|(connection, _)| *connection).collect();
        let text = push(&[bulk("message"), bulk(feed), bulk(message)]);
        subscribers.iter().for_each(|connection| self.send(*connection, &text));
        subscribers.len() as u64
    }
}

/// Identifies a script by its content, and returns a name to be used instead of its SHA-1.
fn script_name(script: &str) -> &'static str {
    let names = [("'XADD'", "publish"), ("'id', 'life'", "life"), ("'ZADD'", "servers")];
    names.into_iter().find(|(part, _)| script.contains(part)).map_or("open", |(_, name)| name)
}

/// Returns the arguments after the keys. `rest` starts after the first key.
fn after_keys<'a, 'b>(keys: &str, rest: &'a [&'b str]) -> Result<&'a [&'b str], String> {
    rest.get(parse::<usize>(keys)?.saturating_sub(1)..).ok_or_else(|| "too few keys".to_owned())
}

fn channel_of(meta: &str) -> Result<&str, String> {
    Ok(meta.split_once("}m:").ok_or("not a key of a channel")?.1)
}

fn parse<T: std::str::FromStr>(number: &str) -> Result<T, String> {
    number.parse().map_err(|_| format!("{number:?} is not a valid number"))
}
