use std::time::{Duration, SystemTime, UNIX_EPOCH};

use encke_tests::bayeux::{self, BayeuxPolling, assert_successful, connect_now};
use encke_tests::waiting::until;
use encke_tests::{Client, EventStream, Launch, RunningServer};
use serde_json::{Value, json};

/// As in a file, with a section before it and one after.
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

fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is after 1970");
    u64::try_from(since.as_millis()).expect("it is before long")
}

/// The number of messages that a channel still has after ten.
#[track_caller]
fn kept_of_ten(server: &RunningServer, channel: &str) -> u64 {
    (1..=10).for_each(|number| _ = server.admin.publish(channel, number));
    let shown = server.admin.get(&format!("/api/channels/{}", channel.replace('/', "%2F"))).json();
    shown["messages"].as_u64().unwrap_or_else(|| panic!("{shown}"))
}

#[track_caller]
fn ask_last(server: &RunningServer, channel: &str) -> Client {
    let mut client = server.client();
    let reply = client.request(&json!({"id": 1, "subscribe": {"channel": channel, "last": 1}}).to_string());
    assert_eq!(reply["ok"]["channel"], channel, "{reply}");
    client
}

#[test]
fn the_longest_prefix_says_how_much_is_kept() {
    let server = server();
    for (channel, kept) in [("chat", 5), ("chat.a", 3), ("chat.quiet", 3), ("chat.quiet.a", 2), ("news", 5)] {
        assert_eq!(kept_of_ten(&server, channel), kept, "{channel}");
    }
}

#[test]
fn an_age_is_its_own() {
    let rules = "namespace=[{prefix='short.', history_age='200ms'}]";
    let server = RunningServer::with(&[rules, "channel.history_age=off"]);
    let followers = ["short.a", "long.a"].map(|channel| ask_last(&server, channel));
    for channel in ["short.a", "long.a"] {
        server.admin.publish(channel, 1);
    }
    let kept =
        |channel: &str| server.admin.get(&format!("/api/channels/{channel}")).json()["messages"].clone();
    until("the short one is gone", || kept("short.a") == 0);
    assert_eq!(kept("long.a"), 1);
    drop(followers);
}

#[test]
fn clients_may_be_kept_from_publishing_and_from_asking_who_is_there() {
    let server = server();
    let mut client = server.client();
    for (channel, is_allowed) in [("chat.a", true), ("chat.quiet.a", false)] {
        for command in [
            json!({"id": 1, "publish": {"channel": channel, "data": 1}}),
            json!({"id": 1, "presence": {"channel": channel}}),
        ] {
            let reply = client.request(&command.to_string());
            let code = if is_allowed { Value::Null } else { json!("forbidden") };
            assert_eq!(reply["error"]["code"], code, "{command}: {reply}");
        }
    }
    // To follow it, and the admin API, are not concerned.
    let mut follower = ask_last(&server, "chat.quiet.a");
    server.admin.publish("chat.quiet.a", 7);
    assert_eq!(follower.object()["message"]["data"], 7);
    assert_eq!(server.admin.get("/api/channels/chat.quiet.a/presence").json()["total"], 1);
}

/// Whatever the transport and the dialect, and also by a pattern, which may be in no namespace.
#[test]
fn messages_say_when_they_were_published_where_that_is_asked_for() {
    let server = server();
    let before = unix_ms();
    let mut by_pattern = ask_last(&server, "/**");
    for channel in ["chat.a", "news", "/at/a", "/else"] {
        server.admin.publish(channel, 1);
    }
    let after = unix_ms();
    let at_ms = |message: &Value| message["at_ms"].as_u64();
    for (channel, is_told) in [("chat.a", true), ("news", false), ("/at/a", true), ("/else", false)] {
        let message = ask_last(&server, channel).object()["message"].take();
        assert_eq!(
            at_ms(&message).map(|at| (before..=after).contains(&at)),
            is_told.then_some(true),
            "{message}"
        );
    }
    let told = [by_pattern.object(), by_pattern.object()].map(|object| at_ms(&object["message"]).is_some());
    assert_eq!(told, [true, false]);
    let mut stream = EventStream::open(server.public, "channels=chat.a&last=1");
    stream.hello();
    let (_, text) = stream
        .event()
        .split_once("\ndata: ")
        .map(|(id, data)| (id.to_owned(), data.to_owned()))
        .expect("data");
    let message = serde_json::from_str::<Value>(&text).expect("JSON")["message"].take();
    let at = at_ms(&message).expect("it says so");
    let expected =
        format!(r#"{{"message":{{"seq":1,"channel":"chat.a","offset":1,"at_ms":{at},"data":1}}}}"#);
    assert_eq!(text, expected);
    let mut polls = BayeuxPolling::connect(server.public);
    let reading = polls.open(&["/at/a"]);
    assert_successful(&polls.reply(&bayeux::publish(&reading, "/at/a", 2)));
    let answer = polls.request(&connect_now(&reading));
    let event = answer.iter().find(|message| message["channel"] == "/at/a").expect("it has come");
    assert!(event["ext"]["encke"]["at_ms"].as_u64().is_some_and(|at| at >= after), "{event}");
}

#[test]
fn who_has_published_stands_before_when() {
    use encke_tests::tokens::{SECRET, sign};
    let rules = "namespace=[{prefix='chat.', at_ms=true}]";
    let server = RunningServer::with(&[rules, &format!("auth.secret={SECRET}")]);
    let token = sign(&json!({"sub": "alice", "channels": {"*": ["subscribe", "publish"]}}), SECRET);
    let query = format!("channels=chat.a&token={token}");
    let mut stream = EventStream::open(server.public, &query);
    stream.hello();
    Client::connect(server.public, &format!("token={token}")).publish("chat.a", [1]);
    let event = stream.event();
    assert!(event.contains(r#""offset":1,"user":"alice","at_ms":"#), "{event}");
    assert!(event.ends_with(r#","data":1}}"#), "{event}");
}

/// A message stays as it was published.
#[test]
fn the_default_says_nothing_of_time() {
    let server = RunningServer::with(&[]);
    server.admin.publish("chat.a", 1);
    let mut client = ask_last(&server, "chat.a");
    assert_eq!(client.object(), json!({"message": {"seq": 1, "channel": "chat.a", "offset": 1, "data": 1}}));
    assert_eq!(client.next_within(Duration::from_millis(50)), None);
}
