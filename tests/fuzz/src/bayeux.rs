//! Fuzzes Bayeux request bodies. Every message must get a JSON reply that repeats its id, and every accepted
//! command must have the fields that a strict parser finds.

use std::collections::BTreeMap;

use encke_core::dialect::bayeux::{
    BadBody, Bayeux, ClientMessage, MAX_MESSAGES, event_len, split_messages, write_event,
};
use encke_core::dialect::json::EncodedMessage;
use encke_core::dialect::{
    Command, CommandError, CommandRequest, Dialect, ErrorCode, Response, Success, TextSink,
};
use encke_core::message::{CompactJson, Content, JsonString, Message};
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// Maximum length of an error message. Error messages quote only part of the client's input.
const MAX_ERROR_CHARS: usize = 240;

/// Checks the body of a request.
pub(crate) fn run(input: &[u8]) {
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
    let _ = respond_to(body, Ok(Success::Done));
}

/// Returns whether the messages of a body should be accepted.
fn should_be_accepted(body: &str) -> bool {
    let Ok(value) = serde_json::from_str::<&RawValue>(body) else { return false };
    serde_json::from_str::<Vec<&RawValue>>(value.get())
        .map_or(true, |messages| messages.len() <= MAX_MESSAGES)
}

/// Fields of a JSON object. Unlike a [`Value`], a field may be nested to any depth.
type Fields = BTreeMap<String, Box<RawValue>>;

/// Collects the texts that the dialect writes.
#[derive(Default)]
struct TextCollector(String);

impl TextSink for TextCollector {
    fn text(&mut self, text: &str) {
        self.0.push_str(text);
    }
}

/// Parses a message. Returns its command, and the reply to be sent if executing the command has this outcome.
fn respond_to<'a>(
    text: &'a str,
    outcome: Result<Success<'_>, CommandError>,
) -> (Result<Command<'a>, CommandError>, Fields) {
    let (command, reply) = match ClientMessage::parse(text) {
        Ok(message) => {
            let CommandRequest { id, command } = message.into_request(true);
            let (result, mut written) = (command.clone().and(outcome), TextCollector::default());
            Bayeux::default().respond(&[Response { id, result }], &mut written);
            let reply = written.0.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
            (command, reply.unwrap_or_else(|| panic!("not an array: {}", written.0)).to_owned())
        }
        Err(error) => {
            let reply = error.reply();
            (Err(error.into()), reply)
        }
    };
    (command, serde_json::from_str(&reply).unwrap_or_else(|error| panic!("{reply}: {error}")))
}

/// Checks one message of a body.
fn check_message(text: &str) {
    let refusal = CommandError { code: ErrorCode::Forbidden, message: "\"\\\n\u{2028}:".into() };
    let (command, fine) = respond_to(text, Ok(Success::Done));
    let (_, refused) = respond_to(text, Err(refusal));
    assert_eq!(fine["successful"].get(), command.is_ok().to_string(), "{text}");
    let parsed = ClientMessage::parse(text);
    for reply in [&fine, &refused] {
        check_reply(text, parsed.is_ok(), reply);
    }
    if let Ok(message) = parsed {
        drop(message.client_id().map_err(|error| assert_is_short(&error.to_string())));
        drop((message.token(), message.handshake(), message.connect()));
    }
    match command {
        Ok(command) => check_command(&command, &serde_json::from_str(text).unwrap_or_default()),
        Err(error) => assert_is_short(&error.message),
    }
}

/// Checks that a reply repeats the id and the channel of its message, and has a code if it is an error.
fn check_reply(text: &str, was_parsed: bool, reply: &Fields) {
    if was_parsed && let Ok(sent) = serde_json::from_str::<Fields>(text) {
        let id = sent.get("id").map(|id| id.get()).filter(|id| *id != "null");
        assert_eq!(reply.get("id").map(|id| id.get()), id, "{text}");
        let channel = Some(value_of(sent["channel"].get())).filter(|channel| channel != "");
        assert_eq!(reply.get("channel").map(|channel| value_of(channel.get())), channel, "{text}");
    }
    let error = reply.get("error").map(|error| value_of(error.get()));
    assert_eq!(reply["successful"].get(), error.is_none().to_string(), "{reply:?}");
    if let Some(error) = error {
        let parts: Vec<_> = error.as_str().unwrap_or_default().splitn(3, ':').collect();
        let is_code = parts[0].len() == 3 && parts[0].bytes().all(|byte| byte.is_ascii_digit());
        assert!(is_code && parts.len() == 3, "{error}");
    }
}

/// Checks that a command has the fields of its message. Skips messages that a strict parser rejects, and
/// those whose fields are in arrays.
fn check_command(command: &Command<'_>, sent: &Value) {
    if !sent.is_object() || sent["ext"].is_array() || sent["ext"]["encke"].is_array() {
        return;
    }
    match command {
        Command::SubscribeAll { channels } | Command::UnsubscribeAll { channels } => {
            let subscription = &sent["subscription"];
            let all = if subscription.is_string() { json!([subscription]) } else { subscription.clone() };
            assert_eq!(json!(channels), all);
        }
        Command::Publish { channel, data, key } => {
            assert!(!channel.starts_with("/meta/") && !channel.starts_with("/service/"), "{channel}");
            let key = key.as_ref().map(|key| key.as_str());
            assert_eq!(sent["ext"]["encke"]["key"].as_str(), key, "{sent}");
            assert_eq!((&json!(channel), &value_of(data)), (&sent["channel"], &sent["data"]));
            check_event(channel, data);
        }
        Command::Service { channel, data } => {
            assert!(channel.starts_with("/service/"), "{channel}");
            assert_eq!((&json!(channel), &value_of(data)), (&sent["channel"], &sent["data"]));
        }
        Command::Hold { .. } => assert_eq!(sent["channel"], "/meta/connect"),
        Command::Close => assert_eq!(sent["channel"], "/meta/disconnect"),
        command => panic!("not in this dialect: {command:?}"),
    }
}

/// Checks that subscribers receive the published data.
fn check_event(channel: &str, data: &str) {
    let Ok(data) = CompactJson::parse(data) else { return };
    // The name of a user can be any text, even that of the channel.
    let user = json!(channel).to_string();
    let content = Content { user: Some(channel.into()), ..data.clone().into() };
    let (at_ms, content) = (Some(u64::MAX), &content);
    let encoded = EncodedMessage::new(&Message { channel, epoch: None, offset: 1, at_ms, content });
    let stamp = encoded.stamp();
    assert_eq!((stamp.user.map(JsonString::as_json), stamp.at_ms), (Some(&*user), at_ms));
    let mut text = Vec::new();
    write_event(channel, &data, stamp, &mut text);
    let read: Value = serde_json::from_slice(&text).expect("a strict parser accepts the event");
    let ext = json!({ "encke": { "user": channel, "at_ms": at_ms } });
    assert_eq!(read, json!({ "channel": channel, "data": value_of(data.as_str()), "ext": ext }));
    let escapes = user.len() - 2 - channel.len();
    assert_eq!(text.len(), event_len(channel, &data, stamp) + escapes);
}

fn value_of(json: &str) -> Value {
    serde_json::from_str(json).unwrap_or_else(|error| panic!("{json}: {error}"))
}

fn assert_is_short(error: &str) {
    assert!(!error.is_empty() && error.chars().count() <= MAX_ERROR_CHARS, "{error}");
}
