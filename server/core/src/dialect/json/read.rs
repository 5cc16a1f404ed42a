use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::Error as _;
use serde_json::value::RawValue;

use super::envelope::Envelope;
use crate::dialect::{self, Beginning, Command, CommandError, ErrorCode, PublishKey, Request};

/// Reads one object: exactly one command, and an optional `id`, which is known also when the command is bad.
#[must_use]
pub fn parse_command(text: &str) -> Request<'_, u64> {
    let Envelope { id, command: (name, body) } = match serde_json::from_str(text) {
        Ok(envelope) => envelope,
        Err(error) => return Request { id: None, command: Err(malformed(&error)) },
    };
    let command = match read(&name, body) {
        Ok(Some(command)) => Ok(command),
        Ok(None) => {
            let message = format!("unknown command {:?}", shortened(&name, LONGEST_NAME_CHARS));
            Err(CommandError { code: ErrorCode::UnknownCommand, message })
        }
        Err(error) => Err(malformed(&format_args!("{name}: {error}"))),
    };
    Request { id, command }
}

/// `None` if there is no command of this name.
fn read<'a>(name: &str, body: &'a RawValue) -> serde_json::Result<Option<Command<'a>>> {
    let body = body.get();
    Ok(Some(match name {
        "ack" => serde_json::from_str(body).map(|Seq { seq }| Command::Ack { seq })?,
        "pong" => serde_json::from_str(body).map(|Seq { seq }| Command::Pong { seq })?,
        "subscribe" => serde_json::from_str(body).and_then(Subscribe::into_command)?,
        "unsubscribe" => serde_json::from_str(body)
            .map(|Channel { channel }| Command::Unsubscribe { channel: channel.0 })?,
        "publish" => serde_json::from_str(body).map(|Publish { channel, data, key }| Command::Publish {
            channel: channel.0,
            data: data.get().into(),
            key,
        })?,
        "call" => serde_json::from_str(body).map(|Call { method, data }| Command::Call {
            method: method.0,
            data: data.map_or("null", RawValue::get).into(),
        })?,
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

/// Errors quote what the client sent, up to this length.
pub(super) const LONGEST_NAME_CHARS: usize = 32;
const LONGEST_MESSAGE_CHARS: usize = 200;

fn malformed(message: &dyn fmt::Display) -> CommandError {
    let message = message.to_string();
    CommandError {
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
    last: Option<u64>,
}

impl<'a> Subscribe<'a> {
    fn into_command(self) -> serde_json::Result<Command<'a>> {
        let begin = match (self.since, self.last) {
            (None, None) => Beginning::Now,
            (Some(Since { epoch, offset }), None) => Beginning::After(dialect::Since { epoch, offset }),
            (None, Some(count)) => Beginning::Newest(count),
            (Some(_), Some(_)) => {
                return Err(serde_json::Error::custom("either `since` or `last`, not both"));
            }
        };
        Ok(Command::Subscribe { channel: self.channel.0, begin })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Call<'a> {
    #[serde(borrow)]
    method: Text<'a>,
    #[serde(borrow)]
    data: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Since<'a> {
    #[serde(borrow)]
    epoch: Cow<'a, str>,
    offset: u64,
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
    #[serde(borrow)]
    key: Option<PublishKey<'a>>,
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
