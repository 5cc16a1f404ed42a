//! Fuzzes Bayeux request bodies. Every message must get a JSON reply that repeats its id, and every accepted
//! message must keep its meaning when it is encoded again.

use std::collections::BTreeMap;

use encke_core::dialect::bayeux::{
    BadBody, Bayeux, ClientMessage, ConnectOptions, HandshakeOptions, MAX_MESSAGES, MessageKind, event_len,
    split_messages, write_event,
};
use encke_core::dialect::json::EncodedMessage;
use encke_core::dialect::{Command, CommandError, CommandRequest, Dialect, Response, Success, TextSink};
use encke_core::message::{CompactJson, Content, JsonString, Message};
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// Maximum length of an error message. Error messages quote only part of the client's input.
const MAX_ERROR_CHARS: usize = 240;

/// Checks the body of a request.
///
/// # Panics
/// If an invariant is violated.
pub fn run(input: &[u8]) {
    let Ok(body) = std::str::from_utf8(input) else { return };
    let read = split_messages(body);
    assert_eq!(read.is_ok(), should_be_accepted(body), "{body}: {read:?}");
    match read {
        Ok(texts) => texts.into_iter().for_each(check_message),
        Err(BadBody::NotJson(error)) => assert_is_short(&error),
        Err(error @ BadBody::TooMany(_)) => assert_is_short(&error.to_string()),
    }
    // The text of a WebSocket message is parsed like a body, but a text that is neither an array nor an
    // object gets a reply, too.
    let (_, reply) = respond_to(body, Ok(Success::Done));
    reply_fields(&reply);
}

/// Returns whether the messages of a body should be accepted.
fn should_be_accepted(body: &str) -> bool {
    let Ok(value) = serde_json::from_str::<&RawValue>(body) else { return false };
    match serde_json::from_str::<Vec<&RawValue>>(value.get()) {
        Ok(messages) => messages.len() <= MAX_MESSAGES,
        Err(_) => true,
    }
}

/// Collects the texts that the dialect writes.
#[derive(Default)]
struct TextCollector(Vec<String>);

impl TextSink for TextCollector {
    fn text(&mut self, text: &str) {
        self.0.push(text.to_owned());
    }
}

/// Parses a message. Returns its command, and the reply to be sent if executing the command has this outcome.
fn respond_to<'a>(
    text: &'a str,
    outcome: Result<Success<'_>, CommandError>,
) -> (Result<Command<'a>, CommandError>, String) {
    let CommandRequest { id, command } = match ClientMessage::parse(text) {
        Ok(message) => message.into_request(true),
        Err(error) => {
            let reply = error.reply();
            return (Err(error.into()), reply);
        }
    };
    assert!(id.is_some(), "every message has a reply: {text}");
    let mut written = TextCollector::default();
    let result = command.clone().and(outcome);
    Bayeux::default().respond(&[Response { id, result }], &mut written);
    let array = written.0.concat();
    let reply = array.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    (command, reply.unwrap_or_else(|| panic!("not an array: {array}")).to_owned())
}

/// Checks one message of a body.
fn check_message(text: &str) {
    let refusal =
        CommandError { code: encke_core::dialect::ErrorCode::Forbidden, message: "\"\\\n\u{2028}:".into() };
    let (command, fine) = respond_to(text, Ok(Success::Done));
    let (_, refused) = respond_to(text, Err(refusal));
    let parsed = ClientMessage::parse(text);
    for reply in [&fine, &refused] {
        check_reply(text, parsed.is_ok(), reply);
    }
    let successful = reply_fields(&fine)["successful"].get();
    assert_eq!(successful, command.is_ok().to_string(), "{fine}");
    if let Err(error) = &command {
        assert_is_short(&error.message);
    }
    let Ok(parsed) = parsed else { return };
    check_details(&parsed);
    match command {
        Ok(command) => {
            let again = write(&command);
            assert_eq!(respond_to(&again, Ok(Success::Done)).0.as_ref(), Ok(&command), "{text}");
            if let Command::Publish { channel, data, .. } = &command {
                check_event(channel, data);
            }
        }
        Err(error) => assert!(!error.message.is_empty()),
    }
}

/// Checks that a reply repeats the id and the channel of its message, if they could be parsed.
fn check_reply(text: &str, was_parsed: bool, reply: &str) {
    let reply = reply_fields(reply);
    let sent: BTreeMap<&str, &RawValue> = serde_json::from_str(text).unwrap_or_default();
    let id = sent.get("id").map(|id| id.get()).filter(|id| was_parsed && *id != "null");
    // The server parses keys with escapes, but this model does not.
    if !text.contains('\\') {
        assert_eq!(reply.get("id").map(|id| id.get()), id, "{text}");
    }
    let channel = reply.get("channel").map(|raw| text_of(raw));
    if was_parsed && !text.contains('\\') {
        let sent = text_of(sent["channel"]);
        assert_eq!(channel, Some(sent).filter(|channel| !channel.is_empty()), "{text}");
    }
    match reply.get("error").map(|raw| text_of(raw)) {
        None => assert_eq!(reply["successful"].get(), "true"),
        Some(error) => {
            assert_eq!(reply["successful"].get(), "false");
            let mut parts = error.splitn(3, ':');
            let code = parts.next().unwrap_or_default();
            assert!(code.len() == 3 && code.bytes().all(|byte| byte.is_ascii_digit()), "{error}");
            assert!(parts.count() == 2, "{error}");
        }
    }
}

