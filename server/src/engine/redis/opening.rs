//! Opening channels, many at a time: Redis is asked to tell what is published from now on, then what there is.

use redis::aio::MultiplexedConnection;
use redis::{Pipeline, RedisError, Value, cmd, from_redis_value};

use super::connection::odd;
use super::keys::Keys;
use super::link::{Up, checked, has_to_begin_anew};
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
    /// The epoch of the log here, which has all up to that message.
    pub(super) known: Option<Box<str>>,
    pub(super) subscribe: bool,
    /// If a new one begins.
    pub(super) new_epoch: String,
}

/// What came of it, for each; an error of one is Redis's own word.
pub(super) type Opening = Vec<(ChannelName, Result<Opened, RedisError>)>;

/// Replies to each channel: to MULTI, to both commands, to EXEC.
const REPLIES: usize = 4;

pub(super) async fn open(channels: Vec<ToOpen>, up: Up, keys: Keys) -> Result<Opening, RedisError> {
    let mut commands = up.commands.clone();
    subscribe(&channels, &mut commands, &keys).await?;
    let (known, mut to_read) = channels.into_iter().partition(|to_open| to_open.known.is_some());
    let (mut opening, changed) = check(known, &up, &keys).await?;
    to_read.extend(changed);
    opening.extend(read(to_read, up, &keys).await?);
    // When this is answered, all that was published before is here.
    checked(commands.send_packed_command(&cmd("PING")).await?)?;
    Ok(opening)
}

async fn subscribe(
    channels: &[ToOpen],
    commands: &mut MultiplexedConnection,
    keys: &Keys,
) -> Result<(), RedisError> {
    let mut subscribe = Pipeline::new();
    for to_open in channels.iter().filter(|to_open| to_open.subscribe) {
        subscribe.cmd("SUBSCRIBE").arg(keys.of(to_open.channel.as_str()).feed);
    }
    if !subscribe.is_empty() {
        let count = subscribe.len();
        for confirmed in commands.send_packed_commands(&subscribe, 0, count).await? {
            checked(confirmed)?;
        }
    }
    Ok(())
}

/// Most channels have nothing new after a connection was lost, which takes Redis a quarter of the time to say without a script and a
/// transaction. Returns those, and the others, of which more must be known.
async fn check(known: Vec<ToOpen>, up: &Up, keys: &Keys) -> Result<(Opening, Vec<ToOpen>), RedisError> {
    let (mut check, mut places) = (Pipeline::new(), Vec::with_capacity(known.len()));
    for to_open in &known {
        let commands = up.scripts.check(&to_open.channel, &keys.of(to_open.channel.as_str()));
        places.push(check.len());
        commands.into_iter().for_each(|command| _ = check.add_command(command));
    }
    if check.is_empty() {
        return Ok((Opening::new(), known));
    }
    let count = check.len();
    let mut replies = up.reads.clone().send_packed_commands(&check, 0, count).await?;
    if replies.len() != count {
        return Err(odd("Redis has answered to another number of commands"));
    }
    let life = up.life.read().number;
    let (mut opening, mut changed) = (Opening::new(), Vec::new());
    for (to_open, place) in known.into_iter().zip(places) {
        let reply = std::mem::replace(&mut replies[place], Value::Nil);
        match unchanged(&to_open, reply, life) {
            Some(opened) => opening.push((to_open.channel, Ok(opened))),
            None => changed.push(to_open),
        }
    }
    Ok((opening, changed))
}

/// What opening it would find, if there is nothing that the log here lacks.
fn unchanged(to_open: &ToOpen, reply: Value, life: u64) -> Option<Opened> {
    // Whatever else this is, opening it will tell.
    let found: (String, Option<u64>, u64) = from_redis_value(reply).ok()?;
    let (epoch, offset, epochs_life) = found;
    let offset = offset.unwrap_or(0);
    let is_unchanged =
        to_open.known.as_deref() == Some(&*epoch) && offset == to_open.after && epochs_life >= life;
    is_unchanged.then(|| Opened { epoch: epoch.into(), offset, past: Box::default(), entries: Vec::new() })
}

async fn read(channels: Vec<ToOpen>, up: Up, keys: &Keys) -> Result<Opening, RedisError> {
    let mut read = Pipeline::new();
    let life = up.life.read().number;
    for to_open in &channels {
        let keys = keys.of(to_open.channel.as_str());
        read.cmd("MULTI");
        read.add_command(up.scripts.open((&to_open.channel, &keys), &to_open.new_epoch, life));
        read.cmd("XRANGE").arg(&keys.log).arg(format!("0-{}", to_open.after.saturating_add(1))).arg("+");
        read.cmd("EXEC");
    }
    if read.is_empty() {
        return Ok(Opening::new());
    }
    let mut reads = up.reads;
    let count = read.len();
    let replies = reads.send_packed_commands(&read, 0, count).await?;
    if replies.len() != REPLIES * channels.len() {
        return Err(odd("Redis has answered to another number of commands"));
    }
    let mut opening = Opening::new();
    for (to_open, reply) in channels.into_iter().zip(replies.into_iter().skip(REPLIES - 1).step_by(REPLIES)) {
        match found(reply) {
            // What is wrong is not the channel.
            Err(error) if has_to_begin_anew(&error) => return Err(error),
            result => opening.push((to_open.channel, result)),
        }
    }
    Ok(opening)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_channel_is_unchanged_only_if_all_is_as_it_was() {
        let to_open = |after, known: Option<&str>| ToOpen {
            channel: ChannelName::new("a", 1).expect("a name"),
            after,
            known: known.map(Into::into),
            subscribe: false,
            new_epoch: String::new(),
        };
        let said = |epoch: &str, offset: &str, life: &str| {
            Value::Array([epoch, offset, life].map(|text| Value::BulkString(text.into())).into())
        };
        let is_unchanged = |to_open: ToOpen, reply: Value, life| unchanged(&to_open, reply, life).is_some();
        assert!(is_unchanged(to_open(7, Some("e")), said("e", "7", "2"), 2));
        assert!(is_unchanged(to_open(7, Some("e")), said("e", "7", "3"), 2), "noticed by another");
        assert!(!is_unchanged(to_open(7, Some("e")), said("e", "8", "2"), 2), "a new message");
        assert!(!is_unchanged(to_open(7, Some("e")), said("e", "6", "2"), 2), "one is lost");
        assert!(!is_unchanged(to_open(7, Some("e")), said("f", "7", "2"), 2), "another epoch");
        assert!(!is_unchanged(to_open(7, Some("e")), said("e", "7", "1"), 2), "of an earlier life");
        assert!(!is_unchanged(to_open(7, None), said("e", "7", "2"), 2));
        let nothing = Value::Array(vec![Value::Nil, Value::Nil, Value::Nil]);
        assert!(!is_unchanged(to_open(0, Some("e")), nothing, 2), "Redis has lost it");
        let bulk = |text: &str| Value::BulkString(text.into());
        let new = Value::Array(vec![bulk("e"), Value::Nil, bulk("2")]);
        assert!(is_unchanged(to_open(0, Some("e")), new, 2), "nothing was published yet");
    }
}
