//! Fuzzes the `json` dialect. Every accepted command must have the fields that a strict parser finds, and
//! every JSON parser must accept the data that a client publishes.

use encke_core::dialect::json::{ByPattern, EncodedMessage, EncodedPattern, ServerMessage, parse_command};
use encke_core::dialect::{Command, HistoryPage, HistoryRange, Since, StartPosition};
use encke_core::message::{CompactJson, Content, MAX_DEPTH, Message};
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// Checks a text from a client or from a server.
pub(crate) fn run(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let request = parse_command(text);
    match &request.command {
        Ok(command) => {
            if let Ok(sent) = serde_json::from_str::<Value>(text) {
                assert_eq!(request.id, sent["id"].as_u64(), "{text}");
                check_command(command, &sent);
            }
            if let Command::Publish { channel, data, .. } = command {
                check_published(channel, data);
            }
        }
        Err(error) => assert!(!error.message.is_empty() && error.message.chars().count() <= 240, "{error:?}"),
    }
    if let Ok(message) = serde_json::from_str::<ServerMessage<'_>>(text) {
        let again = message.to_json();
        let read: ServerMessage<'_> =
            serde_json::from_str(&again).unwrap_or_else(|error| panic!("{again}: {error}"));
        assert_eq!(read.to_json(), again);
    }
    // Try any JSON text as published data.
    if let Ok(data) = serde_json::from_str::<&RawValue>(text) {
        check_published("news", data.get());
    }
}

/// Checks that a command has the fields that a strict parser finds.
fn check_command(command: &Command<'_>, sent: &Value) {
    let (name, expected) = match command {
        Command::Subscribe { channel, begin: StartPosition::Now } => ("subscribe", json!([channel])),
        Command::Subscribe { channel, begin: StartPosition::After(Since { epoch, offset }) } => {
            ("subscribe", json!([channel, epoch, offset]))
        }
        Command::Subscribe { channel, begin: StartPosition::Newest(count) } => {
            ("subscribe", json!([channel, count]))
        }
        Command::Unsubscribe { channel } => ("unsubscribe", json!([channel])),
        Command::Presence { channel } => ("presence", json!([channel])),
        Command::History { channel, page } => return check_history(channel, page, &sent["history"]),
        Command::Publish { channel, key, .. } => {
            ("publish", json!([channel, key.as_ref().map(|key| key.as_str())]))
        }
        Command::Ack { seq } => ("ack", json!([seq])),
        Command::Pong { seq } => ("pong", json!([seq])),
        Command::Refresh { token } => ("refresh", json!([token])),
        Command::Close => ("close", json!([])),
        other => panic!("not in this dialect: {other:?}"),
    };
    let body = &sent[name];
    // Fields in arrays have no names.
    if body.is_array() || body["since"].is_array() {
        return;
    }
    let fields = [
        &body["channel"],
        &body["since"]["epoch"],
        &body["since"]["offset"],
        &body["last"],
        &body["key"],
        &body["seq"],
        &body["token"],
    ];
    let fields = fields.into_iter().filter(|field| !field.is_null());
    let expected = expected.as_array().into_iter().flatten().filter(|field| !field.is_null());
    assert!(fields.eq(expected), "{command:?}: {sent}");
}

/// Checks that a page of history is the one that a strict parser finds.
fn check_history(channel: &str, page: &HistoryPage<'_>, body: &Value) {
    // Fields in arrays have no names.
    if body.is_array() {
        return;
    }
    let (before, since) = match page.range {
        HistoryRange::Newest => (None, None),
        HistoryRange::Before(offset) => (Some(offset), None),
        HistoryRange::After(offset) => (None, Some(offset)),
    };
    let read = (body["before"].as_u64(), body["since"].as_u64(), body["epoch"].as_str());
    assert_eq!(read, (before, since, page.epoch.as_deref()), "{body}");
    let limit = body["limit"].as_u64().unwrap_or(HistoryPage::DEFAULT_MESSAGES as u64);
    assert_eq!((limit, &body["channel"]), (page.limit as u64, &json!(channel)), "{body}");
    assert!((1..=HistoryPage::MAX_MESSAGES).contains(&page.limit), "{body}");
}

/// Checks that published data is accepted if and only if a strict parser accepts it and it is not nested too
/// deeply.
fn check_published(channel: &str, data: &str) {
    // The `Value` parser of serde_json rejects numbers outside the range of a double, and lone surrogates, as
    // most clients' parsers do.
    let value = serde_json::from_str::<Value>(data).ok().filter(|_| depth(data) <= MAX_DEPTH);
    let compact = match (CompactJson::parse(data), &value) {
        (Ok(compact), Some(_)) => compact,
        (Err(_), None) => return,
        (compact, value) => panic!("{data}: {compact:?}, but {value:?}"),
    };
    assert_eq!(
        serde_json::from_str(compact.as_str()).ok(),
        value,
        "{data}: compacting must only remove white space"
    );
    let again = CompactJson::parse(compact.as_str()).unwrap_or_else(|error| panic!("{data}: {error}"));
    assert_eq!(again.as_str(), compact.as_str(), "compacting must be idempotent");
    assert!(!compact.as_str().contains(['\n', '\r']), "compact JSON must be a single line");
    // The name of a user can be any text, even the data.
    for stamp in
        [(None, None), (Some(channel), Some(0)), (Some(compact.as_str()), None), (None, Some(u64::MAX))]
    {
        check_delivery(stamp, channel, &compact);
    }
}

/// Checks that subscribers receive the published data.
fn check_delivery((user, at_ms): (Option<&str>, Option<u64>), channel: &str, data: &CompactJson<'_>) {
    let (seq, offset) = (u64::MAX, data.as_str().len() as u64);
    let content = Content { user: user.map(Into::into), ..data.clone().into() };
    let encoded =
        EncodedMessage::new(&Message { channel, epoch: user.map(|_| "e"), offset, at_ms, content: &content });
    assert_eq!(encoded.data().as_str(), data.as_str());
    let again = encoded.content();
    assert_eq!((again.user.as_deref(), again.at_ms), (user, at_ms));
    let mut text = Vec::new();
    let pattern = EncodedPattern::new(channel, "p");
    for by in [None, Some(ByPattern { pattern: &pattern, offset: seq, channel_epoch: "e" })] {
        text.clear();
        encoded.write_with(seq, by, &mut text);
        assert_eq!(text.len(), encoded.len_with(seq, by));
        match serde_json::from_slice(&text) {
            Ok(ServerMessage::Message(delivery)) => {
                let read =
                    (delivery.seq, &*delivery.channel, delivery.offset, delivery.data.map(RawValue::get));
                assert_eq!(read, (seq, channel, offset, Some(data.as_str())));
                assert_eq!((delivery.user.as_deref(), delivery.at_ms), (user, at_ms));
                let name = delivery.pattern.as_ref().map(|pattern| &*pattern.name);
                assert_eq!(name, by.map(|_| channel));
            }
            read => panic!("{read:?} of {}", String::from_utf8_lossy(&text)),
        }
    }
}

/// Returns the nesting depth of arrays and objects in a valid JSON text.
fn depth(json: &str) -> usize {
    let (mut depth, mut deepest, mut in_string, mut escaped) = (0, 0, false, false);
    for byte in json.bytes() {
        in_string ^= byte == b'"' && !escaped;
        escaped = byte == b'\\' && in_string && !escaped;
        match byte {
            b'[' | b'{' if !in_string => depth += 1,
            b']' | b'}' if !in_string => depth -= 1,
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    deepest
}
