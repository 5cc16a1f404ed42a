use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use encke_tests::redis::Redis;
use encke_tests::server::run_to_end;
use encke_tests::waiting::until;
use encke_tests::{Client, Hello};
use serde_json::{Value, json};

use super::{launch, node};
use crate::restart::{Restarts, back, message};

/// What a server with a snapshot is told of Redis.
fn on(redis: &Redis) -> [String; 2] {
    ["engine.kind=redis".to_owned(), format!("engine.url={}", redis.url())]
}

#[track_caller]
fn restarts_on(redis: &Redis) -> Restarts {
    Restarts::with(&on(redis).each_ref().map(String::as_str))
}

/// A client that follows `news` there and has been sent three messages, the second and third of which it does not acknowledge.
#[track_caller]
fn follower(restarts: &Restarts) -> Hello {
    let mut client = restarts.server.client();
    client.subscribe("news");
    for number in 1..=3 {
        restarts.server.admin.publish("news", number);
        assert_eq!(message(&mut client), (number, number, json!(number)));
    }
    client.send(r#"{"ack":{"seq":1}}"#);
    client.request(r#"{"id":1,"presence":{"channel":"news"}}"#);
    let hello = client.drop_connection();
    restarts.server.await_phase(&hello.session, "suspended");
    hello
}

/// The client is told that messages are missing.
#[track_caller]
fn assert_gap(client: &mut Client) -> Value {
    let object = client.object();
    assert_eq!(object["gap"]["channel"], "news", "{object}");
    object["gap"].clone()
}

#[test]
fn a_session_comes_back_to_what_was_published_elsewhere_meanwhile() {
    let redis = Redis::start();
    let mut restarts = restarts_on(&redis);
    let other = node(&redis);
    let hello = follower(&restarts);
    other.admin.publish("news", 4);
    restarts.stop();
    other.admin.publish("news", 5);
    let shown = run_to_end(&["snapshot", "show", &restarts.path().display().to_string()], &[]);
    let shown = String::from_utf8(shown.stdout).expect("text");
    assert!(shown.contains(r#"log "news" epoch"#) && shown.contains("in the engine"), "{shown}");
    let bytes = std::fs::read(restarts.path()).expect("it was written");
    restarts.start();
    other.admin.publish("news", 6);
    let mut client = back(&restarts, &hello, 1);
    for number in 2..=6 {
        assert_eq!(message(&mut client), (number, number, json!(number)));
    }
    other.admin.publish("news", 7);
    assert_eq!(message(&mut client), (7, 7, json!(7)));
    // Once more, with a client who has lost more, and one who comes later.
    restarts.restart();
    let mut client = back(&restarts, &hello, 4);
    for number in 5..=7 {
        assert_eq!(message(&mut client), (number, number, json!(number)));
    }
    let mut late = restarts.server.client();
    let epoch = late.subscribe("news");
    let since = json!({"channel": "news", "since": {"epoch": epoch, "offset": 0}});
    let mut later = restarts.server.client();
    let reply = later.request(&json!({"id": 1, "subscribe": since}).to_string());
    assert_eq!((&reply["ok"]["offset"], &reply["ok"]["recovered"]), (&json!(7), &json!(true)));
    // Messages are where they were: in Redis.
    assert!(!bytes.windows(8).any(|window| window == b"messages"));
}

/// A pattern's log is the process's own, and so is what it misses while it is away.
#[test]
fn a_pattern_goes_on_after_a_gap() {
    let redis = Redis::start();
    let mut restarts = restarts_on(&redis);
    let other = node(&redis);
    let mut clients = [restarts.server.client(), restarts.server.client()];
    clients.iter_mut().for_each(|client| _ = client.subscribe("/a/*"));
    clients[0].subscribe("/a/b");
    for number in 1..=2 {
        other.admin.publish("/a/b", number);
        clients.iter_mut().for_each(|client| assert_eq!(message(client), (number, number, json!(number))));
    }
    other.admin.publish("/a/z", "by the pattern alone");
    clients.iter_mut().for_each(|client| assert_eq!(message(client).0, 3));
    let hellos = clients.map(Client::drop_connection);
    hellos.iter().for_each(|hello| restarts.server.await_phase(&hello.session, "suspended"));
    restarts.stop();
    other.admin.publish("/a/b", 3);
    restarts.start();
    // What was not acknowledged comes again, and of what was published meanwhile only what the channel has.
    let mut clients = hellos.each_ref().map(|hello| back(&restarts, hello, 1));
    for (client, meanwhile) in clients.iter_mut().zip([&[json!(3)][..], &[]]) {
        let expected = [&[json!(2), json!("by the pattern alone")], meanwhile].concat();
        let (mut gaps, mut heard) = (0, Vec::new());
        while heard.len() < expected.len() || gaps == 0 {
            let object = client.object();
            if object["gap"]["channel"] == "/a/*" {
                gaps += 1;
            } else {
                heard.push(object["message"]["data"].clone());
            }
        }
        assert_eq!((gaps, heard), (1, expected));
    }
    for (channel, data) in [("/a/c", 4), ("/a/b", 5)] {
        other.admin.publish(channel, data);
        clients.iter_mut().for_each(|client| assert_eq!(client.object()["message"]["data"], data));
    }
}

#[test]
fn nothing_is_lost_or_doubled_while_others_publish() {
    const MESSAGES: u64 = 600;
    const CLIENTS: usize = 8;
    let redis = Redis::start();
    let mut restarts = restarts_on(&redis);
    restarts.settings.push("channel.history_messages=1000".to_owned());
    restarts.restart();
    // Whoever publishes says how much of a log is kept.
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
        let mut heard = [0; CLIENTS];
        for (client, heard) in clients.iter_mut().zip(&mut heard) {
            for number in 1..=20 {
                assert_eq!(message(client), (number, number, json!(number)));
            }
            *heard = 20;
        }
        let hellos: Vec<_> = clients.drain(..).map(Client::drop_connection).collect();
        restarts.stop();
        let before = published.load(Ordering::Acquire);
        until("more is published", || published.load(Ordering::Acquire) >= (before + 20).min(MESSAGES));
        restarts.start();
        for (hello, heard) in hellos.iter().zip(heard) {
            let mut client = back(&restarts, hello, heard);
            for number in heard + 1..=MESSAGES {
                assert_eq!(message(&mut client), (number, number, json!(number)));
            }
        }
    });
}

#[test]
fn sessions_wait_for_a_redis_that_cannot_be_reached() {
    let mut redis = Redis::with(&["--appendonly", "yes", "--appendfsync", "always"]);
    let mut restarts = restarts_on(&redis);
    let other = node(&redis);
    let hello = follower(&restarts);
    other.admin.publish("news", 4);
    restarts.stop();
    redis.kill();
    // Twice: the second process has not seen Redis at all.
    restarts.start();
    let mut client = back(&restarts, &hello, 1);
    // A reply, and no gap before it.
    let reply = client.request(r#"{"id":1,"publish":{"channel":"news","data":0}}"#);
    assert_eq!(reply["error"]["code"], "unavailable", "{reply}");
    let reply = client.request(r#"{"id":2,"subscribe":{"channel":"news"}}"#);
    assert_eq!(reply["ok"]["channel"], "news", "it follows it already: {reply}");
    let refused = restarts.server.client().request(r#"{"id":1,"subscribe":{"channel":"news"}}"#);
    assert_eq!(refused["error"]["code"], "unavailable", "nobody joins what is not there: {refused}");
    drop(client);
    restarts.restart();
    let mut client = back(&restarts, &hello, 1);
    redis.restart();
    for number in 2..=4 {
        assert_eq!(message(&mut client), (number, number, json!(number)));
    }
    restarts.server.admin.publish("news", 5);
    assert_eq!(message(&mut client), (5, 5, json!(5)));
}

#[test]
fn an_empty_redis_is_told_to_those_who_come_back() {
    let mut redis = Redis::start();
    let mut restarts = restarts_on(&redis);
    let hello = follower(&restarts);
    restarts.stop();
    redis.kill();
    redis.restart();
    restarts.start();
    restarts.server.admin.publish("news", "again");
    let mut client = back(&restarts, &hello, 1);
    let gap = assert_gap(&mut client);
    assert_eq!(
        (&gap["seq"], &gap["from"], &gap["to"]),
        (&json!(3), &json!(2), &json!(3)),
        "what it was sent"
    );
    let gap = assert_gap(&mut client);
    assert_eq!((&gap["seq"], gap.get("from")), (&json!(4), None), "what there may have been");
    assert_eq!(message(&mut client), (5, 1, json!("again")));
}

/// What was unsubscribed is told as a gap: nobody waits for it.
#[test]
fn what_was_unsubscribed_holds_nothing_up() {
    let redis = Redis::start();
    let mut restarts = restarts_on(&redis);
    let mut client = restarts.server.client();
    let hello = client.hello.clone();
    client.subscribe("news");
    client.subscribe("sports");
    restarts.server.admin.publish("news", 1);
    assert_eq!(message(&mut client).0, 1);
    client.request(r#"{"id":2,"unsubscribe":{"channel":"news"}}"#);
    restarts.server.admin.publish("sports", 2);
    assert_eq!(message(&mut client).0, 2);
    drop(client);
    restarts.server.await_phase(&hello.session, "suspended");
    restarts.restart();
    let mut client = back(&restarts, &hello, 0);
    assert_eq!(assert_gap(&mut client)["to"], 1);
    assert_eq!(message(&mut client), (2, 1, json!(2)));
}

#[test]
fn sessions_go_from_one_engine_to_the_other() {
    let redis = Redis::start();
    let mut restarts = Restarts::with(&[]);
    let hello = follower(&restarts);
    restarts.server.admin.publish("news", 4);
    // What was sent is in the file. Redis has another log, of which nothing was sent.
    restarts.settings = on(&redis).to_vec();
    restarts.restart();
    let other = node(&redis);
    let mut client = back(&restarts, &hello, 1);
    for number in 2..=3 {
        assert_eq!(message(&mut client), (number, number, json!(number)));
    }
    assert_eq!(assert_gap(&mut client).get("from"), None);
    other.admin.publish("news", "there");
    assert_eq!(message(&mut client), (5, 1, json!("there")));
    drop(client);
    restarts.server.await_phase(&hello.session, "suspended");
    // And back: what was sent is in Redis, where this one does not look.
    restarts.settings.clear();
    restarts.restart();
    let mut client = back(&restarts, &hello, 4);
    assert_eq!(assert_gap(&mut client)["seq"], 5);
    assert_eq!(assert_gap(&mut client).get("from"), None);
    let published = restarts.server.admin.publish("news", "here");
    assert_eq!(message(&mut client), (7, 1, json!("here")));
    assert_eq!(client.subscribe("news"), published["epoch"].as_str().expect("an epoch"));
}

/// A start that is refused has read the snapshot, and leaves it to the next one.
#[test]
fn a_start_on_a_redis_that_drops_keys_leaves_the_snapshot() {
    let redis = Redis::start();
    let mut restarts = restarts_on(&redis);
    let hello = follower(&restarts);
    restarts.stop();
    let written = std::fs::read(restarts.path()).expect("it was written");

    let evicting = Redis::with(&["--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"]);
    let snapshot = format!("shutdown.snapshot={}", restarts.path().display());
    let [kind, url] = on(&evicting);
    let mut refused = vec!["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"];
    for setting in [&snapshot, &kind, &url] {
        refused.extend(["--set", setting.as_str()]);
    }
    let ended = run_to_end(&refused, &[]);
    let complaint = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.code() == Some(1) && complaint.contains("engine.allow_eviction"), "{complaint}");
    assert_eq!(restarts.files(), ["snapshot"]);
    assert_eq!(std::fs::read(restarts.path()).expect("it was put back"), written);

    restarts.start();
    let mut client = back(&restarts, &hello, 1);
    for number in 2..=3 {
        assert_eq!(message(&mut client), (number, number, json!(number)));
    }
}
