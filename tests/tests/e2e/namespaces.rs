use encke_tests::bayeux::{self, BayeuxPolling, assert_successful, connect_now};
use encke_tests::tokens::{token, unix_ms};
use encke_tests::waiting::until;
use encke_tests::{Client, EventStream, Launch, RunningServer};
use serde_json::{Value, json};

/// Namespaces between two other sections of a configuration file.
const RULES: &str = r#"
[channel]
history_messages = 5

[[namespace]]
prefix = "chat."
history_messages = 3
at_ms = true

[[namespace]]
prefix = "chat.quiet."
history_messages = 2
publish = false
presence = false

[[namespace]]
prefix = "short."
history_age = "200ms"

[[namespace]]
prefix = "/at/"
at_ms = true

[limits]
commands_per_second = 0
"#;

fn server() -> RunningServer {
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    std::fs::write(file.path(), RULES).expect("written");
    Launch::with(&[]).argument("--config").argument(&file.path().display().to_string()).start()
}

#[track_caller]
fn subscribe_with_last(server: &RunningServer, channel: &str) -> Client {
    let mut client = server.client();
    let reply = client.request(json!({"id": 1, "subscribe": {"channel": channel, "last": 1}}));
    assert_eq!(reply["ok"]["channel"], channel, "{reply}");
    client
}

#[test]
fn longest_prefix_determines_the_history() {
    let server = server();
    let kept =
        |channel: &str| server.admin.get(&format!("/api/channels/{channel}")).json()["messages"].clone();
    for (channel, count) in [("chat", 5), ("chat.a", 3), ("chat.quiet", 3), ("chat.quiet.a", 2), ("news", 5)]
    {
        server.admin.publish_each(channel, 1..=10);
        assert_eq!(kept(channel), count, "{channel}");
    }
    let _subscriber = subscribe_with_last(&server, "short.a");
    server.admin.publish("short.a", 1);
    until("the message in the short history has expired", || kept("short.a") == 0);
    assert_eq!(kept("news"), 5);
}

#[test]
fn publishing_and_presence_can_be_forbidden() {
    let server = server();
    let mut client = server.client();
    for (channel, is_allowed) in [("chat.a", true), ("chat.quiet.a", false)] {
        for command in [
            json!({"id": 1, "publish": {"channel": channel, "data": 1}}),
            json!({"id": 1, "presence": {"channel": channel}}),
        ] {
            let reply = client.request(&command);
            let code = if is_allowed { Value::Null } else { json!("forbidden") };
            assert_eq!(reply["error"]["code"], code, "{command}: {reply}");
        }
    }
    // Subscribing and publishing through the admin API are not restricted.
    let mut subscriber = subscribe_with_last(&server, "chat.quiet.a");
    server.admin.publish("chat.quiet.a", 7);
    assert_eq!(subscriber.object()["message"]["data"], 7);
    assert_eq!(server.admin.get("/api/channels/chat.quiet.a/presence").json()["total"], 1);
}

/// The time is added on every transport, in every dialect, and for subscribers of a pattern, which may belong
/// to no namespace.
#[test]
fn at_ms_adds_the_time_of_publication() {
    let server = server();
    let before = unix_ms();
    let mut by_pattern = subscribe_with_last(&server, "/**");
    for channel in ["chat.a", "news", "/at/a", "/else"] {
        server.admin.publish(channel, 1);
    }
    let after = unix_ms();
    let at_ms = |message: &Value| message["at_ms"].as_u64();
    for (channel, has_time) in [("chat.a", true), ("news", false), ("/at/a", true), ("/else", false)] {
        let message = subscribe_with_last(&server, channel).object()["message"].take();
        let is_in_range = at_ms(&message).map(|at| (before..=after).contains(&at));
        assert_eq!(is_in_range, has_time.then_some(true), "{message}");
    }
    let have_times =
        [by_pattern.object(), by_pattern.object()].map(|object| at_ms(&object["message"]).is_some());
    assert_eq!(have_times, [true, false]);
    let (mut polls, reading) = BayeuxPolling::opened(server.public, &["/at/a"]);
    assert_successful(&polls.reply(&bayeux::publish(&reading, "/at/a", 2)));
    let answer = polls.request(&connect_now(&reading));
    let event = answer.iter().find(|message| message["channel"] == "/at/a").expect("the event has arrived");
    assert!(event["ext"]["encke"]["at_ms"].as_u64().is_some_and(|at| at >= after), "{event}");
}

/// The time comes between the user and the data.
#[test]
fn user_precedes_at_ms() {
    let rules = "namespace=[{prefix='chat.', at_ms=true}]";
    let server = RunningServer::with_tokens(&[rules]);
    let query = format!("channels=chat.a&token={}", token("reader", json!({})));
    let (mut stream, _) = EventStream::greeted(server.public, &query);
    server.client_of("alice").publish("chat.a", [1]);
    let event = stream.event();
    assert!(event.contains(r#"{"seq":1,"channel":"chat.a","offset":1,"user":"alice","at_ms":"#), "{event}");
    assert!(event.ends_with(r#","data":1}}"#), "{event}");
}

/// By default, messages have no time, and those of clients without a token no user.
#[test]
fn messages_have_neither_time_nor_user_by_default() {
    let server = RunningServer::with(&[]);
    server.client().publish("chat.a", [1]);
    let mut client = subscribe_with_last(&server, "chat.a");
    assert_eq!(client.object(), json!({"message": {"seq": 1, "channel": "chat.a", "offset": 1, "data": 1}}));
}
