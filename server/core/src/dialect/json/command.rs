use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::ErrorCode;
use super::envelope::Envelope;

/// One command, with the `id` that its reply is to echo.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// Without one, success goes unanswered.
    pub id: Option<u64>,
    /// What to do.
    pub command: Command<'a>,
}

/// What a client can ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command<'a> {
    /// `{"subscribe":{"channel":"news"}}`: what is published there from now on, or from after `since` on.
    Subscribe {
        /// The channel.
        channel: Cow<'a, str>,
        /// The last message that the client has.
        since: Option<Since<'a>>,
    },
    /// `{"unsubscribe":{"channel":"news"}}`: nothing more from there.
    Unsubscribe {
        /// The channel.
        channel: Cow<'a, str>,
    },
    /// `{"publish":{"channel":"news","data":1}}`: to everyone who subscribes.
    Publish {
        /// The channel.
        channel: Cow<'a, str>,
        /// Any JSON, as the client wrote it.
        data: &'a str,
    },
    /// `{"presence":{"channel":"news"}}`: who subscribes.
    Presence {
        /// The channel.
        channel: Cow<'a, str>,
    },
    /// `{"ack":{"seq":57}}`: everything up to `seq` has arrived.
    Ack {
        /// The last message that arrived.
        seq: u64,
    },
    /// `{"pong":{"seq":57}}`: the answer to a `ping` message.
    Pong {
        /// The ping's.
        seq: u64,
    },
    /// `{"refresh":{"token":"..."}}`: the client's new token, before the old one runs out.
    Refresh {
        /// A JWT.
        token: Cow<'a, str>,
    },
    /// `{"close":{}}`: ends the session at once, without a reconnect window.
    Close,
}

/// A message in one life of a channel's log.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Since<'a> {
    /// The life.
    #[serde(borrow)]
    pub epoch: Cow<'a, str>,
    /// The message.
    pub offset: u64,
}

impl Since<'_> {
    /// The same, for longer than the command.
    #[must_use]
    pub fn into_owned(self) -> Since<'static> {
        Since { epoch: self.epoch.into_owned().into(), offset: self.offset }
    }
}

/// Why a text is not a command. [`fmt::Display`] gives a message for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandError {
    /// The `id` to echo, if one could be read.
    pub id: Option<u64>,
    /// For programs.
    pub code: ErrorCode,
    message: String,
}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for CommandError {}

/// Reads one command object: exactly one command, and an optional `id`.
///
/// # Errors
/// [`CommandError`], to be sent back as an error reply.
pub fn parse_command(text: &str) -> Result<Request<'_>, CommandError> {
    let envelope: Envelope<'_> = serde_json::from_str(text).map_err(|error| malformed(None, &error))?;
    let id = envelope.id;
    let (name, body) = envelope.command;
    match read(&name, body) {
        Ok(Some(command)) => Ok(Request { id, command }),
        Ok(None) => {
            let message = format!("unknown command {:?}", shortened(&name, LONGEST_NAME_CHARS));
            Err(CommandError { id, code: ErrorCode::UnknownCommand, message })
        }
        Err(error) => Err(malformed(id, &format_args!("{name}: {error}"))),
    }
}

/// `None` if there is no command of this name.
fn read<'a>(name: &str, body: &'a RawValue) -> serde_json::Result<Option<Command<'a>>> {
    let body = body.get();
    Ok(Some(match name {
        "ack" => serde_json::from_str(body).map(|Seq { seq }| Command::Ack { seq })?,
        "pong" => serde_json::from_str(body).map(|Seq { seq }| Command::Pong { seq })?,
        "subscribe" => serde_json::from_str(body)
            .map(|Subscribe { channel, since }| Command::Subscribe { channel: channel.0, since })?,
        "unsubscribe" => serde_json::from_str(body)
            .map(|Channel { channel }| Command::Unsubscribe { channel: channel.0 })?,
        "publish" => serde_json::from_str(body)
            .map(|Publish { channel, data }| Command::Publish { channel: channel.0, data: data.get() })?,
        "presence" => {
            serde_json::from_str(body).map(|Channel { channel }| Command::Presence { channel: channel.0 })?
        }
        "refresh" => {
            serde_json::from_str(body).map(|Refresh { token }| Command::Refresh { token: token.0 })?
        }
        "close" => serde_json::from_str(body).map(|NoFields {}| Command::Close)?,
        _ => return Ok(None),
    }))
}

/// A client's own words go back to it in the error, but not at any length.
pub(super) const LONGEST_NAME_CHARS: usize = 32;
const LONGEST_MESSAGE_CHARS: usize = 200;

fn malformed(id: Option<u64>, message: &dyn fmt::Display) -> CommandError {
    let message = message.to_string();
    CommandError {
        id,
        code: ErrorCode::Malformed,
        message: shortened(&message, LONGEST_MESSAGE_CHARS).to_owned(),
    }
}

pub(super) fn shortened(text: &str, chars: usize) -> &str {
    let end = text.char_indices().nth(chars).map_or(text.len(), |(at, _)| at);
    &text[..end]
}

/// Text, borrowed unless it has escapes. (`Cow` by itself always deserializes as owned.)
#[derive(Deserialize)]
pub(super) struct Text<'a>(#[serde(borrow)] pub(super) Cow<'a, str>);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Seq {
    seq: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Subscribe<'a> {
    #[serde(borrow)]
    channel: Text<'a>,
    #[serde(borrow)]
    since: Option<Since<'a>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Channel<'a> {
    #[serde(borrow)]
    channel: Text<'a>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Publish<'a> {
    #[serde(borrow)]
    channel: Text<'a>,
    #[serde(borrow)]
    data: &'a RawValue,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Refresh<'a> {
    #[serde(borrow)]
    token: Text<'a>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NoFields {}
