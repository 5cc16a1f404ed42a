use std::borrow::Cow;
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::reply::ReplyTo;
use crate::dialect::json_fields::{Text, null_as_data};
use crate::dialect::{Command, CommandError, CommandRequest, ErrorCode, PublishKey};

/// Maximum number of messages per request.
pub const MAX_MESSAGES: usize = 64;

/// Maximum length of a message id in bytes, limited because every reply repeats it.
const MAX_ID_BYTES: usize = 256;

/// Maximum length of client input quoted in an error.
const MAX_QUOTE_CHARS: usize = 200;

/// Splits a body, which is one message or an array of messages, into the texts of the messages.
///
/// # Errors
/// Returns [`BadBody`] if the body is not JSON or has too many messages.
pub fn split_messages(body: &str) -> Result<Vec<&str>, BadBody> {
    let not_json = |error: serde_json::Error| BadBody::NotJson(shortened(&error.to_string()));
    if !body.trim_start().starts_with('[') {
        let message: &RawValue = serde_json::from_str(body).map_err(not_json)?;
        return Ok(vec![message.get()]);
    }
    let messages: Vec<&RawValue> = serde_json::from_str(body).map_err(not_json)?;
    if messages.len() > MAX_MESSAGES {
        return Err(BadBody::TooMany(messages.len()));
    }
    Ok(messages.into_iter().map(RawValue::get).collect())
}

/// Why the messages of a body could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadBody {
    /// The body is not valid JSON.
    #[error("{0}")]
    NotJson(String),
    /// The body has more than [`MAX_MESSAGES`] messages.
    #[error("{0} messages in one request, at most {MAX_MESSAGES} are allowed")]
    TooMany(usize),
}

/// Purpose of a message, determined by its channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageKind {
    /// Opens a session.
    Handshake,
    /// Requests messages.
    Connect,
    /// Ends the session.
    Disconnect,
    /// Any other command for a session.
    Command,
}

/// A message from a client. Fields are parsed on demand, so unused ones may be invalid.
#[derive(Debug)]
pub struct ClientMessage<'a> {
    channel: Cow<'a, str>,
    fields: Fields<'a>,
}

#[derive(Debug, Deserialize)]
struct Fields<'a> {
    #[serde(borrow)]
    channel: Option<&'a RawValue>,
    id: Option<&'a RawValue>,
    #[serde(rename = "clientId")]
    client_id: Option<&'a RawValue>,
    /// `None` only if the field is absent: `null` counts as data.
    #[serde(default, deserialize_with = "null_as_data")]
    data: Option<&'a RawValue>,
    version: Option<&'a RawValue>,
    #[serde(rename = "minimumVersion")]
    minimum_version: Option<&'a RawValue>,
    #[serde(rename = "supportedConnectionTypes")]
    connection_types: Option<&'a RawValue>,
    subscription: Option<&'a RawValue>,
    advice: Option<&'a RawValue>,
    ext: Option<&'a RawValue>,
}

/// Describes what is wrong with a message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadMessage(String);

impl BadMessage {
    /// Returns the reply to a message that could not be parsed at all.
    #[must_use]
    pub fn reply(&self) -> String {
        ReplyTo::default().reply().failed_with(400, &self.0).to_json()
    }
}

impl From<BadMessage> for CommandError {
    fn from(BadMessage(message): BadMessage) -> Self {
        Self { code: ErrorCode::Malformed, message }
    }
}

/// Contents of a handshake message, which asks for a new session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandshakeOptions<'a> {
    /// Supported connection types, by their names in the specification.
    pub connection_types: Vec<Cow<'a, str>>,
    /// Whether the client acknowledges messages.
    pub acknowledges: bool,
}

/// Contents of a connect message, which asks for messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectOptions {
    /// Maximum time to hold the request, if the client specifies one.
    pub hold: Option<Duration>,
    /// Seq of the last message received, if the client acknowledges messages.
    pub acknowledged: Option<u64>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMore<'a> {
    #[serde(borrow)]
    One(Text<'a>),
    More(Vec<Text<'a>>),
}

#[derive(Default, Deserialize)]
struct RequestedAdvice {
    timeout: Option<u64>,
}

#[derive(Default, Deserialize)]
struct RequestedExtensions<'a> {
    ack: Option<RequestedAck>,
    #[serde(borrow)]
    authentication: Option<Authentication<'a>>,
}

/// Extension fields of a publish. They have no meaning in other messages, where they are not parsed.
#[derive(Default, Deserialize)]
struct PublishExtensions<'a> {
    #[serde(borrow)]
    encke: Option<EnckeExtension<'a>>,
}

