//! Opening channels, many at a time: Redis is asked to tell what is published from now on, then what there is.

use std::sync::atomic::Ordering;

use redis::aio::MultiplexedConnection;
use redis::{Pipeline, RedisError, Value, cmd};

use super::connection::odd;
use super::keys::Keys;
use super::link::{Up, checked};
use super::message::Opened;
use crate::channel::ChannelName;

/// Channels of which all is read, at a time.
pub(super) const MOST_WHOLE: usize = 32;

/// Channels of which only what is new is read.
pub(super) const MOST_NEW: usize = 512;

/// One channel to open.
#[derive(Debug)]
pub(super) struct ToOpen {
    pub(super) channel: ChannelName,
    /// What its log has after this message is read.
    pub(super) after: u64,
    pub(super) subscribe: bool,
    /// If a new one begins.
    pub(super) new_epoch: String,
}

/// What came of it, for each; an error of one is Redis's own word.
pub(super) type Opening = Vec<(ChannelName, Result<Opened, RedisError>)>;

/// Replies to each channel: to MULTI, to both commands, to EXEC.
const REPLIES: usize = 4;

pub(super) async fn open(
    channels: Vec<ToOpen>,
    mut feed: MultiplexedConnection,
    up: Up,
    keys: Keys,
) -> Result<Opening, RedisError> {
    let mut subscribe = Pipeline::new();
    let mut read = Pipeline::new();
    let life = up.life.load(Ordering::Relaxed);
    for to_open in &channels {
        let keys = keys.of(to_open.channel.as_str());
        if to_open.subscribe {
            subscribe.cmd("SUBSCRIBE").arg(&keys.feed);
        }
        read.cmd("MULTI");
        read.add_command(up.scripts.open(&keys, &to_open.new_epoch, life));
        read.cmd("XRANGE").arg(&keys.log).arg(format!("0-{}", to_open.after.saturating_add(1))).arg("+");
        read.cmd("EXEC");
    }
    if !subscribe.is_empty() {
        let count = subscribe.len();
        for confirmed in feed.send_packed_commands(&subscribe, 0, count).await? {
            checked(confirmed)?;
        }
    }
    let mut commands = up.commands;
    let count = read.len();
    let replies = commands.send_packed_commands(&read, 0, count).await?;
    // When this is answered, all that was published before is here.
    checked(feed.send_packed_command(&cmd("PING")).await?)?;
    if replies.len() != REPLIES * channels.len() {
        return Err(odd("Redis has answered to another number of commands"));
    }
    let results = replies.into_iter().skip(REPLIES - 1).step_by(REPLIES).map(found);
    Ok(channels.into_iter().map(|to_open| to_open.channel).zip(results).collect())
}

/// What EXEC has returned.
fn found(reply: Value) -> Result<Opened, RedisError> {
    match checked(reply)? {
        Value::Array(results) => match <[Value; 2]>::try_from(results) {
            Ok([script, log]) => Opened::parse(script, log),
            Err(_) => Err(odd("a transaction has another number of results")),
        },
        _ => Err(odd("a transaction has no results")),
    }
}
