//! Opens channels in batches: subscribes to new messages, then reads the existing ones.

use redis::aio::MultiplexedConnection;
use redis::{Pipeline, RedisError, Value, cmd, from_redis_value};

use super::command_connections::CommandConnections;
use super::errors::{check_reply, must_reconnect, unexpected};
use super::keys::RedisKeys;
use super::message::OpenedChannel;
use crate::channel::ChannelName;

/// Maximum number of channels per batch whose logs are read in full. Of the others, only new messages are read.
pub(super) const MAX_FULL_READS: usize = 32;

/// Maximum number of channels per batch.
pub(super) const MAX_BATCH: usize = 512;

/// A channel to open.
#[derive(Debug)]
pub(super) struct OpenRequest {
    pub(super) channel: ChannelName,
    /// Messages after this offset are read.
    pub(super) after: u64,
    /// Epoch of the local log, if the log has all messages up to `after`.
    pub(super) known_epoch: Option<Box<str>>,
    pub(super) subscribe: bool,
    /// Id for the epoch, if a new one starts.
    pub(super) new_epoch: String,
}

/// Result for each channel. Errors are those that Redis returned for that channel.
pub(super) type OpenResults = Vec<(ChannelName, Result<OpenedChannel, RedisError>)>;

/// Number of replies per channel: to MULTI, to both commands, and to EXEC.
const REPLIES_PER_CHANNEL: usize = 4;

pub(super) async fn open(
    channels: Vec<OpenRequest>,
    connections: CommandConnections,
    keys: RedisKeys,
) -> Result<OpenResults, RedisError> {
    let mut commands = connections.commands.clone();
    subscribe(&channels, &mut commands, &keys).await?;
    let (known, mut to_read) = channels.into_iter().partition(|request| request.known_epoch.is_some());
    let (mut results, changed) = check(known, &connections, &keys).await?;
    to_read.extend(changed);
    results.extend(read(to_read, connections, &keys).await?);
    // The reply to this PING arrives after all messages published until now.
    check_reply(commands.send_packed_command(&cmd("PING")).await?)?;
    Ok(results)
}

async fn subscribe(
    channels: &[OpenRequest],
    commands: &mut MultiplexedConnection,
    keys: &RedisKeys,
) -> Result<(), RedisError> {
    let mut subscribe = Pipeline::new();
    for request in channels.iter().filter(|request| request.subscribe) {
        subscribe.cmd("SUBSCRIBE").arg(keys.for_channel(request.channel.as_str()).feed);
    }
    if !subscribe.is_empty() {
        let count = subscribe.len();
        for confirmed in commands.send_packed_commands(&subscribe, 0, count).await? {
            check_reply(confirmed)?;
        }
    }
    Ok(())
}

/// Finds the channels without changes. After a reconnect, most channels are unchanged, and checking them
/// without a script and a transaction takes Redis only a quarter of the time. Returns the unchanged channels
/// as opened, and the others, which must be read.
async fn check(
    known: Vec<OpenRequest>,
    connections: &CommandConnections,
    keys: &RedisKeys,
) -> Result<(OpenResults, Vec<OpenRequest>), RedisError> {
    let (mut check, mut places) = (Pipeline::new(), Vec::with_capacity(known.len()));
    for request in &known {
        let commands =
            connections.scripts.check(&request.channel, &keys.for_channel(request.channel.as_str()));
        places.push(check.len());
        commands.into_iter().for_each(|command| _ = check.add_command(command));
    }
    if check.is_empty() {
        return Ok((OpenResults::new(), known));
    }
    let count = check.len();
    let mut replies = connections.reads.clone().send_packed_commands(&check, 0, count).await?;
    if replies.len() != count {
        return Err(unexpected("unexpected number of replies"));
    }
    let generation = connections.generation.read().number;
    let (mut results, mut changed) = (OpenResults::new(), Vec::new());
    for (request, place) in known.into_iter().zip(places) {
        let reply = std::mem::replace(&mut replies[place], Value::Nil);
        match unchanged(&request, reply, generation) {
            Some(opened) => results.push((request.channel, Ok(opened))),
            None => changed.push(request),
        }
    }
    Ok((results, changed))
}

/// Result of opening an unchanged channel; `None` if the local log may lack anything.
fn unchanged(request: &OpenRequest, reply: Value, generation: u64) -> Option<OpenedChannel> {
    // Treat an unexpected reply like a change: opening the channel will report the error.
    let found: (String, Option<u64>, u64) = from_redis_value(reply).ok()?;
    let (epoch, offset, epoch_generation) = found;
    let offset = offset.unwrap_or(0);
    let is_unchanged = request.known_epoch.as_deref() == Some(&*epoch)
        && offset == request.after
        && epoch_generation >= generation;
    is_unchanged.then(|| OpenedChannel {
        epoch: epoch.into(),
        offset,
        past: Box::default(),
        entries: Vec::new(),
    })
}

