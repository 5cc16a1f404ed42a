use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::reply::ReplyTo;
use crate::dialect::{Command, CommandError, ErrorCode, PublishKey, Request};

/// Messages in one request.
pub const MOST_MESSAGES: usize = 64;

/// Every message costs a reply that repeats it.
const LONGEST_ID: usize = 256;

/// Errors quote what the client sent, up to this length.
const LONGEST_QUOTE_CHARS: usize = 200;

/// The texts of the messages in a body: one, or an array of them.
///
/// # Errors
/// [`Unreadable`].
pub fn messages(body: &str) -> Result<Vec<&str>, Unreadable> {
    let not_json = |error: serde_json::Error| Unreadable::NotJson(shortened(&error.to_string()));
    if !body.trim_start().starts_with('[') {
        let message: &RawValue = serde_json::from_str(body).map_err(not_json)?;
        return Ok(vec![message.get()]);
    }
    let messages: Vec<&RawValue> = serde_json::from_str(body).map_err(not_json)?;
    if messages.len() > MOST_MESSAGES {
        return Err(Unreadable::TooMany(messages.len()));
    }
    Ok(messages.into_iter().map(RawValue::get).collect())
}

/// A body without messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// It is not JSON.
    NotJson(String),
    /// It has more than [`MOST_MESSAGES`].
    TooMany(usize),
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotJson(error) => f.write_str(error),
            Self::TooMany(count) => {
                write!(f, "{count} messages; there may be {MOST_MESSAGES} in one request")
            }
        }
    }
}

impl std::error::Error for Unreadable {}

/// What a message is for, by its channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageKind {
    /// It opens a session.
    Handshake,
    /// It asks for what is new.
    Connect,
    /// It ends its session.
    Disconnect,
    /// Whatever else a session is asked to do.
    Command,
}

/// One message of a client. Fields that nobody asked for are not looked at.
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
    /// Nothing is data like any other.
    #[serde(default, deserialize_with = "even_null")]
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

/// What is wrong with a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadMessage(String);

impl fmt::Display for BadMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadMessage {}

impl BadMessage {
    /// The reply to a message of which nothing is known.
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

/// A client wants a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handshake<'a> {
    /// How it can connect, by the names of the specification.
    pub connection_types: Vec<Cow<'a, str>>,
    /// Whether the client acknowledges what it gets.
    pub acknowledges: bool,
}

/// A client asks for what is new.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connect {
    /// How long it wants the request to be held at most.
    pub hold: Option<Duration>,
    /// If it acknowledges what it gets: the last message that it has.
    pub acknowledged: Option<u64>,
}

/// Text, borrowed unless it has escapes. (`Cow` by itself always deserializes as owned.)
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

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

/// What a publish may have beside its data. Only there: elsewhere it would mean nothing, and is not looked at.
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

/// A handshake says whether, a connect says up to where.
#[derive(Clone, Copy, Deserialize)]
#[serde(untagged)]
enum RequestedAck {
    Whether(bool),
    UpTo(i64),
    /// Certainly beyond what was sent.
    Beyond(u64),
}

#[derive(Deserialize)]
struct Authentication<'a> {
    #[serde(borrow)]
    token: Option<Text<'a>>,
}

impl<'a> ClientMessage<'a> {
    /// Reads one message.
    ///
    /// # Errors
    /// [`BadMessage`]: it is no object, or has no channel.
    pub fn parse(text: &'a str) -> Result<Self, BadMessage> {
        // An array would be taken for all fields in their order.
        if !text.trim_start().starts_with('{') {
            return Err(BadMessage("a message is an object".into()));
        }
        let fields: Fields<'a> =
            serde_json::from_str(text).map_err(|error| BadMessage(shortened(&error.to_string())))?;
        let channel = required(fields.channel, "channel").and_then(|raw| text_of(raw, "channel"))?;
        if fields.id.is_some_and(|id| id.get().len() > LONGEST_ID) {
            return Err(BadMessage(format!("id is longer than {LONGEST_ID} bytes")));
        }
        Ok(Self { channel, fields })
    }

    /// What it is for.
    #[must_use]
    pub fn kind(&self) -> MessageKind {
        match &*self.channel {
            "/meta/handshake" => MessageKind::Handshake,
            "/meta/connect" => MessageKind::Connect,
            "/meta/disconnect" => MessageKind::Disconnect,
            _ => MessageKind::Command,
        }
    }

