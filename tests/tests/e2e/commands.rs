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
fn a_command_with_an_id_is_answered() {
    let server = RunningServer::with(&[]);
    let (mut client, _) = RawClient::greeted(server.public, "");
    client.text(r#"{"id":7,"ack":{"seq":0}}"#);
    assert_eq!(client.frame_of(TEXT).payload, br#"{"reply":{"id":7,"ok":{}}}"#);
    client.text(r#"{"pong":{"seq":0},"id":18446744073709551615}"#);
    assert_eq!(client.frame_of(TEXT).payload, br#"{"reply":{"id":18446744073709551615,"ok":{}}}"#);
}

#[test]
fn a_command_without_an_id_is_not_answered() {
    let server = RunningServer::with(&[]);
    let mut client = server.client();
    client.send(r#"{"ack":{"seq":0}}"#);
    client.send(r#"{"pong":{"seq":0}}"#);
    assert_eq!(client.request(r#"{"id":1,"ack":{"seq":0}}"#), json!({"id": 1, "ok": {}}));
}

#[test]
fn bad_commands_are_refused_and_the_connection_stays() {
    let server = RunningServer::with(&[]);
    let mut client = server.client();
    let client = &mut client;
    assert_refused(client, r#"{"id":3,"dance":{}}"#, Some(3), "unknown_command");
    assert_refused(client, r#"{"dance":{}}"#, None, "unknown_command");
    assert_refused(client, "not JSON", None, "malformed");
    assert_refused(client, "", None, "malformed");
    assert_refused(client, "[]", None, "malformed");
    assert_refused(client, "{}", None, "malformed");
    assert_refused(client, r#"{"id":4}"#, None, "malformed");
    assert_refused(client, r#"{"ack":{"seq":0},"pong":{"seq":0}}"#, None, "malformed");
    assert_refused(client, r#"{"id":5,"ack":{}}"#, Some(5), "malformed");
    assert_refused(client, r#"{"id":6,"ack":{"seq":-1}}"#, Some(6), "malformed");
    assert_refused(client, r#"{"id":7,"ack":{"seq":0,"more":1}}"#, Some(7), "malformed");
    assert_refused(client, r#"{"id":8,"close":{"why":1}}"#, Some(8), "malformed");
    assert_refused(client, r#"{"id":"x","ack":{"seq":0}}"#, None, "malformed");
    let deep = "[".repeat(10_000);
    assert_refused(client, &deep, None, "malformed");
    assert_eq!(client.request(r#"{"id":9,"ack":{"seq":0}}"#)["id"], 9);
    server.logs.await_lifecycle(&client.hello.session, &[("opened", "connect")]);
    server.assert_healthy();
}

#[test]
fn a_bad_command_of_any_length_is_refused_and_the_connection_stays() {
    let server = RunningServer::with(&[]);
    let mut client = server.client();
    // Both are close to the maximum size of a message. Escaping the characters of the second one exceeds it.
    for long in ["a".repeat(65_000), "\u{200b}".repeat(20_000)] {
        let client = &mut client;
        assert_refused(client, &format!(r#"{{"id":1,"ack":{{"seq":"{long}"}}}}"#), Some(1), "malformed");
        assert_refused(client, &format!(r#"{{"id":2,"ack":{{"{long}":0}}}}"#), Some(2), "malformed");
        assert_refused(client, &format!(r#"{{"id":3,"{long}":{{}}}}"#), Some(3), "unknown_command");
    }
    assert_eq!(client.request(r#"{"id":9,"ack":{"seq":0}}"#)["id"], 9);
}

#[test]
fn two_commands_in_one_object_are_refused_as_a_whole() {
    let server = RunningServer::with(&[]);
    let mut client = server.client();
    assert_refused(&mut client, r#"{"ack":{"seq":0},"close":{}}"#, None, "malformed");
    assert_eq!(client.request(r#"{"id":1,"ack":{"seq":0}}"#)["id"], 1, "the session is not closed");
}

#[test]
fn an_ack_beyond_what_was_sent_ends_the_session() {
    let server = RunningServer::with(&[]);
    let (mut raw, _) = RawClient::greeted(server.public, "");
    raw.text(r#"{"id":1,"ack":{"seq":1}}"#);
    assert_eq!(raw.frame().first, CLOSE, "no reply precedes the close");

    let mut client = server.client();
    client.send(r#"{"ack":{"seq":1}}"#);
    assert_eq!(client.close_code(), Some(PROTOCOL_ERROR));
    server.await_removal(&client.hello.session);
    server
        .logs
        .await_lifecycle(&client.hello.session, &[("opened", "connect"), ("closed", "protocol_error")]);
    assert!(!server.resume(&client.hello.resume).hello.recovered);
    server.assert_healthy();
}

#[test]
fn invalid_query_is_refused_with_a_close_code() {
    let server = RunningServer::with(&[]);
    for query in ["heartbeat=x", "heartbeat=", "seq=x", "seq=-1", "seq=18446744073709551616", "resume=a&seq="]
    {
        assert_eq!(Client::refusal_code(server.public, query), PROTOCOL_ERROR, "{query}");
    }
    assert_eq!(server.admin.metrics().events("opened", "connect"), 0.0);
    server.assert_healthy();
}

#[test]
fn unknown_query_parameters_are_ignored() {
    let server = RunningServer::with(&[]);
    let client = Client::connect(server.public, "utm_source=x&heartbeat=frame&&=");
    assert!(!client.hello.recovered);
}
