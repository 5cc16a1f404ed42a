use std::time::Duration;

use super::*;
use crate::close::CloseCode;
use crate::dialect::{Command, CommandError, ErrorCode, PublishKey, Success};
use crate::message::{CompactJson, ContentKind, JsonString, Stamp};

fn parsed(text: &str) -> ClientMessage<'_> {
    ClientMessage::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Returns a message on `channel` with additional fields.
fn on(channel: &str, fields: &str) -> String {
    let comma = if fields.is_empty() { "" } else { "," };
    format!(r#"{{"channel":"{channel}"{comma}{fields}}}"#)
}

#[test]
fn a_body_is_one_message_or_an_array_of_them() {
    let table: [(&str, &[&str]); 7] = [
        (r#"{"channel":"/a"}"#, &[r#"{"channel":"/a"}"#]),
        ("\n { } ", &["{ }"]),
        ("[]", &[]),
        (" [ ] ", &[]),
        (r#"[{"a":[1, 2]}, {}]"#, &[r#"{"a":[1, 2]}"#, "{}"]),
        // Elements that are not valid messages are split off as well, since each gets its own reply.
        ("[7,null,[]]", &["7", "null", "[]"]),
        ("7", &["7"]),
    ];
    for (body, expected) in table {
        assert_eq!(split_messages(body).as_deref(), Ok(expected), "{body}");
    }
    for body in ["", " ", "[", "[{}", "[{},]", "{}{}", "[]{}", "nonsense", "\u{feff}{}", "{\"a\":1,}"] {
        let Err(BadBody::NotJson(error)) = split_messages(body) else { panic!("{body:?} was accepted") };
        assert!(!error.is_empty() && error.len() <= 200, "{body:?}: {error}");
    }
}

#[test]
fn a_body_has_a_limited_number_of_messages() {
    let body = |count| format!("[{}]", vec!["{}"; count].join(","));
    assert_eq!(split_messages(&body(MAX_MESSAGES)).map(|texts| texts.len()), Ok(64));
    let error = split_messages(&body(MAX_MESSAGES + 1)).expect_err("one too many");
    assert_eq!(error, BadBody::TooMany(65));
    assert_eq!(error.to_string(), "65 messages in one request, at most 64 are allowed");
}

#[test]
fn the_channel_determines_the_kind_of_message() {
    for (channel, kind) in [
        ("/meta/handshake", MessageKind::Handshake),
        (r"\/meta\/handshake", MessageKind::Handshake),
        ("/meta/connect", MessageKind::Connect),
        ("/meta/subscribe", MessageKind::Command),
        ("/meta/disconnect", MessageKind::Disconnect),
        ("/meta/connect/", MessageKind::Command),
        ("/a", MessageKind::Command),
        ("", MessageKind::Command),
    ] {
        assert_eq!(parsed(&on(channel, "")).kind(), kind, "{channel}");
    }
}

#[test]
fn invalid_messages_are_refused() {
    let long = format!(r#"{{"channel":"/a","id":"{}"}}"#, "x".repeat(255));
    let every_field = r#"["/a","1","c","d","1.0","1.0",[],"/a",{},{}]"#;
    for (text, error) in [
        ("7", "a message must be an object"),
        ("null", "a message must be an object"),
        (r#""/a""#, "a message must be an object"),
        ("[]", "a message must be an object"),
        (every_field, "a message must be an object"),
        ("{}", "channel is missing"),
        (r#"{"channel":null}"#, "channel is missing"),
        (r#"{"channel":7}"#, "channel: invalid type: integer `7`, expected a string at line 1 column 1"),
        (r#"{"channel":"/a","channel":"/b"}"#, "duplicate field `channel` at line 1 column 25"),
        (&*long, "id is longer than 256 bytes"),
    ] {
        let refused = ClientMessage::parse(text).expect_err(text).to_string();
        assert_eq!(refused, error, "{text}");
    }
    let longest = format!(r#"{{"channel":"/a","id":"{}"}}"#, "x".repeat(254));
    assert!(ClientMessage::parse(&longest).is_ok());
    let unknown_fields = r#"{"channel":"/a","jsonp":"f","$x":{"channel":7},"ext":{"x":[1e400]}}"#;
    assert!(ClientMessage::parse(unknown_fields).is_ok());
}

#[test]
fn a_client_id_is_text() {
    for (fields, client_id) in [
        (r#""clientId":"s_4fJ.secret""#, Ok("s_4fJ.secret")),
        (r#""clientId":"\u0073""#, Ok("s")),
        (r#""clientId":"""#, Ok("")),
        ("", Err("clientId is missing")),
        (r#""clientId":null"#, Err("clientId is missing")),
        (r#""clientId":7"#, Err("clientId: invalid type: integer `7`, expected a string at line 1 column 1")),
    ] {
        let text = on("/meta/connect", fields);
        let read = parsed(&text).client_id();
        let read = read.as_deref().map_err(ToString::to_string);
        assert_eq!(read, client_id.map_err(str::to_owned), "{fields}");
    }
}

#[test]
fn a_token_is_in_an_extension() {
    for (fields, token) in [
        ("", Ok(None)),
        (r#""ext":null"#, Ok(None)),
        (r#""ext":{}"#, Ok(None)),
        (r#""ext":{"ack":true}"#, Ok(None)),
        (r#""ext":{"authentication":null}"#, Ok(None)),
        (r#""ext":{"authentication":{"user":"alice"}}"#, Ok(None)),
        (r#""ext":{"authentication":{"token":"a.b.c","user":7}}"#, Ok(Some("a.b.c"))),
        (
            r#""ext":{"authentication":{"token":7}}"#,
            Err("ext: invalid type: integer `7`, expected a string at line 1 column 28"),
        ),
    ] {
        let text = on("/meta/handshake", fields);
        let read = parsed(&text).token().map_err(|error| error.to_string());
        let read = read.as_ref().map(Option::as_deref);
        assert_eq!(read, token.map_err(str::to_owned).as_ref().copied(), "{fields}");
    }
}

const TYPES: &str = r#""supportedConnectionTypes":["long-polling","x"]"#;

#[test]
fn valid_handshakes() {
    for (fields, acknowledges) in [
        (r#""version":"1.0""#, false),
        (r#""version":"2.7""#, false),
        (r#""version":"1.0","minimumVersion":"0.9""#, false),
        (r#""version":"1.0","minimumVersion":"1.0beta""#, false),
        (r#""version":"1.0","minimumVersion":"1.9""#, false),
        (r#""version":"1.0","minimumVersion":"beta""#, false),
        (r#""version":"1.0","ext":{"ack":false}"#, false),
        (r#""version":"1.0","ext":{"ack":true}"#, true),
        (r#""version":"1.0","ext":{"ack":-1}"#, true),
    ] {
        let text = on("/meta/handshake", &format!("{fields},{TYPES}"));
        let connection_types = vec!["long-polling".into(), "x".into()];
        let expected = HandshakeOptions { connection_types, acknowledges };
        assert_eq!(parsed(&text).handshake(), Ok(expected), "{fields}");
    }
}

#[test]
fn invalid_handshakes() {
    for (fields, error) in [
        (TYPES.to_owned(), "version is missing"),
        (format!(r#""version":1.0,{TYPES}"#), "version: invalid type: floating point `1.0`"),
        (r#""version":"1.0""#.to_owned(), "supportedConnectionTypes is missing"),
        (
            r#""version":"1.0","supportedConnectionTypes":"long-polling""#.to_owned(),
            "supportedConnectionTypes: invalid type: string",
        ),
        (
            format!(r#""version":"1.0","minimumVersion":"2.0",{TYPES}"#),
            "the server supports only version 1.0",
        ),
        (format!(r#""version":"1.0","minimumVersion":1,{TYPES}"#), "minimumVersion: invalid type"),
        (format!(r#""version":"1.0","ext":7,{TYPES}"#), "ext: invalid type: integer `7`"),
        (format!(r#""version":"1.0","ext":{{"ack":"yes"}},{TYPES}"#), "ext: data did not match"),
    ] {
        let text = on("/meta/handshake", &fields);
        let refused = parsed(&text).handshake().expect_err(&fields).to_string();
        assert!(refused.starts_with(error), "{fields}: {refused}");
    }
}

#[test]
fn connects_contain_a_hold_time_and_an_acknowledgement() {
    let millis = |millis| Some(Duration::from_millis(millis));
    for (fields, hold, acknowledged) in [
        ("", None, None),
        (r#""connectionType":"long-polling""#, None, None),
        (r#""advice":{}"#, None, None),
        (r#""advice":{"timeout":0}"#, millis(0), None),
        (r#""advice":{"timeout":1500,"interval":7}"#, millis(1_500), None),
        (r#""advice":{"timeout":18446744073709551615}"#, millis(u64::MAX), None),
        (r#""ext":{"ack":true}"#, None, None),
        (r#""ext":{"ack":null}"#, None, None),
        (r#""ext":{"ack":0}"#, None, Some(0)),
        (r#""ext":{"ack":57},"advice":{"timeout":0}"#, millis(0), Some(57)),
        // CometD's client sends -1 before its first connect.
        (r#""ext":{"ack":-1}"#, None, Some(0)),
        (r#""ext":{"ack":18446744073709551615}"#, None, Some(u64::MAX)),
    ] {
        let text = on("/meta/connect", fields);
        assert_eq!(parsed(&text).connect(), Ok(ConnectOptions { hold, acknowledged }), "{fields}");
    }
    for (fields, error) in [
        (r#""advice":7"#, "advice: invalid type: integer `7`"),
        (r#""advice":{"timeout":-1}"#, "advice: invalid value: integer `-1`, expected u64"),
        (r#""advice":{"timeout":"1"}"#, "advice: invalid type: string \"1\", expected u64"),
        (r#""ext":{"ack":"57"}"#, "ext: data did not match"),
        (r#""ext":[]"#, "ext: "),
    ] {
        let text = on("/meta/connect", fields);
        let refused = parsed(&text).connect().expect_err(fields).to_string();
        assert!(refused.starts_with(error), "{fields}: {refused}");
    }
}

#[test]
fn valid_commands() {
    let all = |names: &[&'static str]| names.iter().map(|name| (*name).into()).collect();
    for (channel, fields, command) in [
        ("/meta/subscribe", r#""subscription":"/a""#, Command::SubscribeAll { channels: all(&["/a"]) }),
        (
            "/meta/subscribe",
            r#""subscription":["/a/*","/b/**"]"#,
            Command::SubscribeAll { channels: all(&["/a/*", "/b/**"]) },
        ),
        (
            "/meta/unsubscribe",
            r#""subscription":["/a","/a"]"#,
            Command::UnsubscribeAll { channels: all(&["/a", "/a"]) },
        ),
        ("/meta/disconnect", "", Command::Close),
        (
            "/a",
            r#""data":{"x": [1, 2]}"#,
            Command::Publish { channel: "/a".into(), data: r#"{"x": [1, 2]}"#.into(), key: None },
        ),
        (
            "/a",
            r#""data":"text""#,
            Command::Publish { channel: "/a".into(), data: r#""text""#.into(), key: None },
        ),
        ("/a", r#""data":null"#, Command::Publish { channel: "/a".into(), data: "null".into(), key: None }),
        (
            "/a",
            r#""data":1,"ext":{"ack":true,"encke":{"key":"a key","more":1}}"#,
            Command::Publish { channel: "/a".into(), data: "1".into(), key: PublishKey::new("a key".into()) },
        ),
        (
            "/a",
            r#""data":1,"ext":{"encke":{}}"#,
            Command::Publish { channel: "/a".into(), data: "1".into(), key: None },
        ),
        (
            r"/\u0061/b",
            r#""data":7"#,
            Command::Publish { channel: "/a/b".into(), data: "7".into(), key: None },
        ),
        ("/service/x", r#""data":7"#, Command::Service { channel: "/service/x".into(), data: "7".into() }),
        (
            "/services",
            r#""data":7"#,
            Command::Publish { channel: "/services".into(), data: "7".into(), key: None },
        ),
        ("/metal", r#""data":7"#, Command::Publish { channel: "/metal".into(), data: "7".into(), key: None }),
    ] {
        let text = on(channel, fields);
        assert_eq!(parsed(&text).into_request(true).command, Ok(command), "{channel} {fields}");
    }
}

#[test]
fn invalid_commands() {
    let bad_channel = "a channel name must consist of non-empty segments, each after a slash";
    let long = format!("/meta/{}", "x".repeat(500));
    let too_long = format!("unknown channel /meta/{}", "x".repeat(194));
    for (channel, fields, code, error) in [
        ("/meta/subscribe", "", ErrorCode::Malformed, "subscription is missing"),
        ("/meta/subscribe", r#""subscription":[]"#, ErrorCode::Malformed, "subscription is empty"),
        ("/meta/subscribe", r#""subscription":7"#, ErrorCode::Malformed, "subscription: data did not match"),
        (
            "/meta/subscribe",
            r#""subscription":["/a",7]"#,
            ErrorCode::Malformed,
            "subscription: data did not match",
        ),
        ("/meta/subscribe", r#""subscription":"a""#, ErrorCode::BadChannel, bad_channel),
        ("/meta/subscribe", r#""subscription":["/a","/b/"]"#, ErrorCode::BadChannel, bad_channel),
        ("/meta/unsubscribe", r#""subscription":"/a//b""#, ErrorCode::BadChannel, bad_channel),
        ("/meta/unsubscribe", "", ErrorCode::Malformed, "subscription is missing"),
        ("/meta/publish", r#""data":1"#, ErrorCode::UnknownCommand, "unknown channel /meta/publish"),
        ("/meta/", r#""data":1"#, ErrorCode::UnknownCommand, "unknown channel /meta/"),
        (&long, "", ErrorCode::UnknownCommand, &too_long),
        ("/meta", "", ErrorCode::Malformed, "data is missing"),
        ("/a", "", ErrorCode::Malformed, "data is missing"),
        (
            "/a",
            r#""data":1,"ext":{"encke":{"key":""}}"#,
            ErrorCode::Malformed,
            "ext: a key must have 1 to 64",
        ),
        ("/a", r#""data":1,"ext":{"encke":{"key":7}}"#, ErrorCode::Malformed, "ext: invalid type"),
        ("/service/x", "", ErrorCode::Malformed, "data is missing"),
        ("", r#""data":1"#, ErrorCode::BadChannel, bad_channel),
        ("/", r#""data":1"#, ErrorCode::BadChannel, bad_channel),
        ("a/b", r#""data":1"#, ErrorCode::BadChannel, bad_channel),
    ] {
        let text = on(channel, fields);
        let refused = parsed(&text).into_request(true).command.expect_err(fields);
        assert_eq!(refused.code, code, "{channel} {fields}");
        assert!(refused.message.starts_with(error), "{channel} {fields}: {}", refused.message);
        assert!(refused.message.len() <= 220, "{channel} {fields}: {}", refused.message);
    }
}

#[derive(Default)]
struct WrittenTexts(Vec<String>);

impl TextSink for WrittenTexts {
    fn text(&mut self, text: &str) {
        self.0.push(text.to_owned());
    }
}

/// Returns the dialect's reply to a message whose command has this outcome.
fn answer(text: &str, outcome: Result<Success<'_>, CommandError>) -> String {
    let CommandRequest { id, command } = match ClientMessage::parse(text) {
        Ok(message) => message.into_request(true),
        Err(error) => return error.reply(),
    };
    let mut written = WrittenTexts::default();
    let result = command.and(outcome);
    Bayeux::default().respond(&[Response { id, result }], &mut written);
    let array = written.0.concat();
    array.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).expect("the reply is an array").to_owned()
}

#[test]
fn commands_are_answered_as_specified() {
    let accepted = Ok(Success::Done);
    let refused = |code| Err(CommandError { code, message: "no".to_owned() });
    for (text, outcome, expected) in [
        (
            r#"{"channel":"/a","id":"1","clientId":"c","data":1}"#,
            accepted.clone(),
            r#"{"channel":"/a","id":"1","successful":true}"#,
        ),
        // The id is repeated unmodified.
        (
            r#"{"channel":"/a","id": {"x" : 1e3} ,"data":1}"#,
            accepted.clone(),
            r#"{"channel":"/a","id":{"x" : 1e3},"successful":true}"#,
        ),
        (r#"{"channel":"/a","id":null,"data":1}"#, accepted.clone(), r#"{"channel":"/a","successful":true}"#),
        (
            r#"{"channel":"/a\u2028\"","data":1}"#,
            accepted.clone(),
            "{\"channel\":\"/a\u{2028}\\\"\",\"successful\":true}",
        ),
        (
            r#"{"channel":"/meta/subscribe","id":7,"subscription":["/a", "/b"]}"#,
            accepted.clone(),
            r#"{"channel":"/meta/subscribe","id":7,"subscription":["/a", "/b"],"successful":true}"#,
        ),
        (
            r#"{"channel":"/meta/unsubscribe","subscription":"/a"}"#,
            accepted.clone(),
            r#"{"channel":"/meta/unsubscribe","subscription":"/a","successful":true}"#,
        ),
        (
            r#"{"channel":"/meta/disconnect","id":"9","clientId":"c"}"#,
            accepted.clone(),
            r#"{"channel":"/meta/disconnect","id":"9","successful":true}"#,
        ),
        // Messages of this kind have no subscription, so the field is not repeated.
        (
            r#"{"channel":"/a","subscription":"/b","data":1}"#,
            accepted.clone(),
            r#"{"channel":"/a","successful":true}"#,
        ),
        (
            r#"{"channel":"/a","id":"1","data":1}"#,
            refused(ErrorCode::Forbidden),
            r#"{"channel":"/a","id":"1","successful":false,"error":"403:/a:no"}"#,
        ),
        (
            r#"{"channel":"/meta/subscribe","id":"1","subscription":"/a"}"#,
            refused(ErrorCode::Limit),
            r#"{"channel":"/meta/subscribe","id":"1","subscription":"/a","successful":false,"error":"429::no"}"#,
        ),
        (
            r#"{"channel":"/service/x","id":"1","data":1}"#,
            refused(ErrorCode::UnknownCommand),
            r#"{"channel":"/service/x","id":"1","successful":false,"error":"404:/service/x:no"}"#,
        ),
        (
            r#"{"channel":"/meta/what","id":"1"}"#,
            accepted.clone(),
            r#"{"channel":"/meta/what","id":"1","successful":false,"error":"404::unknown channel /meta/what"}"#,
        ),
        ("7", accepted, r#"{"successful":false,"error":"400::a message must be an object"}"#),
    ] {
        assert_eq!(answer(text, outcome), expected, "{text}");
    }
}

#[test]
fn errors_have_the_specified_codes() {
    for (code, number) in [
        (ErrorCode::Malformed, "400"),
        (ErrorCode::BadChannel, "400"),
        (ErrorCode::Unauthorized, "401"),
        (ErrorCode::Forbidden, "403"),
        (ErrorCode::UnknownCommand, "404"),
        (ErrorCode::Limit, "429"),
        (ErrorCode::RateLimited, "429"),
        (ErrorCode::BackendError, "502"),
        (ErrorCode::Unavailable, "503"),
        (ErrorCode::OutcomeUnknown, "503"),
        (ErrorCode::Overloaded, "503"),
        (ErrorCode::Draining, "503"),
    ] {
        let error = MessageReply::default().failed(&CommandError { code, message: "no".into() }).error;
        assert_eq!(error, Some(format!("{number}::no")));
    }
}

#[test]
fn handshakes_and_connects_are_answered_as_specified() {
    let handshake = r#"{"channel":"/meta/handshake","id":"1"}"#;
    let reply_to = parsed(handshake).reply_to();
    let reply = MessageReply {
        version: Some(VERSION),
        client_id: Some("s_4fJ.secret"),
        supported_connection_types: &["websocket", "long-polling"],
        advice: Some(Advice {
            reconnect: Some(Reconnect::Retry),
            interval: Some(Duration::ZERO),
            timeout: Some(Duration::from_secs(30)),
            max_interval: Some(Duration::from_millis(120_500)),
            multiple_clients: false,
        }),
        ext: Extensions { ack: Some(Ack::Supported(true)), ..Extensions::default() },
        ..reply_to.reply().succeeded()
    };
    assert_eq!(
        reply.to_json(),
        r#"{"channel":"/meta/handshake","id":"1","successful":true,"version":"1.0","clientId":"s_4fJ.secret","supportedConnectionTypes":["websocket","long-polling"],"advice":{"reconnect":"retry","interval":0,"timeout":30000,"maxInterval":120500},"ext":{"ack":true}}"#
    );
    let connect = r#"{"channel":"/meta/connect","id":"2"}"#;
    let reply_to = parsed(connect).reply_to();
    let (nothing, mut missed) = (MissedEvents::default(), MissedEvents::default());
    missed.record(&gap("/a", "e", Some((1, 2))));
    let with =
        |ack, missed| MessageReply { ext: Extensions { ack, encke: missed }, ..reply_to.reply().succeeded() };
    let before = r#"{"channel":"/meta/connect","id":"2","successful":true"#;
    assert_eq!(with(None, Some(&nothing)).to_json(), format!("{before}}}"));
    let up_to = Some(Ack::UpTo(57));
    assert_eq!(with(up_to, Some(&nothing)).to_json(), format!(r#"{before},"ext":{{"ack":57}}}}"#));
    let gaps = r#""encke":{"gaps":[{"channel":"/a","epoch":"e","from":1,"to":2}]}"#;
    assert_eq!(with(None, Some(&missed)).to_json(), format!(r#"{before},"ext":{{{gaps}}}}}"#));
    assert_eq!(with(up_to, Some(&missed)).to_json(), format!(r#"{before},"ext":{{"ack":57,{gaps}}}}}"#));
}

#[test]
fn advice_omits_unset_fields() {
    let second = Duration::from_secs(1);
    for (advice, json) in [
        (Advice::default(), "{}"),
        (Advice::none(), r#"{"reconnect":"none"}"#),
        (Advice::pause(Duration::ZERO), r#"{"reconnect":"retry","interval":0}"#),
        (Advice::pause(second), r#"{"reconnect":"retry","interval":1000}"#),
        (Advice::handshake(second), r#"{"reconnect":"handshake","interval":1000}"#),
        (
            Advice { multiple_clients: true, ..Advice::pause(2 * second) },
            r#"{"reconnect":"retry","interval":2000,"multiple-clients":true}"#,
        ),
        (
            Advice { interval: Some(Duration::MAX), ..Advice::default() },
            r#"{"interval":18446744073709551615}"#,
        ),
    ] {
        assert_eq!(serde_json::to_string(&advice).expect("serializing our own types cannot fail"), json);
    }
}

fn gap<'a>(channel: &'a str, epoch: &'a str, range: Option<(u64, u64)>) -> ServerEvent<'a> {
    ServerEvent::Gap { seq: 7, channel, epoch, range }
}

#[test]
fn gaps_of_a_channel_are_merged() {
    let table: [(&[ServerEvent<'_>], &str); 9] = [
        (&[gap("/a", "e", Some((1, 2)))], r#"[{"channel":"/a","epoch":"e","from":1,"to":2}]"#),
        (&[gap("/a", "e", None)], r#"[{"channel":"/a","epoch":"e"}]"#),
        (
            &[gap("/a", "e", Some((1, 2))), gap("/a", "e", Some((5, 9)))],
            r#"[{"channel":"/a","epoch":"e","from":1,"to":9}]"#,
        ),
        (
            &[gap("/a", "e", Some((5, 9))), gap("/a", "e", Some((1, 6)))],
            r#"[{"channel":"/a","epoch":"e","from":1,"to":9}]"#,
        ),
        (
            &[gap("/a", "e", Some((5, 9))), gap("/a", "e", Some((6, 7)))],
            r#"[{"channel":"/a","epoch":"e","from":5,"to":9}]"#,
        ),
        // If the length of one gap is unknown, the length of the merged gap is unknown, too.
        (&[gap("/a", "e", Some((5, 9))), gap("/a", "e", None)], r#"[{"channel":"/a","epoch":"e"}]"#),
        (&[gap("/a", "e", None), gap("/a", "e", Some((5, 9)))], r#"[{"channel":"/a","epoch":"e"}]"#),
        // A new epoch of the channel.
        (
            &[gap("/a", "e", Some((5, 9))), gap("/a", "f", Some((1, 2)))],
            r#"[{"channel":"/a","epoch":"f","from":1,"to":2}]"#,
        ),
        (
            &[gap("/a", "e", Some((5, 9))), gap("/b", "e", Some((1, 2)))],
            r#"[{"channel":"/a","epoch":"e","from":5,"to":9},{"channel":"/b","epoch":"e","from":1,"to":2}]"#,
        ),
    ];
    for (events, gaps) in table {
        let mut missed = MissedEvents::default();
        events.iter().for_each(|event| missed.record(event));
        assert!(!missed.is_empty());
        let json = serde_json::to_string(&missed).expect("serializing our own types cannot fail");
        assert_eq!(json, format!(r#"{{"gaps":{gaps}}}"#), "{events:?}");
    }
}

#[test]
fn each_ended_subscription_is_reported_once() {
    let mut missed = MissedEvents::default();
    let lost = |channel, reason| ServerEvent::Unsubscribed { channel, reason };
    missed.record(&ServerEvent::Goaway { code: CloseCode::Kicked, retry: Duration::ZERO });
    assert!(missed.is_empty(), "a close is reported in replies");
    missed.record(&lost("/a", "limit"));
    missed.record(&lost("/b", "forbidden"));
    missed.record(&lost("/a", "forbidden"));
    missed.record(&gap("/c", "e", Some((1, 2))));
    let json = serde_json::to_string(&missed).expect("serializing our own types cannot fail");
    let unsubscribed =
        r#""unsubscribed":[{"channel":"/b","reason":"forbidden"},{"channel":"/a","reason":"forbidden"}]"#;
    let gaps = r#""gaps":[{"channel":"/c","epoch":"e","from":1,"to":2}]"#;
    assert_eq!(json, format!("{{{gaps},{unsubscribed}}}"));
    missed.discard_resendable();
    assert_eq!(
        serde_json::to_string(&missed).expect("serializing our own types cannot fail"),
        format!("{{{unsubscribed}}}")
    );
}

#[test]
fn events_are_kept_for_the_next_reply() {
    let (mut dialect, mut written) = (Bayeux::default(), WrittenTexts::default());
    dialect.notify(&gap("/a", "e", None), &mut written);
    assert!(written.0.is_empty() && !dialect.missed.is_empty());
}

#[test]
fn events_have_a_channel_and_data() {
    let user = Some(JsonString::from_encoded(r#""al\"ice""#));
    let anonymous = Stamp::default();
    for (channel, data, stamp, json) in [
        ("/a", "1", anonymous, r#"{"channel":"/a","data":1}"#),
        ("/a", r#"{ "x" : " " }"#, anonymous, r#"{"channel":"/a","data":{"x":" "}}"#),
        ("news", "null", anonymous, r#"{"channel":"news","data":null}"#),
        ("/\"\\\u{1}é", "[]", anonymous, "{\"channel\":\"/\\\"\\\\\\u0001é\",\"data\":[]}"),
        (
            "/a",
            "1",
            Stamp { user, ..anonymous },
            r#"{"channel":"/a","data":1,"ext":{"encke":{"user":"al\"ice"}}}"#,
        ),
        (
            "/a",
            "1",
            Stamp { user, at_ms: Some(u64::MAX), ..anonymous },
            r#"{"channel":"/a","data":1,"ext":{"encke":{"user":"al\"ice","at_ms":18446744073709551615}}}"#,
        ),
        (
            "/a",
            "1",
            Stamp { at_ms: Some(7), ..anonymous },
            r#"{"channel":"/a","data":1,"ext":{"encke":{"at_ms":7}}}"#,
        ),
        (
            "/a",
            r#"{"session":"s"}"#,
            Stamp { kind: ContentKind::Joined, ..anonymous },
            r#"{"channel":"/a","data":{},"ext":{"encke":{"joined":{"session":"s"}}}}"#,
        ),
        (
            "/a",
            r#"{"session":"s","user":"ann"}"#,
            Stamp { kind: ContentKind::Left, at_ms: Some(7), user: None },
            r#"{"channel":"/a","data":{},"ext":{"encke":{"at_ms":7,"left":{"session":"s","user":"ann"}}}}"#,
        ),
    ] {
        let data = CompactJson::parse(data).expect("valid JSON");
        let mut out = b"before".to_vec();
        write_event(channel, &data, stamp, &mut out);
        assert_eq!(String::from_utf8(out).as_deref(), Ok(&*format!("before{json}")));
        let escapes = json.len().saturating_sub(event_len(channel, &data, stamp));
        assert_eq!(escapes > 0, channel.contains('\\'), "{json}");
    }
}
