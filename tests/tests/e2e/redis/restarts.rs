use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use encke_tests::redis::Redis;
use encke_tests::server::run_to_end;
use encke_tests::waiting::until;
use encke_tests::{Client, Hello};
use serde_json::{Value, json};

use super::{launch, node};
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
    for number in 1..=3 {
        restarts.server.admin.publish("news", number);
        assert_eq!(next_message(&mut client), (number, number, json!(number)));
    }
    client.send(r#"{"ack":{"seq":1}}"#);
    client.request(r#"{"id":1,"presence":{"channel":"news"}}"#);
    let hello = client.drop_connection();
    restarts.server.await_phase(&hello.session, "suspended");
    hello
}

/// Asserts that the next object is a gap in `news` and returns it.
#[track_caller]
fn assert_gap(client: &mut Client) -> Value {
    let object = client.object();
    assert_eq!(object["gap"]["channel"], "news", "{object}");
    object["gap"].clone()
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
    let output = run_to_end(&["snapshot", "show", &restarts.path().display().to_string()], &[]);
    let text = String::from_utf8(output.stdout).expect("the output is text");
    assert!(text.contains(r#"log "news" epoch"#) && text.contains("in the engine"), "{text}");
    let bytes = std::fs::read(restarts.path()).expect("the snapshot can be read");
    restarts.start();
    other.admin.publish("news", 6);
    let mut client = resume_session(&restarts, &hello, 1);
    for number in 2..=6 {
        assert_eq!(next_message(&mut client), (number, number, json!(number)));
    }
    other.admin.publish("news", 7);
    assert_eq!(next_message(&mut client), (7, 7, json!(7)));
    // Restart again. This time, the client has missed more messages, and there are new subscribers.
    restarts.restart();
    let mut client = resume_session(&restarts, &hello, 4);
    for number in 5..=7 {
        assert_eq!(next_message(&mut client), (number, number, json!(number)));
    }
    let mut late = restarts.server.client();
    let epoch = late.subscribe("news");
    let since = json!({"channel": "news", "since": {"epoch": epoch, "offset": 0}});
    let mut later = restarts.server.client();
    let reply = later.request(&json!({"id": 1, "subscribe": since}).to_string());
    assert_eq!((&reply["ok"]["offset"], &reply["ok"]["recovered"]), (&json!(7), &json!(true)));
    // The messages are in Redis, not in the snapshot.
    assert!(!bytes.windows(8).any(|window| window == b"messages"));
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
        clients
            .iter_mut()
            .for_each(|client| assert_eq!(next_message(client), (number, number, json!(number))));
    }
    other.admin.publish("/a/z", "pattern only");
    clients.iter_mut().for_each(|client| assert_eq!(next_message(client).0, 3));
    let hellos = clients.map(Client::drop_connection);
    hellos.iter().for_each(|hello| restarts.server.await_phase(&hello.session, "suspended"));
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
            let object = client.object();
            if object["gap"]["channel"] == "/a/*" {
                gaps += 1;
            } else {
                received.push(object["message"]["data"].clone());
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
    const CLIENTS: usize = 8;
    let redis = Redis::start();
    let mut restarts = restarts_on(&redis);
    restarts.settings.push("channel.history_messages=1000".to_owned());
    restarts.restart();
    // The publishing server determines how much of a log is kept.
    let other = launch(&redis).set("channel.history_messages=1000").start();
    let mut clients: Vec<_> = (0..CLIENTS).map(|_| restarts.server.client()).collect();
    clients.iter_mut().for_each(|client| _ = client.subscribe("news"));
    let published = AtomicU64::new(0);
    thread::scope(|scope| {
        scope.spawn(|| {
            for number in 1..=MESSAGES {
                other.admin.publish("news", number);
                published.store(number, Ordering::Release);
            }
        });
        let mut received = [0; CLIENTS];
        for (client, received) in clients.iter_mut().zip(&mut received) {
            for number in 1..=20 {
                assert_eq!(next_message(client), (number, number, json!(number)));
            }
            *received = 20;
        }
        let hellos: Vec<_> = clients.drain(..).map(Client::drop_connection).collect();
        restarts.stop();
        let before = published.load(Ordering::Acquire);
        until("more messages are published", || {
            published.load(Ordering::Acquire) >= (before + 20).min(MESSAGES)
        });
        restarts.start();
        for (hello, received) in hellos.iter().zip(received) {
            let mut client = resume_session(&restarts, hello, received);
            for number in received + 1..=MESSAGES {
                assert_eq!(next_message(&mut client), (number, number, json!(number)));
            }
        }
    });
}

#[test]
fn sessions_survive_an_unreachable_redis() {
    let mut redis = Redis::persistent();
    let mut restarts = restarts_on(&redis);
    let other = node(&redis);
    let hello = suspended_subscriber(&restarts);
    other.admin.publish("news", 4);
    restarts.stop();
    redis.kill();
    // Start twice: the second process never reaches Redis.
    restarts.start();
    let mut client = resume_session(&restarts, &hello, 1);
    // The next object is the reply, so no gap precedes it.
    let reply = client.request(r#"{"id":1,"publish":{"channel":"news","data":0}}"#);
    assert_eq!(reply["error"]["code"], "unavailable", "{reply}");
    let reply = client.request(r#"{"id":2,"subscribe":{"channel":"news"}}"#);
    assert_eq!(reply["ok"]["channel"], "news", "the session is already subscribed: {reply}");
    let refused = restarts.server.client().request(r#"{"id":1,"subscribe":{"channel":"news"}}"#);
    assert_eq!(refused["error"]["code"], "unavailable", "a new session cannot subscribe: {refused}");
    drop(client);
    restarts.restart();
    let mut client = resume_session(&restarts, &hello, 1);
    redis.restart();
    for number in 2..=4 {
        assert_eq!(next_message(&mut client), (number, number, json!(number)));
    }
    restarts.server.admin.publish("news", 5);
    assert_eq!(next_message(&mut client), (5, 5, json!(5)));
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
    let gap = assert_gap(&mut client);
    assert_eq!(
        (&gap["seq"], &gap["from"], &gap["to"]),
        (&json!(3), &json!(2), &json!(3)),
        "the messages that were sent"
    );
    let gap = assert_gap(&mut client);
    assert_eq!((&gap["seq"], gap.get("from")), (&json!(4), None), "messages that may have been lost");
    assert_eq!(next_message(&mut client), (5, 1, json!("again")));
}

/// Unacknowledged messages of a former subscription are reported as a gap without waiting for Redis.
#[test]
fn a_former_subscription_delays_nothing() {
    let redis = Redis::start();
    let mut restarts = restarts_on(&redis);
    let mut client = restarts.server.client();
    let hello = client.hello.clone();
    client.subscribe("news");
    client.subscribe("sports");
    restarts.server.admin.publish("news", 1);
    assert_eq!(next_message(&mut client).0, 1);
    client.request(r#"{"id":2,"unsubscribe":{"channel":"news"}}"#);
    restarts.server.admin.publish("sports", 2);
    assert_eq!(next_message(&mut client).0, 2);
    drop(client);
    restarts.server.await_phase(&hello.session, "suspended");
    restarts.restart();
    let mut client = resume_session(&restarts, &hello, 0);
    assert_eq!(assert_gap(&mut client)["to"], 1);
    assert_eq!(next_message(&mut client), (2, 1, json!(2)));
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
    for number in 2..=3 {
        assert_eq!(next_message(&mut client), (number, number, json!(number)));
    }
    assert_eq!(assert_gap(&mut client).get("from"), None);
    other.admin.publish("news", "from Redis");
    assert_eq!(next_message(&mut client), (5, 1, json!("from Redis")));
    drop(client);
    restarts.server.await_phase(&hello.session, "suspended");
    // Now the sent messages are in Redis, which the memory engine cannot read.
    restarts.settings.clear();
    restarts.restart();
    let mut client = resume_session(&restarts, &hello, 4);
    assert_eq!(assert_gap(&mut client)["seq"], 5);
    assert_eq!(assert_gap(&mut client).get("from"), None);
    let published = restarts.server.admin.publish("news", "from memory");
    assert_eq!(next_message(&mut client), (7, 1, json!("from memory")));
    assert_eq!(client.subscribe("news"), published["epoch"].as_str().expect("an epoch"));
}

/// A process that refuses to start has already read the snapshot. It leaves the snapshot for the next
/// process.
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
    let output = run_to_end(&refused, &[]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && stderr.contains("engine.allow_eviction"), "{stderr}");
    assert_eq!(restarts.files(), ["snapshot"]);
    assert_eq!(std::fs::read(restarts.path()).expect("the snapshot was put back"), written);

    restarts.start();
    let mut client = resume_session(&restarts, &hello, 1);
    for number in 2..=3 {
        assert_eq!(next_message(&mut client), (number, number, json!(number)));
    }
}