#[derive(Deserialize)]
struct EnckeExtension<'a> {
    #[serde(borrow)]
    key: Option<PublishKey<'a>>,
}

/// Value of the acknowledgement extension: a boolean in a handshake, a number in a connect.
#[derive(Clone, Copy, Deserialize)]
#[serde(untagged)]
enum RequestedAck {
    Whether(bool),
    UpTo(i64),
    /// A number above `i64::MAX`, and therefore greater than any seq that was sent.
    Beyond(u64),
}

#[derive(Deserialize)]
struct Authentication<'a> {
    #[serde(borrow)]
    token: Option<Text<'a>>,
}

impl<'a> ClientMessage<'a> {
    /// Parses one message.
    ///
    /// # Errors
    /// Returns [`BadMessage`] if the text is not an object or has no channel.
    pub fn parse(text: &'a str) -> Result<Self, BadMessage> {
        // Check this explicitly, because serde would also accept an array of all fields in order.
        if !text.trim_start().starts_with('{') {
            return Err(BadMessage("a message must be an object".into()));
        }
        let fields: Fields<'a> =
            serde_json::from_str(text).map_err(|error| BadMessage(shortened(&error.to_string())))?;
        let channel = required(fields.channel, "channel").and_then(|raw| text_of(raw, "channel"))?;
        if fields.id.is_some_and(|id| id.get().len() > MAX_ID_BYTES) {
            return Err(BadMessage(format!("id is longer than {MAX_ID_BYTES} bytes")));
        }
        Ok(Self { channel, fields })
    }

    /// Returns the purpose of the message.
    #[must_use]
    pub fn kind(&self) -> MessageKind {
        match &*self.channel {
            "/meta/handshake" => MessageKind::Handshake,
            "/meta/connect" => MessageKind::Connect,
            "/meta/disconnect" => MessageKind::Disconnect,
            _ => MessageKind::Command,
        }
    }

