use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use encke_tests::redis::Redis;
use encke_tests::server::run_to_end;
use encke_tests::waiting::until;
use encke_tests::{Client, Hello};
use serde_json::json;

use super::{assert_not_opened, launch, node, subscribe_since, try_subscribe};
use crate::restart::{RestartableServer, next_message, resume_session};

/// Returns the settings for a server that uses this Redis.
fn redis_settings(redis: &Redis) -> [String; 2] {
    ["engine.kind=redis".to_owned(), format!("engine.url={}", redis.url())]
}

#[track_caller]
fn restarts_on(redis: &Redis) -> RestartableServer {
    RestartableServer::with(&redis_settings(redis).each_ref().map(String::as_str))
}

/// Connects a client that subscribes to `news` and receives three messages, of which it acknowledges only the
/// first.
#[track_caller]
fn suspended_subscriber(restarts: &RestartableServer) -> Hello {
    let mut client = restarts.server.client();
    client.subscribe("news");
    restarts.server.admin.publish_each("news", 1..=3);
    assert_numbers(&mut client, 1..=3);
    client.send(r#"{"ack":{"seq":1}}"#);
    client.request(r#"{"id":1,"presence":{"channel":"news"}}"#);
    restarts.server.suspend(client)
}

/// Asserts that these numbers arrive. Each number is the seq, the offset and the data of its message.
#[track_caller]
fn assert_numbers(client: &mut Client, numbers: RangeInclusive<u64>) {
    numbers.for_each(|number| assert_eq!(next_message(client), (number, number, json!(number))));
}

/// Asserts that a gap in `news` with a seq follows, and returns its range.
#[track_caller]
fn next_gap(client: &mut Client, seq: u64) -> [Option<u64>; 2] {
    let object = client.object();
    let gap = &object["gap"];
    assert_eq!((&gap["channel"], &gap["seq"]), (&json!("news"), &json!(seq)), "{object}");
    [gap["from"].as_u64(), gap["to"].as_u64()]
}

/// Unacknowledged messages of a former subscription are reported as a gap, without waiting for Redis.
#[test]
fn a_former_subscription_delays_nothing() {
    let redis = Redis::start();
    let mut restarts = restarts_on(&redis);
    let mut client = restarts.server.client();
    client.subscribe("news");
    client.subscribe("sports");
    restarts.server.admin.publish("news", 1);
    assert_eq!(next_message(&mut client).0, 1);
    client.request(r#"{"id":2,"unsubscribe":{"channel":"news"}}"#);
    restarts.server.admin.publish("sports", 2);
    assert_eq!(next_message(&mut client).0, 2);
    let hello = restarts.server.suspend(client);
    restarts.restart();
    let mut client = resume_session(&restarts, &hello, 0);
    assert_eq!(next_gap(&mut client, 1)[1], Some(1));
    assert_eq!(next_message(&mut client), (2, 1, json!(2)));
}

#[test]
fn a_session_resumes_with_messages_published_on_another_server() {
    let redis = Redis::start();
    let mut restarts = restarts_on(&redis);
    let other = node(&redis);
    let hello = suspended_subscriber(&restarts);
    other.admin.publish("news", 4);
    restarts.stop();
    other.admin.publish("news", 5);
    let text = restarts.show_snapshot().stdout;
    assert!(text.contains(r#"log "news" epoch"#) && text.contains("in the engine"), "{text}");
    let bytes = std::fs::read(restarts.path()).expect("the snapshot can be read");
    assert!(!bytes.windows(8).any(|window| window == b"messages"), "the messages are in Redis");
    restarts.start();
    other.admin.publish("news", 6);
    let mut client = resume_session(&restarts, &hello, 1);
    assert_numbers(&mut client, 2..=6);
    other.admin.publish("news", 7);
    assert_numbers(&mut client, 7..=7);
    // Restart again. This time, the client has missed more messages, and there are new subscribers.
    restarts.restart();
    assert_numbers(&mut resume_session(&restarts, &hello, 4), 5..=7);
    let epoch = restarts.server.client().subscribe("news");
    let reply = subscribe_since(&mut restarts.server.client(), &epoch, 0);
    assert_eq!((&reply["ok"]["offset"], &reply["ok"]["recovered"]), (&json!(7), &json!(true)));
}

/// The log of a pattern is local to the process, so messages published while no process is running are
/// missing from it.
#[test]
fn a_pattern_subscription_continues_after_a_gap() {
    let redis = Redis::start();
    let mut restarts = restarts_on(&redis);
    let other = node(&redis);
    let mut clients = [restarts.server.client(), restarts.server.client()];
    clients.iter_mut().for_each(|client| _ = client.subscribe("/a/*"));
    clients[0].subscribe("/a/b");
    for number in 1..=2 {
        other.admin.publish("/a/b", number);
        clients.iter_mut().for_each(|client| assert_numbers(client, number..=number));
    }
    other.admin.publish("/a/z", "pattern only");
    clients.iter_mut().for_each(|client| assert_eq!(next_message(client).0, 3));
    let hellos = clients.map(|client| restarts.server.suspend(client));
    restarts.stop();
    other.admin.publish("/a/b", 3);
    restarts.start();
    // Unacknowledged messages are sent again. Of the messages published in the meantime, only messages in the
    // subscribed channel arrive.
    let mut clients = hellos.each_ref().map(|hello| resume_session(&restarts, hello, 1));
    for (client, meanwhile) in clients.iter_mut().zip([&[json!(3)][..], &[]]) {
        let expected = [&[json!(2), json!("pattern only")], meanwhile].concat();
        let (mut gaps, mut received) = (0, Vec::new());
        while received.len() < expected.len() || gaps == 0 {
            let mut object = client.object();
            if object["gap"]["channel"] == "/a/*" {
                gaps += 1;
            } else {
                received.push(object["message"]["data"].take());
            }
        }
        assert_eq!((gaps, received), (1, expected));
    }
    for (channel, data) in [("/a/c", 4), ("/a/b", 5)] {
        other.admin.publish(channel, data);
        clients.iter_mut().for_each(|client| assert_eq!(client.object()["message"]["data"], data));
    }
}

#[test]
fn nothing_is_lost_or_duplicated_while_another_server_publishes() {
    const MESSAGES: u64 = 600;
    let redis = Redis::start();
    let mut restarts = restarts_on(&redis);
    restarts.settings.push("channel.history_messages=1000".to_owned());
    restarts.restart();
    // The publishing server determines how much of a log is kept.
    let other = launch(&redis).set("channel.history_messages=1000").start();
    let mut clients = [(); 4].map(|()| restarts.server.client());
    clients.iter_mut().for_each(|client| _ = client.subscribe("news"));
    let published = AtomicU64::new(0);
    thread::scope(|scope| {
        scope.spawn(|| {
            for number in 1..=MESSAGES {
                other.admin.publish("news", number);
                published.store(number, Ordering::Release);
            }
        });
        clients.iter_mut().for_each(|client| assert_numbers(client, 1..=20));
        let hellos = clients.map(Client::drop_connection);
        restarts.stop();
        let wanted = (published.load(Ordering::Acquire) + 20).min(MESSAGES);
        until("more messages are published", || published.load(Ordering::Acquire) >= wanted);
        restarts.start();
        for hello in &hellos {
            assert_numbers(&mut resume_session(&restarts, hello, 20), 21..=MESSAGES);
        }
    });
}

#[test]
fn sessions_survive_an_unreachable_redis() {
    let mut redis = Redis::persistent();
    let mut restarts = restarts_on(&redis);
    let hello = suspended_subscriber(&restarts);
    node(&redis).admin.publish("news", 4);
    restarts.stop();
    redis.kill();
    // Start twice: the second process never reaches Redis.
    restarts.start();
    let mut client = resume_session(&restarts, &hello, 1);
    // The next object is the reply, so no gap precedes it.
    client.assert_refused(r#"{"id":1,"publish":{"channel":"news","data":0}}"#, "unavailable");
    let reply = try_subscribe(&mut client, "news");
    assert_eq!(reply["ok"]["channel"], "news", "the session is already subscribed: {reply}");
    assert_not_opened(&mut restarts.server.client(), "news");
    drop(client);
    restarts.restart();
    let mut client = resume_session(&restarts, &hello, 1);
    redis.restart();
    assert_numbers(&mut client, 2..=4);
    restarts.server.admin.publish("news", 5);
    assert_numbers(&mut client, 5..=5);
}

#[test]
fn an_empty_redis_is_reported_as_gaps_on_resume() {
    let mut redis = Redis::start();
    let mut restarts = restarts_on(&redis);
    let hello = suspended_subscriber(&restarts);
    restarts.stop();
    redis.kill();
    redis.restart();
    restarts.start();
    restarts.server.admin.publish("news", "again");
    let mut client = resume_session(&restarts, &hello, 1);
    assert_eq!(next_gap(&mut client, 3), [Some(2), Some(3)], "the messages that were sent");
    assert_eq!(next_gap(&mut client, 4), [None; 2], "messages that may have been lost");
    assert_eq!(next_message(&mut client), (5, 1, json!("again")));
}

#[test]
fn sessions_move_between_engines() {
    let redis = Redis::start();
    let mut restarts = RestartableServer::with(&[]);
    let hello = suspended_subscriber(&restarts);
    restarts.server.admin.publish("news", 4);
    // Sent messages are in the snapshot. Redis has a different log, from which nothing has been sent.
    restarts.settings = redis_settings(&redis).to_vec();
    restarts.restart();
    let other = node(&redis);
    let mut client = resume_session(&restarts, &hello, 1);
    assert_numbers(&mut client, 2..=3);
    assert_eq!(next_gap(&mut client, 4)[0], None);
    other.admin.publish("news", "from Redis");
    assert_eq!(next_message(&mut client), (5, 1, json!("from Redis")));
    restarts.server.suspend(client);
    // Now the sent messages are in Redis, which the memory engine cannot read.
    restarts.settings.clear();
    restarts.restart();
    let mut client = resume_session(&restarts, &hello, 4);
    next_gap(&mut client, 5);
    assert_eq!(next_gap(&mut client, 6)[0], None);
    let published = restarts.server.admin.publish("news", "from memory");
    assert_eq!(next_message(&mut client), (7, 1, json!("from memory")));
    assert_eq!(client.subscribe("news"), published["epoch"].as_str().expect("an epoch"));
}

/// A server refuses a Redis that evicts keys, unless this is allowed. It has read the snapshot by then, and
/// leaves it for the next process.
#[test]
fn a_refused_start_keeps_the_snapshot() {
    let redis = Redis::start();
    let mut restarts = restarts_on(&redis);
    let hello = suspended_subscriber(&restarts);
    restarts.stop();
    let written = std::fs::read(restarts.path()).expect("the snapshot can be read");

    let evicting = Redis::with(&["--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"]);
    let snapshot = format!("shutdown.snapshot={}", restarts.path().display());
    let [kind, url] = redis_settings(&evicting);
    let mut refused = vec!["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"];
    for setting in [&snapshot, &kind, &url] {
        refused.extend(["--set", setting.as_str()]);
    }
    run_to_end(&refused, &[]).assert_failed(1, &["engine.allow_eviction"]);
    assert_eq!(restarts.files(), ["snapshot"]);
    assert_eq!(std::fs::read(restarts.path()).expect("the snapshot was put back"), written);
    let allowed = launch(&evicting).set("engine.allow_eviction=true").start();
    assert_eq!(allowed.admin.publish("news", 1)["offset"], 1);

    restarts.start();
    assert_numbers(&mut resume_session(&restarts, &hello, 1), 2..=3);
}