    /// The resume token of the session that it is for, unchecked.
    ///
    /// # Errors
    /// [`BadMessage`]: it has none.
    pub fn client_id(&self) -> Result<Cow<'a, str>, BadMessage> {
        required(self.fields.client_id, "clientId").and_then(|raw| text_of(raw, "clientId"))
    }

    /// The JWT of its client, unchecked, if it has one.
    ///
    /// # Errors
    /// [`BadMessage`]: `ext` is not what it should be.
    pub fn token(&self) -> Result<Option<Cow<'a, str>>, BadMessage> {
        let token = self.extensions()?.authentication.and_then(|authentication| authentication.token);
        Ok(token.map(|Text(token)| token))
    }

    /// What a handshake asks for.
    ///
    /// # Errors
    /// [`BadMessage`]: a field is missing or wrong, or the client speaks only a later version.
    pub fn handshake(&self) -> Result<Handshake<'a>, BadMessage> {
        required(self.fields.version, "version").and_then(|raw| text_of(raw, "version"))?;
        if let Some(raw) = self.fields.minimum_version {
            let least = text_of(raw, "minimumVersion")?;
            if major(&least) > major(super::VERSION) {
                return Err(BadMessage(format!("this is version {}", super::VERSION)));
            }
        }
        let types = required(self.fields.connection_types, "supportedConnectionTypes")?;
        let types: Vec<Text<'a>> = read(types, "supportedConnectionTypes")?;
        let acknowledges = match self.extensions()?.ack {
            None | Some(RequestedAck::Whether(false)) => false,
            Some(RequestedAck::Whether(true) | RequestedAck::UpTo(_) | RequestedAck::Beyond(_)) => true,
        };
        Ok(Handshake { connection_types: types.into_iter().map(|Text(name)| name).collect(), acknowledges })
    }

    /// What a connect asks for.
    ///
    /// # Errors
    /// [`BadMessage`]: a field is wrong.
    pub fn connect(&self) -> Result<Connect, BadMessage> {
        let advice: RequestedAdvice = optional(self.fields.advice, "advice")?;
        let acknowledged = match self.extensions()?.ack {
            // Before its first connect, CometD's client says -1.
            Some(RequestedAck::UpTo(seq)) => Some(u64::try_from(seq).unwrap_or(0)),
            Some(RequestedAck::Beyond(seq)) => Some(seq),
            None | Some(RequestedAck::Whether(_)) => None,
        };
        Ok(Connect { hold: advice.timeout.map(Duration::from_millis), acknowledged })
    }

    /// What a reply needs of it.
    #[must_use]
    pub fn reply_to(&self) -> ReplyTo {
        // Only where it means something: a connect is kept for as long as it is held, and this may be long.
        let is_of_channels = matches!(&*self.channel, "/meta/subscribe" | "/meta/unsubscribe");
        let subscription = self.fields.subscription.filter(|_| is_of_channels);
        ReplyTo::new(&self.channel, self.fields.id, subscription)
    }

    /// The command that it is, good or bad. A connect that is not alone is answered at once.
    #[must_use]
    pub fn into_request(self, is_alone: bool) -> Request<'a, ReplyTo> {
        let reply_to = self.reply_to();
        Request { id: Some(reply_to), command: self.command(is_alone) }
    }

    fn command(self, is_alone: bool) -> Result<Command<'a>, CommandError> {
        Ok(match &*self.channel {
            "/meta/connect" => {
                let Connect { hold, acknowledged } = self.connect()?;
                let hold = if is_alone { hold } else { Some(Duration::ZERO) };
                Command::Hold { hold, seq: acknowledged, token: self.token()? }
            }
            "/meta/handshake" => {
                return Err(BadMessage("this connection has a session: close it for another".into()).into());
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
            let message = "nobody follows channels below /meta/".to_owned();
            return Err(CommandError { code: ErrorCode::Forbidden, message });
        }
        Ok(names)
    }

    fn extensions(&self) -> Result<RequestedExtensions<'a>, BadMessage> {
        optional(self.fields.ext, "ext")
    }
}

/// A channel's name has segments.
fn check_name(name: &str) -> Result<(), CommandError> {
    let is_good = name.strip_prefix('/').is_some_and(|name| name.split('/').all(|part| !part.is_empty()));
    if is_good {
        return Ok(());
    }
    let message = "a channel's name begins with a slash, and has something after each".to_owned();
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

fn even_null<'de: 'a, 'a, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'a RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

fn text_of<'a>(raw: &'a RawValue, field: &str) -> Result<Cow<'a, str>, BadMessage> {
    read(raw, field).map(|Text(text)| text)
}

fn read<'a, T: Deserialize<'a>>(raw: &'a RawValue, field: &str) -> Result<T, BadMessage> {
    serde_json::from_str(raw.get()).map_err(|error| BadMessage(shortened(&format!("{field}: {error}"))))
}

/// The number before the first dot. What is no number is any version.
fn major(version: &str) -> u32 {
    version.split('.').next().and_then(|major| major.parse().ok()).unwrap_or(0)
}

fn shortened(text: &str) -> String {
    text.chars().take(LONGEST_QUOTE_CHARS).collect()
}
