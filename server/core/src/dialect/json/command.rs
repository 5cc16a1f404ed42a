use std::borrow::Cow;
use std::fmt;

use serde::de::{self, Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::ErrorCode;

/// One command, with the `id` that its reply is to echo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Without one, success goes unanswered.
    pub id: Option<u64>,
    /// What to do.
    pub command: Command,
}

/// What a client can ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
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
    /// `{"close":{}}`: ends the session at once, without a reconnect window.
    Close,
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
pub fn parse_command(text: &str) -> Result<Request, CommandError> {
    let envelope: Envelope<'_> = serde_json::from_str(text).map_err(|error| malformed(None, &error))?;
    let id = envelope.id;
    let (name, body) = envelope.command;
    let command = match &*name {
        "ack" => read_seq(body).map(|seq| Command::Ack { seq }),
        "pong" => read_seq(body).map(|seq| Command::Pong { seq }),
        "close" => serde_json::from_str::<NoFields>(body.get()).map(|NoFields {}| Command::Close),
        unknown => {
            let message = format!("unknown command {:?}", shortened(unknown, LONGEST_NAME_CHARS));
            return Err(CommandError { id, code: ErrorCode::UnknownCommand, message });
        }
    };
    match command {
        Ok(command) => Ok(Request { id, command }),
        Err(error) => Err(malformed(id, &format_args!("{name}: {error}"))),
    }
}

/// A client's own words go back to it in the error, but not at any length.
const LONGEST_NAME_CHARS: usize = 32;
const LONGEST_MESSAGE_CHARS: usize = 200;

fn malformed(id: Option<u64>, message: &dyn fmt::Display) -> CommandError {
    let message = message.to_string();
    CommandError {
        id,
        code: ErrorCode::Malformed,
        message: shortened(&message, LONGEST_MESSAGE_CHARS).to_owned(),
    }
}

fn shortened(text: &str, chars: usize) -> &str {
    let end = text.char_indices().nth(chars).map_or(text.len(), |(at, _)| at);
    &text[..end]
}

fn read_seq(body: &RawValue) -> serde_json::Result<u64> {
    serde_json::from_str::<Seq>(body.get()).map(|Seq { seq }| seq)
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Seq {
    seq: u64,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct NoFields {}

/// The outer object, its command not yet looked into: so the `id` is known when the command turns out bad.
///
/// Written by hand because a derived enum with a flattened `id` would take `{"ack":..,"close":..}` for one
/// command, and cannot hold a [`RawValue`].
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
        while let Some(Name(name)) = map.next_key()? {
            if name == "id" {
                if id.replace(map.next_value::<u64>()?).is_some() {
                    return Err(de::Error::duplicate_field("id"));
                }
            } else if let Some((first, _)) = command.replace((name, map.next_value()?)) {
                let first = shortened(&first, LONGEST_NAME_CHARS);
                return Err(de::Error::custom(format_args!(
                    "exactly one command expected, {first:?} is not alone"
                )));
            }
        }
        let command = command.ok_or_else(|| de::Error::custom("exactly one command expected, found none"))?;
        Ok(Envelope { id, command })
    }
}

/// A key, borrowed from the text unless it has escapes. (`Cow` by itself always deserializes as owned.)
#[derive(serde::Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);
