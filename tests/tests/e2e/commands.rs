use encke_tests::raw::{CLOSE, TEXT};
use encke_tests::{Client, RawClient, RunningServer};
use serde_json::{Value, json};

const PROTOCOL_ERROR: u16 = 4103;

#[track_caller]
fn assert_refused(client: &mut Client, command: &str, id: Option<u64>, code: &str) {
    let reply = client.request(command);
    assert_eq!(reply["error"]["code"], code, "{command}: {reply}");
    assert!(reply["error"]["message"].as_str().is_some_and(|message| !message.is_empty()), "{reply}");
    assert_eq!(reply.get("id").and_then(Value::as_u64), id, "{command}: {reply}");
    assert!(reply.get("ok").is_none(), "{reply}");
}

#[test]
fn only_commands_with_an_id_are_answered() {
    let server = RunningServer::with(&[]);
    let (mut client, _) = RawClient::greeted(server.public, "");
    client.text(r#"{"ack":{"seq":0}}"#);
    client.text(r#"{"pong":{"seq":0}}"#);
    client.text(r#"{"id":7,"ack":{"seq":0}}"#);
    assert_eq!(client.frame_of(TEXT).payload, br#"{"reply":{"id":7,"ok":{}}}"#);
    client.text(r#"{"pong":{"seq":0},"id":18446744073709551615}"#);
    assert_eq!(client.frame_of(TEXT).payload, br#"{"reply":{"id":18446744073709551615,"ok":{}}}"#);
}

/// A bad command may have any length, and does not end the connection.
#[test]
fn bad_commands_are_refused() {
    let server = RunningServer::with(&[]);
    let mut client = server.client();
    for (command, id, code) in [
        (r#"{"id":3,"dance":{}}"#, Some(3), "unknown_command"),
        (r#"{"dance":{}}"#, None, "unknown_command"),
        ("not JSON", None, "malformed"),
        ("", None, "malformed"),
        (&"[".repeat(10_000), None, "malformed"),
        (r#"{"id":4}"#, None, "malformed"),
        (r#"{"id":5,"ack":{}}"#, Some(5), "malformed"),
        // Neither command is executed: the session is not closed.
        (r#"{"ack":{"seq":0},"close":{}}"#, None, "malformed"),
    ] {
        assert_refused(&mut client, command, id, code);
    }
    // Both are close to the maximum size of a message. Escaping the characters of the second one exceeds it.
    for long in ["a".repeat(65_000), "\u{200b}".repeat(20_000)] {
        let client = &mut client;
        assert_refused(client, &format!(r#"{{"id":1,"ack":{{"seq":"{long}"}}}}"#), Some(1), "malformed");
        assert_refused(client, &format!(r#"{{"id":2,"ack":{{"{long}":0}}}}"#), Some(2), "malformed");
        assert_refused(client, &format!(r#"{{"id":3,"{long}":{{}}}}"#), Some(3), "unknown_command");
    }
    assert_eq!(client.request(r#"{"id":9,"ack":{"seq":0}}"#), json!({"id": 9, "ok": {}}));
    server.await_lifecycle(&client.hello.session, "opened connect");
}

#[test]
fn an_ack_beyond_what_was_sent_ends_the_session() {
    let server = RunningServer::with(&[]);
    let (mut raw, hello) = RawClient::greeted(server.public, "");
    raw.text(r#"{"id":1,"ack":{"seq":1}}"#);
    let close = raw.frame_of(CLOSE);
    assert_eq!(close.payload[..2], PROTOCOL_ERROR.to_be_bytes(), "no reply precedes the close");
    server.await_lifecycle(&hello.session, "opened connect, closed protocol_error");
    assert!(!server.resume(&hello.resume).hello.recovered);
}

#[test]
fn invalid_query_is_refused_with_a_close_code() {
    let server = RunningServer::with(&[]);
    for query in ["heartbeat=x", "heartbeat=", "seq=x", "seq=-1", "seq=18446744073709551616", "resume=a&seq="]
    {
        assert_eq!(Client::refusal_code(server.public, query), PROTOCOL_ERROR, "{query}");
    }
    assert_eq!(server.admin.metrics().events("opened", "connect"), 0.0);
    assert!(!Client::connect(server.public, "_=1&heartbeat=frame&&").hello.recovered);
}
