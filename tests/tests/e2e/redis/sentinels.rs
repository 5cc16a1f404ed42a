use encke_tests::redis::Redis;
use encke_tests::waiting::until;
use encke_tests::{Client, Launch, RunningServer};
use serde_json::json;

use super::replicated::{MASTER, PASSWORD, Sentinels};
use super::{
    assert_all_up_to, assert_gap, assert_message, assert_numbers, assert_unavailable, await_published,
    keys_of_news, launch, launch_at, subscribe_since,
};

fn launch_with_sentinels(sentinels: &Sentinels) -> Launch {
    launch_at(sentinels.url())
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
fn sentinel_problems_are_logged_and_failovers_survived() {
    let mut sentinels = Sentinels::start();
    let stranger = launch_with_sentinels(&sentinels).set("engine.master=another").start();
    stranger.logs.await_line("does not know this master");
    let wrong = launch_with_sentinels(&sentinels);
    let wrong = wrong.environment("ENCKE_ENGINE__SENTINEL_PASSWORD", "hunter3").start();
    wrong.logs.await_line("no Sentinel knows the address of the master");
    assert!(!wrong.logs.text().contains("hunter"), "{}", wrong.logs.text());
    // Servers refuse to use a replica.
    let misled = launch(&sentinels.replica).start();
    misled.logs.await_line("Redis is a replica");
    [stranger, wrong, misled].iter().for_each(assert_unavailable);

    // Only clients that saw messages lost in a failover get a gap.
    let nodes = [launch_with_sentinels(&sentinels).start(), launch_with_sentinels(&sentinels).start()];
    let mut saw_all = nodes.each_ref().map(RunningServer::client);
    let [epoch, _] = saw_all.each_mut().map(|client| client.subscribe("news"));
    let mut left_early = nodes[0].client();
    left_early.subscribe("news");
    nodes[0].admin.publish_each("news", 1..=3);
    assert_numbers(&mut left_early, 1..=3);
    let hello = nodes[0].suspend(left_early);
    await_newest(&sentinels.replica, 3);
    // From now on, the replica receives no messages.
    sentinels.replication_relay.silence_all();
    nodes[0].admin.publish_each("news", 4..=5);
    saw_all.iter_mut().for_each(|client| assert_numbers(client, 1..=5));
    sentinels.fail_over();
    let published = await_published(&nodes[1], "news", "after");
    let offset = published["offset"].as_u64().expect("an offset");
    assert!(offset >= 4 && published["epoch"] != json!(epoch), "{published}");
    for client in &mut saw_all {
        assert_eq!(assert_gap(client, "news"), published["epoch"]);
        assert_all_up_to(client, 3, "after");
    }
    // Subscribers are moved to the channel's new epoch one after another.
    until("the suspended session is subscribed to the new epoch as well", || {
        let channel = nodes[0].admin.get("/api/channels/news").json();
        channel["epoch"] == published["epoch"] && channel["subscribers"] == 2
    });
    let mut resumed = Client::connect(nodes[0].public, &format!("resume={}&seq=3", hello.resume));
    assert!(resumed.hello.recovered);
    assert_all_up_to(&mut resumed, 3, "after");
    // The same holds for clients that give their position in a new session.
    for (offset, recovered) in [(3, true), (5, false)] {
        let reply = subscribe_since(&mut nodes[1].client(), &epoch, offset);
        assert_eq!(reply["ok"]["recovered"], recovered, "{reply}");
    }
    // The restarted master becomes a replica, which servers do not notice.
    sentinels.master.restart();
    let last = nodes[0].admin.publish("news", "last")["offset"].as_u64().expect("an offset");
    saw_all.iter_mut().for_each(|client| assert_message(client, last, "last"));
}
