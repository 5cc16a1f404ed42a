use std::fs::OpenOptions;
use std::process::Command;
use std::time::Duration;

use encke_tests::waiting::{eventually_within, until};
use encke_tests::{Client, Launch, RawClient};
use serde_json::Value;

/// Generous time limit: filling the pipe and the queue takes thousands of clients.
const LONG: Duration = Duration::from_secs(60);

#[test]
fn lines_are_json_and_lifecycle_events_name_session_and_reason() {
    let mut server = Launch::with(&["session.reconnect_window=300ms"]).start();
    let suspended = server.suspended_session();
    server.await_removal(&suspended.session);
    let first = server.client();
    let mut second = server.resume(&first.hello.resume);
    second.close();
    server.await_removal(&first.hello.session);
    server.stop();

    server.logs.await_line("stopped");
    for line in server.logs.lines() {
        let record: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
        for field in ["timestamp", "level", "message", "target"] {
            assert!(record[field].is_string(), "{field}: {line}");
        }
        if record["number"].is_u64() {
            assert!(record["session"].as_str().is_some_and(|id| id.starts_with("s_")), "{line}");
            assert!(record["reason"].is_string(), "{line}");
        }
    }
    let numbers: Vec<_> = server
        .logs
        .records()
        .iter()
        .filter(|record| record["session"] == *suspended.session)
        .filter_map(|record| record["number"].as_u64())
        .collect();
    assert_eq!(numbers, [1, 2, 3]);
}

#[test]
fn no_secret_is_ever_logged() {
    let server = Launch::default().environment("RUST_LOG", "trace").start();
    let mut client = server.client();
    client.request(r#"{"id":1,"ack":{"seq":0}}"#);
    let mut second = server.resume(&client.hello.resume);
    let token = client.drop_connection().resume;
    second.send("what is this?");
    second.object();
    server.suspend(second);
    let _third = server.resume(&token);
    let (id, secret) = token.split_once('.').expect("id and secret");
    let wrong = format!("{id}.{}", "B".repeat(secret.len()));
    let _fourth = server.resume(&wrong);
    assert_eq!(Client::refusal_code(server.public, "seq=x"), 4103);
    let (mut invalid, _) = RawClient::greeted(server.public, "");
    invalid.send([0x81, 0]);
    invalid.await_end();
    until("several lines name the session", || server.logs.count(id) >= 3);
    server.terminate();
    server.logs.await_line("draining");
    let text = server.logs.text();
    assert!(text.contains("\"DEBUG\""), "RUST_LOG is respected");
    assert_eq!(text.lines().find(|line| line.contains(secret)), None);
    assert!(!text.contains(&"B".repeat(secret.len())), "wrong secrets are not logged either");
}

#[test]
fn unread_log_does_not_block_the_server() {
    let launch = Launch::with(&["session.reconnect_window=100ms"]).environment("RUST_LOG", "trace");
    let folder = tempfile::tempdir().expect("a temporary directory can be created");
    let pipe = folder.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().is_ok_and(|status| status.success()));
    let _unread = OpenOptions::new().read(true).write(true).open(&pipe).expect("the pipe exists");
    let mut server = launch.run_first(&format!("exec 2>'{}'", pipe.display())).start();
    // Each client causes several lines. Together they exceed the capacity of the pipe and of the writer's
    // queue.
    eventually_within(LONG, "lines are dropped", || {
        let crowd: Vec<_> = (0..100).map(|_| RawClient::greeted(server.public, "").0).collect();
        crowd.into_iter().for_each(RawClient::reset);
        (server.admin.metrics().value("encke_log_lines_dropped_total") > 0.0).then_some(())
    });
    server.assert_healthy();
    server.stop();
}
