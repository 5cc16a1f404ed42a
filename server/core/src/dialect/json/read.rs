use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{self, Deserializer, Error as _, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::dialect::json_fields::Text;
use crate::dialect::{
    Command, CommandError, CommandRequest, ErrorCode, HistoryPage, HistoryRange, PublishKey, Since,
    StartPosition,
};

/// Maximum length of a command name quoted in an error.
const MAX_NAME_CHARS: usize = 32;

/// Parses one object: exactly one command and an optional `id`. The `id` is returned even if the command is
/// invalid.
#[must_use]
pub fn parse_command(text: &str) -> CommandRequest<'_, u64> {
    let Envelope { id, command: (name, body) } = match serde_json::from_str(text) {
        Ok(envelope) => envelope,
        Err(error) => return CommandRequest { id: None, command: Err(malformed(&error)) },
    };
    let command = match read(&name, body) {
        Ok(Some(command)) => Ok(command),
        Ok(None) => {
            let message = format!("unknown command {:?}", shortened(&name, MAX_NAME_CHARS));
            Err(CommandError { code: ErrorCode::UnknownCommand, message })
        }
        Err(error) => Err(malformed(&format_args!("{name}: {error}"))),
    };
    CommandRequest { id, command }
}

/// Parses the body of a command. Returns `None` if the command is unknown.
fn read<'a>(name: &str, body: &'a RawValue) -> serde_json::Result<Option<Command<'a>>> {
    let body = body.get();
    Ok(Some(match name {
        "ack" => serde_json::from_str(body).map(|SeqBody { seq }| Command::Ack { seq })?,
        "pong" => serde_json::from_str(body).map(|SeqBody { seq }| Command::Pong { seq })?,
        "subscribe" => serde_json::from_str(body).and_then(SubscribeBody::into_command)?,
        "unsubscribe" => serde_json::from_str(body)
            .map(|ChannelBody { channel }| Command::Unsubscribe { channel: channel.0 })?,
        "publish" => serde_json::from_str(body).map(|PublishBody { channel, data, key }| {
            Command::Publish { channel: channel.0, data: data.get().into(), key }
        })?,
        "call" => serde_json::from_str(body).map(|CallBody { method, data }| Command::Call {
            method: method.0,
            data: data.map_or("null", RawValue::get).into(),
        })?,
        "presence" => serde_json::from_str(body)
            .map(|ChannelBody { channel }| Command::Presence { channel: channel.0 })?,
        "history" => serde_json::from_str(body).and_then(HistoryBody::into_command)?,
        "refresh" => {
            serde_json::from_str(body).map(|RefreshBody { token }| Command::Refresh { token: token.0 })?
        }
        "close" => serde_json::from_str(body).map(|EmptyBody {}| Command::Close)?,
        _ => return Ok(None),
    }))
}

const MAX_MESSAGE_CHARS: usize = 200;

fn malformed(message: &dyn fmt::Display) -> CommandError {
    let message = message.to_string();
    CommandError { code: ErrorCode::Malformed, message: shortened(&message, MAX_MESSAGE_CHARS).to_owned() }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SeqBody {
    seq: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SubscribeBody<'a> {
    #[serde(borrow)]
    channel: Text<'a>,
    #[serde(borrow)]
    since: Option<Since<'a>>,
    last: Option<u64>,
}

impl<'a> SubscribeBody<'a> {
    fn into_command(self) -> serde_json::Result<Command<'a>> {
        let begin = match (self.since, self.last) {
            (None, None) => StartPosition::Now,
            (Some(since), None) => StartPosition::After(since),
            (None, Some(count)) => StartPosition::Newest(count),
            (Some(_), Some(_)) => {
                return Err(serde_json::Error::custom("`since` and `last` exclude each other"));
            }
        };
        Ok(Command::Subscribe { channel: self.channel.0, begin })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HistoryBody<'a> {
    #[serde(borrow)]
    channel: Text<'a>,
    before: Option<u64>,
    since: Option<u64>,
    #[serde(borrow)]
    epoch: Option<Text<'a>>,
    limit: Option<usize>,
}

impl<'a> HistoryBody<'a> {
    fn into_command(self) -> serde_json::Result<Command<'a>> {
        let range = match (self.before, self.since) {
            (None, None) => HistoryRange::Newest,
            (Some(offset), None) => HistoryRange::Before(offset),
            (None, Some(offset)) => HistoryRange::After(offset),
            (Some(_), Some(_)) => {
                return Err(serde_json::Error::custom("`before` and `since` exclude each other"));
            }
        };
        let (limit, max) = (self.limit.unwrap_or(HistoryPage::DEFAULT_MESSAGES), HistoryPage::MAX_MESSAGES);
        if !(1..=max).contains(&limit) {
            return Err(serde_json::Error::custom(format_args!("`limit` must be from 1 to {max}")));
        }
        let page = HistoryPage { range, epoch: self.epoch.map(|Text(epoch)| epoch), limit };
        Ok(Command::History { channel: self.channel.0, page })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CallBody<'a> {
    #[serde(borrow)]
    method: Text<'a>,
    #[serde(borrow)]
    data: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ChannelBody<'a> {
    #[serde(borrow)]
    channel: Text<'a>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PublishBody<'a> {
    #[serde(borrow)]
    channel: Text<'a>,
    #[serde(borrow)]
    data: &'a RawValue,
    #[serde(borrow)]
    key: Option<PublishKey<'a>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RefreshBody<'a> {
    #[serde(borrow)]
    token: Text<'a>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EmptyBody {}

/// The outer object of a command. Its body is not parsed yet, so the `id` is known even if the command is
/// invalid.
///
/// `Deserialize` is implemented by hand: a derived enum with a flattened `id` would accept
/// `{"ack":..,"close":..}` as one command, and cannot hold a [`RawValue`].
struct Envelope<'a> {
    id: Option<u64>,
    command: (Cow<'a, str>, &'a RawValue),
}

impl<'de> Deserialize<'de> for Envelope<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(EnvelopeVisitor)
    }
}

struct EnvelopeVisitor;

impl<'de> Visitor<'de> for EnvelopeVisitor {
    type Value = Envelope<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with one command")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut id = None;
        let mut command = None;
        while let Some(Text(name)) = map.next_key()? {
            if name == "id" {
                if id.replace(map.next_value::<u64>()?).is_some() {
                    return Err(de::Error::duplicate_field("id"));
                }
            } else if let Some((first, _)) = command.replace((name, map.next_value()?)) {
                let first = shortened(&first, MAX_NAME_CHARS);
                return Err(de::Error::custom(format_args!(
                    "expected exactly one command, but {first:?} is not the only one"
                )));
            }
        }
        let command = command.ok_or_else(|| de::Error::custom("expected exactly one command, found none"))?;
        Ok(Envelope { id, command })
    }
}

fn shortened(text: &str, chars: usize) -> &str {
    let end = text.char_indices().nth(chars).map_or(text.len(), |(at, _)| at);
    &text[..end]
}
