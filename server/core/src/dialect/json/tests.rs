use super::*;

#[test]
fn server_messages_are_the_bytes_of_the_contract() {
    let hello = ServerMessage::Hello(Hello {
        version: VERSION,
        session: "s_4fJ".into(),
        resume: "s_4fJ.secret".into(),
        recovered: false,
        seq: 0,
        ping_interval_ms: 25_000,
        pong_timeout_ms: 10_000,
        reconnect_window_ms: 120_000,
    });
    let error = ReplyError { code: ErrorCode::UnknownCommand, message: "no".into() };
    let table = [
        (
            hello,
            r#"{"hello":{"version":1,"session":"s_4fJ","resume":"s_4fJ.secret","recovered":false,"seq":0,"ping_interval_ms":25000,"pong_timeout_ms":10000,"reconnect_window_ms":120000}}"#,
        ),
        (
            ServerMessage::Reply(Reply { id: Some(7), outcome: Outcome::Ok {} }),
            r#"{"reply":{"id":7,"ok":{}}}"#,
        ),
        (
            ServerMessage::Reply(Reply { id: None, outcome: Outcome::Error(error) }),
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
        assert_eq!(read, message);
    }
}

#[test]
fn commands_are_read() {
    let table = [
        (r#"{"ack":{"seq":57}}"#, None, Command::Ack { seq: 57 }),
        (r#"{"id":1,"pong":{"seq":18446744073709551615}}"#, Some(1), Command::Pong { seq: u64::MAX }),
        (r#" { "close" : { } , "id" : 0 } "#, Some(0), Command::Close),
        (r#"{"\u0061ck":{"seq":1}}"#, None, Command::Ack { seq: 1 }),
    ];
    for (text, id, command) in table {
        assert_eq!(parse_command(text), Ok(Request { id, command }), "{text}");
    }
}

#[test]
fn what_is_not_one_command_is_refused_by_name() {
    use ErrorCode::{Malformed, UnknownCommand};
    let table = [
        ("", None, Malformed, "EOF while parsing"),
        ("[]", None, Malformed, "an object with one command"),
        ("{}", None, Malformed, "found none"),
        (r#"{"id":3}"#, None, Malformed, "found none"),
        (r#"{"id":"3","close":{}}"#, None, Malformed, "expected u64"),
        (r#"{"id":-3,"close":{}}"#, None, Malformed, "expected u64"),
        (r#"{"id":1,"id":2,"close":{}}"#, None, Malformed, "duplicate field `id`"),
        (r#"{"id":3,"close":{},"ack":{"seq":1}}"#, None, Malformed, "\"close\" is not alone"),
        (r#"{"close":{},"close":{}}"#, None, Malformed, "\"close\" is not alone"),
        (r#"{"id":3,"ack":{}}"#, Some(3), Malformed, "ack: missing field `seq`"),
        (r#"{"ack":{"seq":1,"x":1},"id":3}"#, Some(3), Malformed, "unknown field `x`"),
        (r#"{"id":3,"close":{"now":true}}"#, Some(3), Malformed, "unknown field `now`"),
        (r#"{"id":3,"close":{}} x"#, None, Malformed, "trailing characters"),
        (r#"{"id":4,"dance":{}}"#, Some(4), UnknownCommand, "unknown command \"dance\""),
    ];
    for (text, id, code, message) in table {
        let error = parse_command(text).expect_err(text);
        assert_eq!((error.id, error.code), (id, code), "{text}");
        assert!(error.to_string().contains(message), "{text}: {error}");
    }
}

#[test]
fn what_a_client_said_is_not_echoed_at_any_length() {
    let long = "\u{200b}".repeat(10_000);
    for text in [
        format!(r#"{{"{long}":1}}"#),
        format!(r#"{{"{long}":1,"close":{{}}}}"#),
        format!(r#"{{"id":"{long}","close":{{}}}}"#),
        format!(r#"{{"ack":{{"seq":"{long}"}}}}"#),
        format!(r#"{{"ack":{{"seq":1,"{long}":1}}}}"#),
    ] {
        let error = parse_command(&text).expect_err("not a command");
        assert!(error.to_string().len() < 1_000, "{} bytes", error.to_string().len());
    }
}

#[test]
fn a_pong_echoes_the_seq_of_its_ping() {
    assert_eq!(pong_seq(&ping_payload(0x0102)), Some(0x0102));
    assert_eq!(ping_payload(1), [0, 0, 0, 0, 0, 0, 0, 1]);
    assert_eq!(pong_seq(b""), None);
    assert_eq!(pong_seq(b"123456789"), None);
}