/// Checks the parts that depend on the kind of message.
fn check_details(message: &ClientMessage<'_>) {
    if let Err(error) = message.client_id() {
        assert_is_short(&error.to_string());
    }
    if let Ok(Some(token)) = message.token() {
        let again = json!({ "channel": "/a", "ext": { "authentication": { "token": token } } }).to_string();
        let again = ClientMessage::parse(&again).and_then(|message| message.token().map(owned));
        assert_eq!(again, Ok(Some(token.into_owned())));
    }
    if let Ok(HandshakeOptions { connection_types, acknowledges }) = message.handshake() {
        let again = json!({
            "channel": "/meta/handshake",
            "version": "1.0",
            "supportedConnectionTypes": connection_types,
            "ext": { "ack": acknowledges },
        });
        let again = again.to_string();
        let again = ClientMessage::parse(&again).expect("it is a message");
        assert_eq!(again.kind(), MessageKind::Handshake);
        assert_eq!(again.handshake(), Ok(HandshakeOptions { connection_types, acknowledges }));
    }
    if let Ok(connect @ ConnectOptions { hold, acknowledged }) = message.connect() {
        let mut again = json!({ "channel": "/meta/connect" });
        if let Some(hold) = hold {
            again["advice"] =
                json!({ "timeout": u64::try_from(hold.as_millis()).expect("it was parsed from a u64") });
        }
        if let Some(acknowledged) = acknowledged {
            again["ext"] = json!({ "ack": acknowledged });
        }
        let again = again.to_string();
        let again = ClientMessage::parse(&again).expect("it is a message");
        assert_eq!((again.kind(), again.connect()), (MessageKind::Connect, Ok(connect)));
    }
}

fn owned(token: Option<std::borrow::Cow<'_, str>>) -> Option<String> {
    token.map(std::borrow::Cow::into_owned)
}

fn write(command: &Command<'_>) -> String {
    let to_channel = |channel: &str, data: &str| format!(r#"{{"channel":{},"data":{data}}}"#, json!(channel));
    match command {
        Command::SubscribeAll { channels } => {
            json!({ "channel": "/meta/subscribe", "subscription": channels }).to_string()
        }
        Command::UnsubscribeAll { channels } => {
            json!({ "channel": "/meta/unsubscribe", "subscription": channels }).to_string()
        }
        Command::Close => json!({ "channel": "/meta/disconnect" }).to_string(),
        Command::Publish { channel, data, key } => {
            assert!(!channel.starts_with("/meta/") && !channel.starts_with("/service/"), "{channel}");
            let mut message = to_channel(channel, data);
            if let Some(key) = key {
                message.pop();
                message.push_str(&format!(r#","ext":{}}}"#, json!({ "encke": { "key": key.as_str() } })));
            }
            message
        }
        Command::Service { channel, data } => {
            assert!(channel.starts_with("/service/"), "{channel}");
            to_channel(channel, data)
        }
        Command::Hold { hold, seq, token } => {
            let timeout = hold.map(|hold| u64::try_from(hold.as_millis()).expect("it was parsed from a u64"));
            let ext = json!({ "ack": seq, "authentication": { "token": token } });
            json!({ "channel": "/meta/connect", "advice": { "timeout": timeout }, "ext": ext }).to_string()
        }
        command => panic!("not in this dialect: {command:?}"),
    }
}

/// Checks that subscribers receive the published data.
fn check_event(channel: &str, data: &str) {
    let Ok(data) = CompactJson::parse(data) else { return };
    // The name of a user can be any text, even that of the channel.
    let user = json!(channel).to_string();
    let encoded = {
        let content = Content { user: Some(channel.into()), ..data.clone().into() };
        EncodedMessage::new(&Message {
            channel,
            epoch: "e",
            offset: 1,
            at_ms: Some(u64::MAX),
            content: &content,
        })
    };
    let stamp = encoded.stamp();
    assert_eq!((stamp.user.map(JsonString::as_json), stamp.at_ms), (Some(&*user), Some(u64::MAX)));
    let mut text = Vec::new();
    write_event(channel, &data, stamp, &mut text);
    let read: Value = serde_json::from_slice(&text).expect("a strict parser accepts the event");
    let expected: Value = serde_json::from_str(data.as_str()).expect("a strict parser accepts the data");
    let ext = json!({ "encke": { "user": channel, "at_ms": u64::MAX } });
    assert_eq!(read, json!({ "channel": channel, "data": expected, "ext": ext }));
    let escapes = json!(channel).to_string().len() - 2 - channel.len();
    assert_eq!(text.len(), event_len(channel, &data, stamp) + escapes);
}

/// Returns the fields of a reply, which is one JSON object.
fn reply_fields(reply: &str) -> BTreeMap<String, &RawValue> {
    serde_json::from_str(reply).unwrap_or_else(|error| panic!("{reply}: {error}"))
}

fn text_of(raw: &RawValue) -> String {
    serde_json::from_str(raw.get()).unwrap_or_else(|error| panic!("{}: {error}", raw.get()))
}

fn assert_is_short(error: &str) {
    assert!(!error.is_empty() && error.chars().count() <= MAX_ERROR_CHARS, "{error}");
}