async fn read(
    channels: Vec<OpenRequest>,
    connections: CommandConnections,
    keys: &RedisKeys,
) -> Result<OpenResults, RedisError> {
    let mut read = Pipeline::new();
    let generation = connections.generation.read().number;
    for request in &channels {
        let keys = keys.for_channel(request.channel.as_str());
        read.cmd("MULTI");
        read.add_command(connections.scripts.open((&request.channel, &keys), &request.new_epoch, generation));
        read.cmd("XRANGE").arg(&keys.log).arg(format!("0-{}", request.after.saturating_add(1))).arg("+");
        read.cmd("EXEC");
    }
    if read.is_empty() {
        return Ok(OpenResults::new());
    }
    let mut reads = connections.reads;
    let count = read.len();
    let replies = reads.send_packed_commands(&read, 0, count).await?;
    if replies.len() != REPLIES_PER_CHANNEL * channels.len() {
        return Err(unexpected("unexpected number of replies"));
    }
    let mut results = OpenResults::new();
    let mut replies = replies.into_iter();
    for request in channels {
        match parse_transaction(replies.by_ref().take(REPLIES_PER_CHANNEL)) {
            // The problem concerns the connection rather than this channel.
            Err(error) if must_reconnect(&error) => return Err(error),
            result => results.push((request.channel, result)),
        }
    }
    Ok(results)
}

/// Parses the replies to a transaction, of which the last is that to EXEC. If Redis has rejected a command, it
/// names the reason only in the reply to that command.
fn parse_transaction(replies: impl Iterator<Item = Value>) -> Result<OpenedChannel, RedisError> {
    let results = replies.map(check_reply).reduce(Result::and);
    match results.unwrap_or(Ok(Value::Nil))? {
        Value::Array(results) => match <[Value; 2]>::try_from(results) {
            Ok([script, log]) => OpenedChannel::parse(script, log),
            Err(_) => Err(unexpected("unexpected number of results in a transaction")),
        },
        _ => Err(unexpected("unexpected reply to EXEC")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::errors::was_rejected;
    use super::*;

    /// Redis rejects a command that it is asked to queue while its memory is full.
    #[test]
    fn the_error_of_a_transaction_is_that_of_the_rejected_command() {
        use redis::parse_redis_value;
        let parse = |replies: [&str; REPLIES_PER_CHANNEL]| {
            parse_transaction(
                replies.map(|reply| parse_redis_value(reply.as_bytes()).expect("a reply")).into_iter(),
            )
        };
        let [ok, queued] = ["+OK\r\n", "+QUEUED\r\n"];
        let oom = "-OOM command not allowed when used memory > 'maxmemory'.\r\n";
        let aborted = "-EXECABORT Transaction discarded because of previous errors.\r\n";
        let error = parse([ok, oom, queued, aborted]).expect_err("Redis is full");
        assert_eq!(error.code(), Some("OOM"));
        assert!(was_rejected(&error));
        let error = parse([ok, queued, queued, aborted]).expect_err("another reason");
        assert_eq!(error.code(), Some("EXECABORT"));
        parse([ok, queued, queued, "$-1\r\n"]).expect_err("no results");
    }

    #[test]
    fn unchanged_channels_are_recognized() {
        let request = |after, known: Option<&str>| OpenRequest {
            channel: ChannelName::new("a", 1).expect("a name"),
            after,
            known_epoch: known.map(Into::into),
            subscribe: false,
            new_epoch: String::new(),
        };
        let reply = |epoch: &str, offset: &str, generation: &str| {
            Value::Array([epoch, offset, generation].map(|text| Value::BulkString(text.into())).into())
        };
        let is_unchanged =
            |request: OpenRequest, reply: Value, generation| unchanged(&request, reply, generation).is_some();
        assert!(is_unchanged(request(7, Some("e")), reply("e", "7", "2"), 2));
        assert!(
            is_unchanged(request(7, Some("e")), reply("e", "7", "3"), 2),
            "another server has noticed a change"
        );
        assert!(!is_unchanged(request(7, Some("e")), reply("e", "8", "2"), 2), "a new message");
        assert!(!is_unchanged(request(7, Some("e")), reply("e", "6", "2"), 2), "a message was lost");
        assert!(!is_unchanged(request(7, Some("e")), reply("f", "7", "2"), 2), "another epoch");
        assert!(!is_unchanged(request(7, Some("e")), reply("e", "7", "1"), 2), "of an earlier generation");
        assert!(!is_unchanged(request(7, None), reply("e", "7", "2"), 2));
        let nothing = Value::Array(vec![Value::Nil, Value::Nil, Value::Nil]);
        assert!(!is_unchanged(request(0, Some("e")), nothing, 2), "Redis has lost the channel");
        let bulk = |text: &str| Value::BulkString(text.into());
        let new = Value::Array(vec![bulk("e"), Value::Nil, bulk("2")]);
        assert!(is_unchanged(request(0, Some("e")), new, 2), "no publish yet");
    }
}
