use std::borrow::Cow;
use std::time::Duration;

use serde_json::value::RawValue;

use super::*;
use crate::close::CloseCode;
use crate::dialect::json::EncodedMessage;
use crate::dialect::{
    Command, CommandError, ErrorCode, HistoryPage, HistoryRange, Member, PublishKey, SharedJson, Since,
    StartPosition, Success, UserPresence,
};
use crate::message::{CompactJson, Content, ContentKind, JsonString, Message, SubscriberInfo};

#[test]
fn server_messages_have_the_specified_bytes() {
    let hello = ServerMessage::Hello(Hello {
        version: VERSION,
        session: "s_4fJ".into(),
        resume: "s_4fJ.secret".into(),
        recovered: false,
        seq: 0,
        ping_interval_ms: 25_000,
        pong_timeout_ms: 10_000,
        reconnect_window_ms: 120_000,
        positions: false,
    });
    let published = Success::Published { offset: 42, epoch: "e".into() };
    let present = Success::Presence {
        channel: "news".into(),
        total: 2,
        members: vec![
            Member { session: Some("s_1".into()), user: Some("alice".into()), phase: "attached" },
            Member { session: None, user: None, phase: "suspended" },
        ],
        users: vec![UserPresence { user: "alice".into(), sessions: 1, connections: 1 }],
        truncated: true,
        incomplete: vec!["n_1".into()],
    };
    let error = CommandError { code: ErrorCode::UnknownCommand, message: "no".into() };
    let table = [
        (
            hello,
            r#"{"hello":{"version":1,"session":"s_4fJ","resume":"s_4fJ.secret","recovered":false,"seq":0,"ping_interval_ms":25000,"pong_timeout_ms":10000,"reconnect_window_ms":120000}}"#,
        ),
        (
            ServerMessage::Reply(Reply { id: Some(7), outcome: ReplyOutcome::Ok(Cow::Owned(Success::Done)) }),
            r#"{"reply":{"id":7,"ok":{}}}"#,
        ),
        (
            ServerMessage::Reply(Reply {
                id: Some(1),
                outcome: ReplyOutcome::Ok(Cow::Owned(subscribed(None))),
            }),
            r#"{"reply":{"id":1,"ok":{"channel":"news","epoch":"e","offset":40}}}"#,
        ),
        (
            ServerMessage::Reply(Reply {
                id: Some(1),
                outcome: ReplyOutcome::Ok(Cow::Owned(subscribed(Some(true)))),
            }),
            r#"{"reply":{"id":1,"ok":{"channel":"news","epoch":"e","offset":40,"recovered":true}}}"#,
        ),
        (
            ServerMessage::Reply(Reply { id: Some(4), outcome: ReplyOutcome::Ok(Cow::Owned(published)) }),
            r#"{"reply":{"id":4,"ok":{"offset":42,"epoch":"e"}}}"#,
        ),
        (
            ServerMessage::Reply(Reply { id: Some(6), outcome: ReplyOutcome::Ok(Cow::Owned(present)) }),
            r#"{"reply":{"id":6,"ok":{"channel":"news","total":2,"present":[{"session":"s_1","user":"alice","phase":"attached"},{"user":null,"phase":"suspended"}],"users":[{"user":"alice","sessions":1,"connections":1}],"truncated":true,"incomplete":["n_1"]}}}"#,
        ),
        (
            ServerMessage::Gap(gap(Some(10), Some(35))),
            r#"{"gap":{"seq":58,"channel":"news","epoch":"e","from":10,"to":35}}"#,
        ),
        (ServerMessage::Gap(gap(None, None)), r#"{"gap":{"seq":58,"channel":"news","epoch":"e"}}"#),
        (
            ServerMessage::Unsubscribed(Unsubscribed { channel: "news".into(), reason: "forbidden".into() }),
            r#"{"unsubscribed":{"channel":"news","reason":"forbidden"}}"#,
        ),
        (
            ServerMessage::Reply(Reply { id: None, outcome: ReplyOutcome::Error(Cow::Owned(error)) }),
            r#"{"reply":{"error":{"code":"unknown_command","message":"no"}}}"#,
        ),
        (
            ServerMessage::Goaway(Goaway { reason: "draining".into(), retry_ms: 5321 }),
            r#"{"goaway":{"reason":"draining","retry_ms":5321}}"#,
        ),
        (ServerMessage::Ping(Ping { seq: 57 }), r#"{"ping":{"seq":57}}"#),
    ];
    for (message, text) in table {
        assert_eq!(message.to_json(), text);
        let read: ServerMessage<'_> =
            serde_json::from_str(text).expect("a client reads what the server writes");
        assert_eq!(read.to_json(), text);
    }
}

fn history(range: HistoryRange, epoch: Option<&str>, limit: usize) -> Command<'_> {
    Command::History {
        channel: "news".into(),
        page: HistoryPage { range, epoch: epoch.map(Into::into), limit },
    }
}

fn subscribed(recovered: Option<bool>) -> Success<'static> {
    Success::Subscribed { channel: "news".into(), epoch: "e".into(), offset: 40, recovered }
}

