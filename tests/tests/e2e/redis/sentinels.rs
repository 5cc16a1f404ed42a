use encke_tests::redis::Redis;
use encke_tests::sentinels::{MASTER, PASSWORD, Sentinels};
use encke_tests::waiting::until;
use encke_tests::{Client, Launch, RunningServer};
use serde_json::json;

use super::faults::await_published;
use super::nodes::{assert_all_up_to, assert_message, subscribers_with_three_messages};
use super::{keys_of_news, launch};

fn launch_with_sentinels(sentinels: &Sentinels) -> Launch {
    Launch::with(&["engine.kind=redis", &format!("engine.url={}", sentinels.url())])
        .set(&format!("engine.master={MASTER}"))
        .environment("ENCKE_ENGINE__SENTINEL_PASSWORD", PASSWORD)
}

/// Waits until this offset is the newest in this Redis, which may be the master or the replica.
#[track_caller]
fn await_newest(redis: &Redis, offset: u64) {
    let (mut connection, [meta, ..]) = (redis.connect(), keys_of_news());
    until("the newest message is replicated", || {
        redis::cmd("HGET").arg(&[&meta, "offset"]).query(&mut connection) == Ok(Some(offset))
    });
}

#[test]
fn sessions_survive_a_failover() {
    let mut sentinels = Sentinels::start();
    let nodes = [launch_with_sentinels(&sentinels).start(), launch_with_sentinels(&sentinels).start()];
    let (mut subscribers, epochs) = subscribers_with_three_messages(&nodes);
    await_newest(&sentinels.replica, 3);
    sentinels.fail_over();
    let published = await_published(&nodes[1], &json!("after"));
    assert_ne!(published["epoch"], json!(epochs[0]));
    for subscriber in &mut subscribers {
        assert_all_up_to(subscriber, 3, &json!("after"));
    }
    // A disconnected client loses nothing either: the new master has everything that the client received.
    let since = json!({"epoch": epochs[0], "offset": 3});
    let subscribe = json!({"id": 1, "subscribe": {"channel": "news", "since": since}});
    let mut resumed = nodes[0].client();
    let reply = resumed.request(&subscribe.to_string());
    assert_eq!(reply["ok"]["recovered"], true, "{reply}");
    assert_all_up_to(&mut resumed, 3, &json!("after"));
    // The restarted master becomes a replica, which servers do not notice.
    sentinels.master.restart();
    let last = nodes[0].admin.publish("news", "last")["offset"].as_u64().expect("an offset");
    for subscriber in &mut subscribers {
        assert_message(subscriber, last, &json!("last"));
    }
}

#[test]
fn only_clients_that_saw_messages_lost_in_a_failover_get_a_gap() {
    let mut sentinels = Sentinels::start();
    let nodes = [launch_with_sentinels(&sentinels).start(), launch_with_sentinels(&sentinels).start()];
    let mut saw_all = nodes.each_ref().map(RunningServer::client);
    let epochs = saw_all.each_mut().map(|client| client.subscribe("news"));
    let mut left_early = nodes[0].client();
    left_early.subscribe("news");
    for offset in 1..=3 {
        nodes[0].admin.publish("news", offset);
    }
    (1..=3).for_each(|offset| assert_message(&mut left_early, offset, &json!(offset)));
    let hello = left_early.drop_connection();
    nodes[0].await_phase(&hello.session, "suspended");
    await_newest(&sentinels.replica, 3);
    // From now on, the replica receives no messages.
    sentinels.replication_relay.silence_all();
    for offset in 4..=5 {
        nodes[0].admin.publish("news", offset);
    }
    for client in &mut saw_all {
        (1..=5).for_each(|offset| assert_message(client, offset, &json!(offset)));
    }
    sentinels.fail_over();
    let published = await_published(&nodes[1], &json!("after"));
    let offset = published["offset"].as_u64().expect("an offset");
    assert!(offset >= 4 && published["epoch"] != json!(epochs[0]), "{published}");
    for client in &mut saw_all {
        let gap = client.object();
        assert_eq!(gap["gap"]["epoch"], published["epoch"], "{gap}");
        assert_all_up_to(client, 3, &json!("after"));
    }
    // Subscribers are moved to the channel's new epoch one after another.
    until("the suspended session is subscribed to the new epoch as well", || {
        let channel = nodes[0].admin.get("/api/channels/news").json();
        channel["epoch"] == published["epoch"] && channel["subscribers"] == 2
    });
    let mut resumed = Client::connect(nodes[0].public, &format!("resume={}&seq=3", hello.resume));
    assert!(resumed.hello.recovered);
    assert_all_up_to(&mut resumed, 3, &json!("after"));
    // The same holds for clients that give their position in a new session.
    for (offset, recovered) in [(3, true), (5, false)] {
        let since = json!({"epoch": epochs[0], "offset": offset});
        let subscribe = json!({"id": 1, "subscribe": {"channel": "news", "since": since}});
        let reply = nodes[1].client().request(&subscribe.to_string());
        assert_eq!(reply["ok"]["recovered"], recovered, "{reply}");
    }
}

#[test]
fn sentinel_problems_are_logged() {
    let sentinels = Sentinels::start();
    let stranger = launch_with_sentinels(&sentinels).set("engine.master=another").start();
    stranger.logs.await_line("does not know this master");
    let wrong =
        launch_with_sentinels(&sentinels).environment("ENCKE_ENGINE__SENTINEL_PASSWORD", "hunter3").start();
    wrong.logs.await_line("no Sentinel knows the address of the master");
    assert!(!wrong.logs.text().contains("hunter"), "{}", wrong.logs.text());
    // Servers refuse to use a replica.
    let misled = launch(&sentinels.replica).start();
    misled.logs.await_line("Redis is a replica");
    for server in [stranger, wrong, misled] {
        let answer = server.admin.post("/api/publish", r#"{"channel":"news","data":1}"#);
        assert_eq!((answer.status, &*answer.error_code()), (503, "unavailable"), "{answer:?}");
    }
}