    /// Returns the unverified resume token of the message's session.
    ///
    /// # Errors
    /// Returns [`BadMessage`] if the token is absent.
    pub fn client_id(&self) -> Result<Cow<'a, str>, BadMessage> {
        required(self.fields.client_id, "clientId").and_then(|raw| text_of(raw, "clientId"))
    }

    /// Returns the client's unverified JWT, if the message has one.
    ///
    /// # Errors
    /// Returns [`BadMessage`] if `ext` is invalid.
    pub fn token(&self) -> Result<Option<Cow<'a, str>>, BadMessage> {
        let token = self.extensions()?.authentication.and_then(|authentication| authentication.token);
        Ok(token.map(|Text(token)| token))
    }

    /// Parses the fields of a handshake.
    ///
    /// # Errors
    /// Returns [`BadMessage`] if a field is missing or invalid, or if the client requires a later protocol
    /// version.
    pub fn handshake(&self) -> Result<HandshakeOptions<'a>, BadMessage> {
        required(self.fields.version, "version").and_then(|raw| text_of(raw, "version"))?;
        if let Some(raw) = self.fields.minimum_version {
            let least = text_of(raw, "minimumVersion")?;
            if major(&least) > major(super::VERSION) {
                return Err(BadMessage(format!("the server supports only version {}", super::VERSION)));
            }
        }
        let types = required(self.fields.connection_types, "supportedConnectionTypes")?;
        let types: Vec<Text<'a>> = read(types, "supportedConnectionTypes")?;
        let acknowledges = match self.extensions()?.ack {
            None | Some(RequestedAck::Whether(false)) => false,
            Some(RequestedAck::Whether(true) | RequestedAck::UpTo(_) | RequestedAck::Beyond(_)) => true,
        };
        Ok(HandshakeOptions {
            connection_types: types.into_iter().map(|Text(name)| name).collect(),
            acknowledges,
        })
    }

    /// Parses the fields of a connect.
    ///
    /// # Errors
    /// Returns [`BadMessage`] if a field is invalid.
    pub fn connect(&self) -> Result<ConnectOptions, BadMessage> {
        let advice: RequestedAdvice = optional(self.fields.advice, "advice")?;
        let acknowledged = match self.extensions()?.ack {
            // CometD's client sends -1 before its first connect.
            Some(RequestedAck::UpTo(seq)) => Some(u64::try_from(seq).unwrap_or(0)),
            Some(RequestedAck::Beyond(seq)) => Some(seq),
            None | Some(RequestedAck::Whether(_)) => None,
        };
        Ok(ConnectOptions { hold: advice.timeout.map(Duration::from_millis), acknowledged })
    }

    /// Returns the fields that the reply repeats.
    #[must_use]
    pub fn reply_to(&self) -> ReplyTo {
        // Copy the subscription only where it has a meaning: these fields are kept while a connect is held,
        // and this one may be long.
        let has_subscription = matches!(&*self.channel, "/meta/subscribe" | "/meta/unsubscribe");
        let subscription = self.fields.subscription.filter(|_| has_subscription);
        ReplyTo::new(&self.channel, self.fields.id, subscription)
    }

    /// Converts the message to a request with a command or an error. A connect is held only if it is the only
    /// message in its text; otherwise it is answered immediately.
    #[must_use]
    pub fn into_request(self, is_alone: bool) -> CommandRequest<'a, ReplyTo> {
        let reply_to = self.reply_to();
        CommandRequest { id: Some(reply_to), command: self.command(is_alone) }
    }

    fn command(self, is_alone: bool) -> Result<Command<'a>, CommandError> {
        Ok(match &*self.channel {
            "/meta/connect" => {
                let ConnectOptions { hold, acknowledged } = self.connect()?;
                let hold = if is_alone { hold } else { Some(Duration::ZERO) };
                Command::Hold { hold, seq: acknowledged, token: self.token()? }
            }
            "/meta/handshake" => {
                return Err(BadMessage("this connection already has a session".into()).into());
            }
            "/meta/subscribe" => Command::SubscribeAll { channels: self.subscription()? },
            "/meta/unsubscribe" => Command::UnsubscribeAll { channels: self.subscription()? },
            "/meta/disconnect" => Command::Close,
            channel if channel.starts_with("/meta/") => {
                let message = format!("unknown channel {}", shortened(channel));
                return Err(CommandError { code: ErrorCode::UnknownCommand, message });
            }
            _ => {
                check_name(&self.channel)?;
                let (channel, data) = (self.channel, required(self.fields.data, "data")?.get().into());
                if channel.starts_with("/service/") {
                    Command::Service { channel, data }
                } else {
                    let extensions: PublishExtensions<'a> = optional(self.fields.ext, "ext")?;
                    Command::Publish { channel, data, key: extensions.encke.and_then(|encke| encke.key) }
                }
            }
        })
    }

    fn subscription(&self) -> Result<Vec<Cow<'a, str>>, CommandError> {
        let raw = required(self.fields.subscription, "subscription")?;
        let names = match read(raw, "subscription")? {
            OneOrMore::One(Text(name)) => vec![name],
            OneOrMore::More(names) => names.into_iter().map(|Text(name)| name).collect(),
        };
        if names.is_empty() {
            return Err(BadMessage("subscription is empty".into()).into());
        }
        names.iter().try_for_each(|name| check_name(name))?;
        if names.iter().any(|name| name.starts_with("/meta/")) {
            let message = "channels below /meta/ cannot be subscribed to".to_owned();
            return Err(CommandError { code: ErrorCode::Forbidden, message });
        }
        Ok(names)
    }

    fn extensions(&self) -> Result<RequestedExtensions<'a>, BadMessage> {
        optional(self.fields.ext, "ext")
    }
}

/// Checks that a channel name consists of non-empty segments, each preceded by a slash.
fn check_name(name: &str) -> Result<(), CommandError> {
    let is_good = name.strip_prefix('/').is_some_and(|name| name.split('/').all(|part| !part.is_empty()));
    if is_good {
        return Ok(());
    }
    let message = "a channel name must consist of non-empty segments, each after a slash".to_owned();
    Err(CommandError { code: ErrorCode::BadChannel, message })
}

fn required<'a>(raw: Option<&'a RawValue>, field: &str) -> Result<&'a RawValue, BadMessage> {
    raw.ok_or_else(|| BadMessage(format!("{field} is missing")))
}

fn optional<'a, T: Default + Deserialize<'a>>(
    raw: Option<&'a RawValue>,
    field: &str,
) -> Result<T, BadMessage> {
    raw.map_or_else(|| Ok(T::default()), |raw| read(raw, field))
}

fn text_of<'a>(raw: &'a RawValue, field: &str) -> Result<Cow<'a, str>, BadMessage> {
    read(raw, field).map(|Text(text)| text)
}

fn read<'a, T: Deserialize<'a>>(raw: &'a RawValue, field: &str) -> Result<T, BadMessage> {
    serde_json::from_str(raw.get()).map_err(|error| BadMessage(shortened(&format!("{field}: {error}"))))
}

/// Returns the major version, which is the number before the first dot. Malformed versions count as 0, which
/// is always acceptable.
fn major(version: &str) -> u32 {
    version.split('.').next().and_then(|major| major.parse().ok()).unwrap_or(0)
}

fn shortened(text: &str) -> String {
    text.chars().take(MAX_QUOTE_CHARS).collect()
}