fn gap(from: Option<u64>, to: Option<u64>) -> Gap<'static> {
    Gap { seq: 58, channel: "news".into(), epoch: "e".into(), from, to }
}

#[derive(Default)]
struct WrittenTexts(Vec<String>);

impl TextSink for WrittenTexts {
    fn text(&mut self, text: &str) {
        self.0.push(text.to_owned());
    }
}

#[test]
fn events_become_the_specified_objects() {
    let table = [
        (
            ServerEvent::Hello {
                session: "s_4fJ".into(),
                resume: "s_4fJ.secret".into(),
                recovered: true,
                seq: 7,
                ping_interval: Duration::from_secs(25),
                pong_timeout: Duration::from_secs(10),
                reconnect_window: Duration::from_secs(120),
                positions: true,
            },
            r#"{"hello":{"version":1,"session":"s_4fJ","resume":"s_4fJ.secret","recovered":true,"seq":7,"ping_interval_ms":25000,"pong_timeout_ms":10000,"reconnect_window_ms":120000,"positions":true}}"#,
        ),
        (
            ServerEvent::Goaway { code: CloseCode::Draining, retry: Duration::from_millis(5321) },
            r#"{"goaway":{"reason":"draining","retry_ms":5321}}"#,
        ),
        (
            ServerEvent::Gap { seq: 58, channel: "news", epoch: "e", range: Some((10, 35)) },
            r#"{"gap":{"seq":58,"channel":"news","epoch":"e","from":10,"to":35}}"#,
        ),
        (
            ServerEvent::Gap { seq: 58, channel: "news", epoch: "e", range: None },
            r#"{"gap":{"seq":58,"channel":"news","epoch":"e"}}"#,
        ),
        (
            ServerEvent::Subscribed { channel: "a \"b\"", epoch: "e", offset: 42 },
            r#"{"subscribed":{"channel":"a \"b\"","epoch":"e","offset":42}}"#,
        ),
        (
            ServerEvent::Unsubscribed { channel: "news", reason: "forbidden" },
            r#"{"unsubscribed":{"channel":"news","reason":"forbidden"}}"#,
        ),
        (ServerEvent::Ping { seq: 57 }, r#"{"ping":{"seq":57}}"#),
    ];
    for (event, text) in table {
        let mut written = WrittenTexts::default();
        Json::default().notify(&event, &mut written);
        assert_eq!(written.0, [text]);
    }
}

#[test]
fn a_hello_is_written_like_serde_does() {
    for text in ["", "s_4fJ-_.x", "\"", "a\\b", "\n", "\u{1f}", "\u{7f}", "ä\u{2028}", "it's"] {
        for (recovered, number) in [(false, 0), (true, u64::MAX)] {
            let hello = Hello {
                version: VERSION,
                session: text.into(),
                resume: format!("{text}.{text}").into(),
                recovered,
                seq: number,
                ping_interval_ms: number,
                pong_timeout_ms: number / 2,
                reconnect_window_ms: number / 3,
                positions: recovered,
            };
            assert_eq!(write::hello(&hello), ServerMessage::Hello(hello).to_json());
        }
    }
}

#[test]
fn errors_and_successes_with_an_id_are_answered() {
    let refused = || Err(CommandError { code: ErrorCode::RateLimited, message: "no".to_owned() });
    let members = vec![Member { session: None, user: None, phase: "suspended" }];
    let users = vec![UserPresence { user: "al\"ice".into(), sessions: 2, connections: 1 }];
    let presence = |members, users, incomplete| Success::Presence {
        channel: "news".into(),
        total: 1,
        members,
        users,
        truncated: false,
        incomplete,
    };
    let subscribed =
        Success::Subscribed { channel: "news".into(), epoch: "e".into(), offset: 40, recovered: Some(true) };
    let own = CommandError { code: ErrorCode::Backend("no_room".into()), message: "no".to_owned() };
    let responses = [
        Response { id: None, result: Ok(Success::Done) },
        Response { id: None, result: refused() },
        Response { id: Some(1), result: refused() },
        Response { id: Some(2), result: Ok(Success::Done) },
        Response { id: Some(3), result: Ok(subscribed) },
        Response { id: Some(4), result: Ok(Success::Published { offset: 42, epoch: "e".into() }) },
        Response { id: Some(5), result: Ok(presence(members, users, Vec::new())) },
        Response {
            id: Some(6),
            result: Ok(Success::Shared(SharedJson::new(&presence(
                Vec::new(),
                Vec::new(),
                vec!["n_1".into()],
            )))),
        },
        Response { id: Some(7), result: Ok(Success::Called { data: r#"{"a":[1e3,"\u00e4"]}"#.into() }) },
        Response { id: Some(8), result: Err(own) },
    ];
    let mut written = WrittenTexts::default();
    Json::default().respond(&responses, &mut written);
    let expected = [
        r#"{"reply":{"error":{"code":"rate_limited","message":"no"}}}"#,
        r#"{"reply":{"id":1,"error":{"code":"rate_limited","message":"no"}}}"#,
        r#"{"reply":{"id":2,"ok":{}}}"#,
        r#"{"reply":{"id":3,"ok":{"channel":"news","epoch":"e","offset":40,"recovered":true}}}"#,
        r#"{"reply":{"id":4,"ok":{"offset":42,"epoch":"e"}}}"#,
        concat!(
            r#"{"reply":{"id":5,"ok":{"channel":"news","total":1,"present":[{"user":null,"phase":"suspended"}],"#,
            r#""users":[{"user":"al\"ice","sessions":2,"connections":1}]}}}"#
        ),
        r#"{"reply":{"id":6,"ok":{"channel":"news","total":1,"present":[],"users":[],"incomplete":["n_1"]}}}"#,
        r#"{"reply":{"id":7,"ok":{"data":{"a":[1e3,"\u00e4"]}}}}"#,
        r#"{"reply":{"id":8,"error":{"code":"no_room","message":"no"}}}"#,
    ];
    assert_eq!(written.0, expected);
}

#[test]
fn a_message_has_the_same_bytes_after_its_seq() {
    let content = CompactJson::parse(r#"{"any":"json"}"#).expect("good JSON").into();
    let message = EncodedMessage::new(&Message {
        channel: "ne\"ws",
        epoch: None,
        offset: 42,
        at_ms: None,
        content: &content,
    });
    assert_eq!(message.data().as_str(), r#"{"any":"json"}"#);
    for (seq, seq_text) in [(0, "0"), (9, "9"), (10, "10"), (u64::MAX, "18446744073709551615")] {
        let mut out = b"before".to_vec();
        message.write_with(seq, None, &mut out);
        let text = format!(
            r#"before{{"message":{{"seq":{seq_text},"channel":"ne\"ws","offset":42,"data":{{"any":"json"}}}}}}"#
        );
        assert_eq!(String::from_utf8(out).as_deref(), Ok(&*text));
        assert_eq!(message.len_with(seq, None), text.len() - "before".len());
        let ServerMessage::Message(read) = serde_json::from_str(&text[6..]).expect("a message") else {
            panic!("not a message: {text}");
        };
        assert_eq!((read.seq, &*read.channel, read.offset), (seq, "ne\"ws", 42));
        assert_eq!(read.data.map(RawValue::get), Some(r#"{"any":"json"}"#));
    }
}

#[test]
fn a_message_names_an_epoch_that_subscribers_may_not_know() {
    let data = CompactJson::parse("1").expect("valid JSON");
    let content = Content { user: Some("ann".into()), ..data.into() };
    let message =
        Message { channel: "a", epoch: Some("e-_1"), offset: 42, at_ms: Some(7), content: &content };
    let message = EncodedMessage::new(&message);
    let mut out = Vec::new();
    message.write_with(57, None, &mut out);
    let text =
        r#"{"message":{"seq":57,"epoch":"e-_1","channel":"a","offset":42,"user":"ann","at_ms":7,"data":1}}"#;
    assert_eq!(std::str::from_utf8(&out), Ok(text));
    assert_eq!(message.len_with(57, None), text.len());
    let stamp = message.stamp();
    assert_eq!((stamp.user.map(JsonString::to_text).as_deref(), stamp.at_ms), (Some("ann"), Some(7)));
    let Ok(ServerMessage::Message(read)) = serde_json::from_str(text) else {
        panic!("not a message: {text}")
    };
    assert_eq!((read.epoch.as_deref(), read.data.map(RawValue::get)), (Some("e-_1"), Some("1")));
}

#[test]
fn a_message_by_a_pattern_has_its_position_in_both_logs() {
    let data = CompactJson::parse("1").expect("valid JSON");
    let content = Content { user: Some("al\"ice".into()), ..data.into() };
    let pattern = EncodedPattern::new(r#"/a"/*"#, "P");
    let by = ByPattern { pattern: &pattern, offset: 107, channel_epoch: "C" };
    let text = concat!(
        r#"{"message":{"seq":57,"pattern":{"name":"/a\"/*","epoch":"P","offset":107},"epoch":"C","#,
        r#""channel":"/a/b","offset":42,"user":"al\"ice","data":1}}"#
    );
    for epoch in [None, Some("C")] {
        let message = Message { channel: "/a/b", epoch, offset: 42, at_ms: None, content: &content };
        let message = EncodedMessage::new(&message);
        let mut out = Vec::new();
        message.write_with(57, Some(by), &mut out);
        assert_eq!(std::str::from_utf8(&out), Ok(text));
        assert_eq!(message.len_with(57, Some(by)), text.len());
    }
    let Ok(ServerMessage::Message(read)) = serde_json::from_str(text) else {
        panic!("not a message: {text}")
    };
    let place = PatternPosition { name: r#"/a"/*"#.into(), epoch: "P".into(), offset: 107 };
    assert_eq!((read.pattern, read.epoch.as_deref(), read.offset), (Some(place), Some("C"), 42));
    assert_eq!(read.user.as_deref(), Some("al\"ice"));
}

/// No user name, channel name or data is mistaken for another field, regardless of its contents.
#[test]
fn the_publishing_user_cannot_be_forged() {
    let names = [
        "alice",
        "\"",
        "\\",
        "\\\"",
        "\u{0}\r\n\u{7f}",
        "\u{2028}\u{2029}",
        "\u{1f980} \u{fffd}",
        r#"a","user":"b"#,
        r#"","data":"#,
        r#"","at_ms":1,"data":"#,
        r#","user":"#,
        r#"}},"data":"#,
    ];
    for (channel, user) in names.iter().flat_map(|channel| names.iter().map(move |user| (channel, user))) {
        let json = serde_json::to_string(&format!(r#"{user},"user":"mallory","data":"#)).expect("text");
        let data = CompactJson::parse(&json).expect("valid JSON");
        for (user, at_ms) in
            [(Some(*user), None), (None, None), (Some(*user), Some(u64::MAX)), (None, Some(0))]
        {
            // `at_ms` comes from the message, not from the content: the server decides whether subscribers
            // receive it.
            let content = Content { user: user.map(Into::into), at_ms: Some(7), ..data.clone().into() };
            let message =
                EncodedMessage::new(&Message { channel, epoch: None, offset: 42, at_ms, content: &content });
            let stamp = message.stamp();
            assert_eq!(
                (stamp.user.map(JsonString::to_text).as_deref(), stamp.at_ms),
                (user, at_ms),
                "{channel}"
            );
            assert_eq!(message.data().as_str(), json);
            let mut out = Vec::new();
            message.write_with(7, None, &mut out);
            assert_eq!(message.len_with(7, None), out.len());
            let text = std::str::from_utf8(&out).expect("valid text");
            assert!(!text.contains(['\n', '\r']), "it fits on one line of a stream: {text}");
            let Ok(ServerMessage::Message(read)) = serde_json::from_str(text) else {
                panic!("not a message: {text}")
            };
            let said = (&*read.channel, read.user.as_deref(), read.at_ms, read.data.map(RawValue::get));
            assert_eq!(said, (*channel, user, at_ms, Some(&*json)));
        }
    }
}

/// Joins and leaves cannot be forged by the names of sessions, users and channels, or by published data.
#[test]
fn joins_and_leaves_cannot_be_forged() {
    let odd = [r#"","joined":"#, r#"}},"left":"#, r#","data":"#, "ann", "\""];
    for (channel, user) in odd.iter().flat_map(|channel| odd.iter().map(move |user| (*channel, *user))) {
        for (kind, user, at_ms) in [
            (ContentKind::Joined, Some(user), None),
            (ContentKind::Joined, None, Some(7)),
            (ContentKind::Left, Some(user), Some(u64::MAX)),
            (ContentKind::Left, None, None),
            (ContentKind::Data, Some(user), Some(7)),
        ] {
            let follower = Content::join_or_leave(kind, "s_1", user);
            // Published data that looks like a join message.
            let content = match kind {
                ContentKind::Data => Content { user: user.map(Into::into), ..follower.data.into() },
                ContentKind::Joined | ContentKind::Left => follower,
            };
            let message = Message { channel, epoch: None, offset: 42, at_ms, content: &content };
            let encodings = EncodedMessage::new(&message);
            assert_eq!((encodings.stamp().kind, encodings.content().kind), (kind, kind));
            assert_eq!(encodings.is_join_or_leave(), kind != ContentKind::Data);
            let encoded = EncodedMessage::new(&message);
            assert_eq!(encoded.data().as_str(), content.data.as_str());
            let mut out = Vec::new();
            encoded.write_with(7, None, &mut out);
            assert_eq!(encoded.len_with(7, None), out.len());
            let text = std::str::from_utf8(&out).expect("valid text");
            let Ok(ServerMessage::Message(read)) = serde_json::from_str(text) else {
                panic!("not a message: {text}")
            };
            let follower = SubscriberInfo { session: "s_1".into(), user: user.map(Into::into) };
            let of = |it| (kind == it).then(|| follower.clone());
            assert_eq!((read.joined, read.left), (of(ContentKind::Joined), of(ContentKind::Left)), "{text}");
            let is_data = kind == ContentKind::Data;
            assert_eq!((read.data.is_some(), read.user.as_deref()), (is_data, user.filter(|_| is_data)));
            assert_eq!((&*read.channel, read.at_ms), (channel, at_ms));
        }
    }
}

#[test]
fn null_is_data() {
    for (text, data) in [
        (r#"{"message":{"seq":1,"channel":"a","offset":1,"data":null}}"#, Some("null")),
        (r#"{"message":{"seq":1,"channel":"a","offset":1,"joined":{"session":"s"}}}"#, None),
    ] {
        let Ok(ServerMessage::Message(read)) = serde_json::from_str(text) else {
            panic!("not a message: {text}")
        };
        assert_eq!(read.data.map(RawValue::get), data);
        assert_eq!(ServerMessage::Message(read).to_json(), text);
    }
}

#[test]
fn commands_are_read() {
    let table = [
        (r#"{"ack":{"seq":57}}"#, None, Command::Ack { seq: 57 }),
        (r#"{"id":1,"pong":{"seq":18446744073709551615}}"#, Some(1), Command::Pong { seq: u64::MAX }),
        (r#" { "close" : { } , "id" : 0 } "#, Some(0), Command::Close),
        (r#"{"\u0061ck":{"seq":1}}"#, None, Command::Ack { seq: 1 }),
        (
            r#"{"id":1,"subscribe":{"channel":"news"}}"#,
            Some(1),
            Command::Subscribe { channel: "news".into(), begin: StartPosition::Now },
        ),
        (
            r#"{"id":1,"subscribe":{"last":20,"channel":"news"}}"#,
            Some(1),
            Command::Subscribe { channel: "news".into(), begin: StartPosition::Newest(20) },
        ),
        (
            r#"{"subscribe":{"channel":"news","last":18446744073709551615,"since":null}}"#,
            None,
            Command::Subscribe { channel: "news".into(), begin: StartPosition::Newest(u64::MAX) },
        ),
        (
            r#"{"id":2,"subscribe":{"channel":"n\u0065ws","since":{"epoch":"e","offset":40}}}"#,
            Some(2),
            Command::Subscribe {
                channel: "news".into(),
                begin: StartPosition::After(Since { epoch: "e".into(), offset: 40 }),
            },
        ),
        (
            r#"{"id":3,"unsubscribe":{"channel":"news"}}"#,
            Some(3),
            Command::Unsubscribe { channel: "news".into() },
        ),
        (
            r#"{"publish":{"data":{ "any" : 1e400 },"channel":"news"}}"#,
            None,
            Command::Publish { channel: "news".into(), data: r#"{ "any" : 1e400 }"#.into(), key: None },
        ),
        (
            r#"{"publish":{"channel":"news","data":1,"key":"\u0061b"}}"#,
            None,
            Command::Publish { channel: "news".into(), data: "1".into(), key: PublishKey::new("ab".into()) },
        ),
        (
            r#"{"publish":{"channel":"","data":null}}"#,
            None,
            Command::Publish { channel: "".into(), data: "null".into(), key: None },
        ),
        (r#"{"presence":{"channel":"news"}}"#, None, Command::Presence { channel: "news".into() }),
        (r#"{"history":{"channel":"news"}}"#, None, history(HistoryRange::Newest, None, 50)),
        (
            r#"{"id":1,"history":{"limit":256,"before":7,"channel":"news","epoch":"e"}}"#,
            Some(1),
            history(HistoryRange::Before(7), Some("e"), 256),
        ),
        (
            r#"{"history":{"channel":"news","since":0,"before":null,"limit":1}}"#,
            None,
            history(HistoryRange::After(0), None, 1),
        ),
        (
            r#"{"id":8,"call":{"method":"a","data":{ "b":1 }}}"#,
            Some(8),
            Command::Call { method: "a".into(), data: r#"{ "b":1 }"#.into() },
        ),
        (r#"{"call":{"method":"a"}}"#, None, Command::Call { method: "a".into(), data: "null".into() }),
        (r#"{"id":5,"refresh":{"token":"a.b.c"}}"#, Some(5), Command::Refresh { token: "a.b.c".into() }),
    ];
    for (text, id, command) in table {
        assert_eq!(parse_command(text), CommandRequest { id, command: Ok(command) }, "{text}");
    }
}

#[test]
fn invalid_commands_are_refused_with_a_reason() {
    use ErrorCode::{Malformed, UnknownCommand};
    let table = [
        ("", None, Malformed, "EOF while parsing"),
        ("[]", None, Malformed, "an object with one command"),
        ("{}", None, Malformed, "found none"),
        (r#"{"id":3}"#, None, Malformed, "found none"),
        (r#"{"id":"3","close":{}}"#, None, Malformed, "expected u64"),
        (r#"{"id":-3,"close":{}}"#, None, Malformed, "expected u64"),
        (r#"{"id":1,"id":2,"close":{}}"#, None, Malformed, "duplicate field `id`"),
        (r#"{"id":3,"close":{},"ack":{"seq":1}}"#, None, Malformed, "\"close\" is not the only one"),
        (r#"{"close":{},"close":{}}"#, None, Malformed, "\"close\" is not the only one"),
        (r#"{"id":3,"ack":{}}"#, Some(3), Malformed, "ack: missing field `seq`"),
        (r#"{"ack":{"seq":1,"x":1},"id":3}"#, Some(3), Malformed, "unknown field `x`"),
        (r#"{"id":3,"close":{"now":true}}"#, Some(3), Malformed, "unknown field `now`"),
        (r#"{"id":3,"close":{}} x"#, None, Malformed, "trailing characters"),
        (r#"{"id":3,"publish":{"channel":"news"}}"#, Some(3), Malformed, "publish: missing field `data`"),
        (r#"{"publish":{"channel":"news","data":1,"key":7}}"#, None, Malformed, "publish: invalid type"),
        (r#"{"publish":{"channel":"news","data":1,"key":""}}"#, None, Malformed, "1 to 64 bytes"),
        (r#"{"id":3,"publish":{"channel":"news","data":}}"#, None, Malformed, "expected value"),
        (r#"{"id":3,"subscribe":{"channel":7}}"#, Some(3), Malformed, "subscribe: invalid type"),
        (r#"{"id":3,"subscribe":{"channel":"a","since":{"offset":1}}}"#, Some(3), Malformed, "field `epoch`"),
        (r#"{"id":3,"call":{"data":1}}"#, Some(3), Malformed, "call: missing field `method`"),
        (r#"{"id":3,"subscribe":{"channel":"a","last":-1}}"#, Some(3), Malformed, "subscribe: invalid value"),
        (
            r#"{"id":3,"subscribe":{"channel":"a","last":1,"since":{"epoch":"e","offset":1}}}"#,
            Some(3),
            Malformed,
            "subscribe: `since` and `last` exclude each other",
        ),
        (
            r#"{"id":3,"history":{"channel":"a","before":1,"since":1}}"#,
            Some(3),
            Malformed,
            "history: `before` and `since` exclude each other",
        ),
        (
            r#"{"id":3,"history":{"channel":"a","limit":0}}"#,
            Some(3),
            Malformed,
            "history: `limit` must be from 1 to 256",
        ),
        (
            r#"{"id":3,"history":{"channel":"a","limit":257}}"#,
            Some(3),
            Malformed,
            "history: `limit` must be from 1 to 256",
        ),
        (r#"{"id":3,"history":{"channel":"a","before":-1}}"#, Some(3), Malformed, "history: invalid value"),
        (r#"{"id":3,"history":{"channel":"a","last":1}}"#, Some(3), Malformed, "history: unknown field"),
        (r#"{"id":4,"dance":{}}"#, Some(4), UnknownCommand, "unknown command \"dance\""),
    ];
    for (text, id, code, message) in table {
        let request = parse_command(text);
        let error = request.command.expect_err(text);
        assert_eq!((request.id, &error.code), (id, &code), "{text}");
        assert!(error.to_string().contains(message), "{text}: {error}");
    }
}

#[test]
fn key_lengths_are_in_bytes() {
    for (key, is_fine) in
        [("\u{e4}".repeat(32), true), ("\u{e4}".repeat(32) + "b", false), ("x".repeat(65), false)]
    {
        let text = format!(r#"{{"publish":{{"channel":"news","data":1,"key":"{key}"}}}}"#);
        assert_eq!(parse_command(&text).command.is_ok(), is_fine, "{text}");
    }
}

#[test]
fn quoted_client_input_is_limited() {
    let long = "\u{200b}".repeat(10_000);
    for text in [
        format!(r#"{{"{long}":1}}"#),
        format!(r#"{{"{long}":1,"close":{{}}}}"#),
        format!(r#"{{"id":"{long}","close":{{}}}}"#),
        format!(r#"{{"ack":{{"seq":"{long}"}}}}"#),
        format!(r#"{{"ack":{{"seq":1,"{long}":1}}}}"#),
    ] {
        let error = parse_command(&text).command.expect_err("not a command");
        assert!(error.to_string().len() < 1_000, "{} bytes", error.to_string().len());
    }
}
