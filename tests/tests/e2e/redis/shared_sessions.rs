//! Sessions that resume on any of several servers with one Redis.

use std::collections::HashMap;
use std::time::Duration;

use encke_tests::bayeux::{self, BayeuxPolling, BayeuxWebSocket};
use encke_tests::process::Signal;
use encke_tests::redis::Redis;
use encke_tests::tokens::{SECRET, token};
use encke_tests::waiting::{eventually, eventually_within, until};
use encke_tests::{Client, EventStream, Hello, Launch, PollClient, RawClient, RunningServer};
use redis::Connection;
use serde_json::json;

use super::{assert_gap, assert_message, launch, query};

fn sharing(redis: &Redis) -> Launch {
    launch(redis).set("engine.share_sessions=true")
}

/// Starts servers that hold their leases.
fn servers<const N: usize>(redis: &Redis) -> [RunningServer; N] {
    let servers = [(); N].map(|()| sharing(redis).start());
    let mut connection = redis.connect();
    until("all servers hold leases", || {
        query::<usize>(&mut connection, &["ZCARD", "encke:{sessions}leases"]) == N
    });
    servers
}

/// Returns the record of a session.
fn record(connection: &mut Connection, session: &str) -> HashMap<String, Vec<u8>> {
    let id = data_encoding::BASE64URL_NOPAD.decode(&session.as_bytes()[2..]).expect("an id");
    let key = format!("encke:{{sessions}}s:{}", data_encoding::HEXLOWER.encode(&id));
    query(connection, &["HGETALL", &key])
}

/// Waits until the record says whether the session has a client, and contains its latest subscription.
#[track_caller]
fn await_record(redis: &Redis, hello: &Hello, is_attached: bool, channel: &str) {
    let attached = if is_attached { "1" } else { "0" };
    let mut connection = redis.connect();
    until(format!("the record of {} is written", hello.session), || {
        let record = record(&mut connection, &hello.session);
        let has = |name: &str, text: &str| {
            record.get(name).is_some_and(|value| String::from_utf8_lossy(value).contains(text))
        };
        has("attached", attached) && has("state", channel)
    });
}

/// Resumes a session after a seq.
#[track_caller]
fn resume(server: &RunningServer, hello: &Hello, seq: u64) -> Client {
    let client = Client::connect(server.public, &format!("resume={}&seq={seq}", hello.resume));
    assert!(client.hello.recovered, "{:?}", server.logs.text());
    assert_eq!(client.hello.session, hello.session);
    client
}

/// Whether a server itself has a session.
fn has(server: &RunningServer, session: &str) -> bool {
    let page = server.admin.get("/api/sessions").json();
    page["sessions"].as_array().expect("a page").iter().any(|listed| listed["id"] == session)
}

fn await_departure(server: &RunningServer, session: &str) {
    until(format!("{session} has left"), || !has(server, session));
}

/// Asserts that each of these events of the session was reported once, by any server.
#[track_caller]
fn assert_lifecycle(servers: &[&RunningServer], session: &str, expected: &[&str]) {
    let mut seen = Vec::new();
    until(format!("{session} has {} events", expected.len()), || {
        seen = servers.iter().flat_map(|server| server.logs.lifecycle(session)).collect();
        seen.len() >= expected.len()
    });
    seen.sort_unstable();
    let mut expected = expected.to_vec();
    expected.sort_unstable();
    let seen: Vec<_> = seen.iter().map(|(event, reason)| format!("{event} {reason}")).collect();
    assert_eq!(seen, expected);
}

#[test]
fn suspended_session_resumes_on_another_server() {
    let redis = Redis::start();
    let [first, second] = servers(&redis);
    let mut client = first.client();
    client.subscribe("news");
    first.admin.publish("news", 1);
    assert_message(&mut client, 1, 1);
    let hello = first.suspend(client);
    await_record(&redis, &hello, false, "news");
    second.admin.publish_each("news", 2..=3);
    let mut client = resume(&second, &hello, 1);
    (2..=3).for_each(|number| assert_message(&mut client, number, number));
    await_departure(&first, &hello.session);
    first.admin.publish("news", 4);
    assert_message(&mut client, 4, 4);

    // And back again, without a report of what the client has received.
    let hello = second.suspend(client);
    first.admin.publish("news", 5);
    let mut client = first.resume(&hello.resume);
    assert!(client.hello.recovered);
    let seqs: Vec<_> = std::iter::repeat_with(|| client.message()["seq"].as_u64().expect("a seq"))
        .take_while(|seq| *seq < 5)
        .collect();
    assert_eq!(seqs, (2..5).collect::<Vec<u64>>(), "unacknowledged messages are sent again");
    client.close();
    let expected =
        ["opened connect", "suspended connection_lost", "resumed reconnect", "suspended connection_lost"];
    first.await_removal(&hello.session);
    let all = [&expected[..], &["resumed reconnect", "closed client"]].concat();
    until("the end is reported", || first.logs.lifecycle(&hello.session).len() >= 4);
    assert_lifecycle(&[&first, &second], &hello.session, &all);
}

#[test]
fn session_is_handed_over_while_its_client_is_connected() {
    let redis = Redis::start();
    let [first, second] = servers(&redis);
    let mut client = first.client();
    client.subscribe("news");
    client.subscribe("other");
    await_record(&redis, &client.hello, true, "other");
    for number in 1..=3 {
        first.admin.publish("news", number);
        first.admin.publish("other", number);
    }
    let seq = (1..=6).map(|_| client.message()["seq"].as_u64().expect("a seq")).max().unwrap_or_default();
    let mut moved = resume(&second, &client.hello, seq - 2);
    assert_eq!(client.close_code(), Some(4100));
    for expected in [seq - 1, seq] {
        assert_eq!(moved.message()["seq"], expected);
    }
    first.admin.publish("news", 4);
    assert_message(&mut moved, 4, 4);
    await_departure(&first, &client.hello.session);
    assert_lifecycle(&[&first, &second], &client.hello.session, &["opened connect", "resumed take_over"]);
}

#[test]
fn session_survives_the_death_of_its_server() {
    let redis = Redis::start();
    let [mut first, second] = servers(&redis);
    let mut one = first.client();
    one.subscribe("news");
    let mut two = first.client();
    two.subscribe("news");
    two.subscribe("other");
    await_record(&redis, &one.hello, true, "news");
    await_record(&redis, &two.hello, true, "other");
    first.admin.publish_each("news", 1..=3);
    (1..=3).for_each(|number| assert_message(&mut one, number, number));
    (1..=3).for_each(|number| assert_message(&mut two, number, number));
    first.signal(Signal::KILL);
    first.await_exit();
    second.admin.publish("news", 4);
    second.admin.publish("other", 1);
    let mut resumed = resume(&second, &one.hello, 2);
    (3..=4).for_each(|number| assert_message(&mut resumed, number, number));
    // With two channels, the server cannot know which messages the client has.
    let mut resumed = resume(&second, &two.hello, 3);
    assert_gap(&mut resumed, "news");
    assert_gap(&mut resumed, "other");
    second.admin.publish("news", 5);
    assert_message(&mut resumed, 5, 5);
}

/// A client that reports its positions receives what it lacks of each channel.
#[test]
fn positions_survive_the_death_of_a_server() {
    let redis = Redis::start();
    let [mut first, second] = servers(&redis);
    let mut client = first.client();
    assert_eq!(client.hello.object["hello"]["positions"], true);
    let epochs = ["news", "other"].map(|channel| client.subscribe(channel));
    await_record(&redis, &client.hello, true, "other");
    first.admin.publish_each("news", 1..=3);
    first.admin.publish_each("other", 1..=2);
    (0..5).for_each(|_| _ = client.message());
    let (mut stream, opened) = EventStream::greeted(first.public, "channels=a,b,last");
    await_record(&redis, &opened, true, "last");
    ["a", "b", "a"].iter().for_each(|channel| _ = first.admin.publish(channel, "before"));
    let id = (0..3).map(|_| stream.object().0.expect("an id")).last().expect("three ids");
    first.signal(Signal::KILL);
    first.await_exit();
    second.admin.publish("news", 4);
    second.admin.publish("b", "after");

    let mut resumed =
        RawClient::upgraded(second.public, &format!("resume={}&seq=4&positions=1", client.hello.resume));
    resumed.text(&json!({"positions": {"news": [epochs[0], 2], "other": [epochs[1], 2]}}).to_string());
    assert!(resumed.hello().recovered);
    for offset in 3..=4 {
        assert_eq!(resumed.object()["message"]["offset"], offset);
    }

    let mut stream = EventStream::reconnect(second.public, "channels=a,b,last", &id);
    assert!(stream.hello().recovered);
    assert_eq!(stream.object().1["message"]["data"], "after");
}

#[test]
fn session_is_taken_from_a_frozen_server() {
    let redis = Redis::start();
    let [first, second] = servers(&redis);
    let mut client = first.client();
    client.subscribe("news");
    await_record(&redis, &client.hello, true, "news");
    first.signal(Signal::STOP);
    second.admin.publish("news", 1);
    let mut moved = resume(&second, &client.hello, 0);
    assert_message(&mut moved, 1, 1);
    first.signal(Signal::CONT);
    assert_eq!(client.close_code(), Some(4100));
    await_departure(&first, &client.hello.session);
    second.admin.publish("news", 2);
    assert_message(&mut moved, 2, 2);
    assert_lifecycle(&[&first, &second], &client.hello.session, &["opened connect", "resumed take_over"]);
}

#[test]
fn sessions_of_a_dead_server_are_adopted_and_expire_once() {
    const SESSIONS: usize = 50;
    let redis = Redis::start();
    let start = || sharing(&redis).set("session.reconnect_window=3s").start();
    let (mut first, second) = (start(), start());
    let clients: Vec<_> = (0..SESSIONS).map(|_| first.client()).collect();
    clients.iter().for_each(|client| await_record(&redis, &client.hello, true, ""));
    first.signal(Signal::KILL);
    first.await_exit();
    let expired = || second.admin.metrics().events("expired", "reconnect_window");
    eventually_within(Duration::from_secs(60), "the sessions expire", || {
        (expired() >= SESSIONS as f64).then_some(())
    });
    for Client { hello, .. } in &clients {
        assert_lifecycle(
            &[&first, &second],
            &hello.session,
            &["expired reconnect_window", "opened connect", "suspended server_lost"],
        );
    }
    let mut connection = redis.connect();
    let ended = record(&mut connection, &clients[0].hello.session);
    assert_eq!(ended.get("ended").map(|code| &**code), Some(&b"1000"[..]));
    assert_eq!(query::<usize>(&mut connection, &["XLEN", "encke:{sessions}ended"]), SESSIONS);
    let owned: Vec<String> = query(&mut connection, &["KEYS", "encke:{sessions}of:*"]);
    assert!(owned.is_empty(), "{owned:?}");
    let again = second.resume(&clients[0].hello.resume);
    assert!(!again.hello.recovered, "it has ended");
}

/// A server that was frozen still has a copy of a session that has continued elsewhere.
#[test]
fn client_returns_to_a_server_with_an_outdated_copy() {
    let redis = Redis::start();
    let [first, second] = servers(&redis);
    let mut client = first.client();
    client.subscribe("news");
    let hello = first.suspend(client);
    await_record(&redis, &hello, false, "news");
    first.signal(Signal::STOP);
    let mut client = resume(&second, &hello, 0);
    second.admin.publish_each("news", 1..=3);
    (1..=3).for_each(|number| assert_message(&mut client, number, number));
    second.suspend(client);
    first.signal(Signal::CONT);
    let mut client = resume(&first, &hello, 3);
    second.admin.publish("news", 4);
    assert_message(&mut client, 4, 4);
}

#[test]
fn nothing_is_resumed_while_redis_is_unreachable() {
    let mut redis = Redis::persistent();
    let [first, second] = servers(&redis);
    let mut client = first.client();
    client.subscribe("news");
    await_record(&redis, &client.hello, true, "news");
    redis.process().signal(Signal::STOP);
    let refused = Client::try_connect(second.public, &format!("resume={}", client.hello.resume));
    assert_eq!(refused.err(), Some(4005));
    redis.process().signal(Signal::CONT);
    let mut resumed = None;
    eventually_within(Duration::from_secs(60), "the session is resumed", || {
        let query = format!("resume={}", client.hello.resume);
        resumed = Client::try_connect(second.public, &query).ok().filter(|client| client.hello.recovered);
        resumed.as_ref().map(drop)
    });
    redis.kill();
    assert_eq!(json!(resumed.is_some()), json!(true));
}

#[test]
fn server_that_shuts_down_leaves_its_sessions_to_the_others() {
    let redis = Redis::start();
    let [mut first, second] = servers(&redis);
    let mut clients: Vec<_> = (0..100).map(|_| first.client()).collect();
    clients.iter_mut().for_each(|client| _ = client.subscribe("news"));
    let suspended = first.suspend(clients.pop().expect("a client"));
    first.admin.publish("news", 1);
    clients.iter_mut().for_each(|client| assert_message(client, 1, 1));
    first.terminate();
    for client in &mut clients {
        assert_eq!(client.close_code(), Some(4008));
        // Before the first server has released the other sessions.
        let mut resumed = resume(&second, &client.hello, 1);
        resumed.ping();
        second.suspend(resumed);
    }
    assert!(first.await_exit().success());
    second.admin.publish("news", 2);
    let mut resumed = resume(&second, &suspended, 0);
    (1..=2).for_each(|number| assert_message(&mut resumed, number, number));
    let client = &clients[0];
    let mut resumed = resume(&second, &client.hello, 1);
    assert_message(&mut resumed, 2, 2);
    let expected = [
        "opened connect",
        "resumed reconnect",
        "resumed reconnect",
        "suspended connection_lost",
        "suspended moved",
    ];
    assert_lifecycle(&[&first, &second], &client.hello.session, &expected);
}

/// A server that has been regarded as dead claims its sessions back, if their clients are still connected to it.
#[test]
fn frozen_server_keeps_its_clients() {
    let redis = Redis::start();
    let [first, second] = servers(&redis);
    let mut client = first.client();
    client.subscribe("news");
    await_record(&redis, &client.hello, true, "news");
    first.signal(Signal::STOP);
    let adopted = || second.logs.lifecycle(&client.hello.session).len();
    eventually_within(Duration::from_secs(60), "the session is adopted", || (adopted() > 0).then_some(()));
    second.admin.publish("news", 1);
    first.signal(Signal::CONT);
    assert_message(&mut client, 1, 1);
    second.admin.publish("news", 2);
    assert_message(&mut client, 2, 2);
    let mut connection = redis.connect();
    until("the session is claimed back", || {
        record(&mut connection, &client.hello.session)
            .get("attached")
            .is_some_and(|attached| attached == b"1")
    });
    // The second server finds that it does not own the session any more, and then claims it.
    let query = format!("resume={}&seq=1", client.hello.resume);
    let mut resumed =
        eventually("the session is resumed", || Client::try_connect(second.public, &query).ok());
    assert!(resumed.hello.recovered);
    assert_message(&mut resumed, 2, 2);
    assert_eq!(client.close_code(), Some(4100));
}

/// Each poll may reach another server.
#[test]
fn polls_reach_any_server() {
    let redis = Redis::start();
    let servers: [_; 3] = servers(&redis);
    let mut polls = servers.each_ref().map(|server| PollClient::connect(server.public));
    let opened = polls[0].get("channels=news").json();
    let hello = Hello::parse(opened[0].clone());
    let (mut seq, mut received) = (0, Vec::new());
    for round in 1..=12 {
        let at = round % 3;
        servers[(round + 1) % 3].admin.publish("news", round);
        let answer = polls[at].get(&format!("resume={}&seq={seq}", hello.resume)).json();
        for object in answer.as_array().expect("an array") {
            let Some(number) = object["message"]["seq"].as_u64() else { continue };
            assert_eq!(number, seq + 1, "{answer}");
            (seq, _) = (number, received.push(object["message"]["offset"].clone()));
        }
    }
    assert_eq!(json!(received), json!((1..=12).collect::<Vec<u64>>()));
    let with_session = |server: &&RunningServer| has(server, &hello.session);
    until("one server has the session", || servers.iter().filter(with_session).count() == 1);
    assert_lifecycle(&servers.each_ref(), &hello.session, &["opened connect"]);
}

#[test]
fn event_stream_continues_on_another_server() {
    let redis = Redis::start();
    let [first, second] = servers(&redis);
    let (mut stream, hello) = EventStream::greeted(first.public, "channels=news");
    first.admin.publish("news", 1);
    let (id, object) = stream.object();
    assert_eq!(object["message"]["data"], 1);
    drop(stream);
    await_record(&redis, &hello, false, "news");
    second.admin.publish("news", 2);
    let id = id.expect("an id");
    let mut stream = EventStream::reconnect(second.public, "channels=news", &id);
    let again = stream.hello();
    assert_eq!((again.recovered, &again.session), (true, &hello.session));
    assert_eq!(stream.object().1["message"]["data"], 2);

    // A command at another server is forwarded: it does not take the session from the stream.
    let mut requests = PollClient::connect(first.public);
    let reply = requests.post(
        &format!("resume={}", hello.resume),
        r#"[{"id":1,"subscribe":{"channel":"other"}},{"id":2,"publish":{"channel":"news","data":3}}]"#,
    );
    assert_eq!(reply.status, 200, "{reply:?}");
    assert_eq!([0, 1].map(|at| reply.json()[at]["reply"]["ok"].is_object()), [true; 2], "{reply:?}");
    assert_eq!(stream.object().1["message"]["data"], 3);
    requests.post(&format!("resume={}x", hello.resume), "[]").assert_error(410, "gone");
    first.admin.publish("other", "subscribed");
    assert_eq!(stream.object().1["message"]["data"], "subscribed");
    second.admin.publish("news", 4);
    assert_eq!(stream.object().1["message"]["data"], 4);
}

#[test]
fn bayeux_clients_reach_any_server() {
    let redis = Redis::start();
    let [first, second] = servers(&redis);
    let [mut polls, mut others] = [&first, &second].map(|server| BayeuxPolling::connect(server.public));
    let handshake = bayeux::with_field(bayeux::handshake(), "ext", json!({"ack": true}));
    let client_id = bayeux::client_id(&polls.reply(&handshake));
    bayeux::assert_successful(&polls.reply(&bayeux::subscribe(&client_id, "/news")));
    let mut ack = 0;
    for number in 1..=6 {
        first.admin.publish("/news", number);
        let polls = if number % 2 == 0 { &mut polls } else { &mut others };
        let answer = polls.request(&bayeux::connect_now_with_ack(&client_id, ack));
        assert_eq!(bayeux::events(&answer), [json!(number)], "{answer:?}");
        let reply = answer.iter().find(|message| bayeux::is_reply(message)).expect("a reply");
        ack = reply["ext"]["ack"].as_u64().expect("an ack");
    }
    first.admin.publish("/news", 7);
    let mut socket = BayeuxWebSocket::connect(second.public);
    let connect =
        bayeux::with_field(bayeux::connect_now_with_ack(&client_id, ack), "connectionType", "websocket");
    let messages = socket.request(&connect);
    assert_eq!(bayeux::events(&messages), [json!(7)], "{messages:?}");
}

/// A request to any server reaches the sessions of all.
#[test]
fn the_api_reaches_the_sessions_of_all_servers() {
    let redis = Redis::start();
    let start = || sharing(&redis).set(&format!("auth.secret={SECRET}")).start();
    let servers = [start(), start(), start()];
    let mut connection = redis.connect();
    let mut clients = servers.each_ref().map(|server| server.client_of("alice"));
    let ids = clients.each_ref().map(|client| client.hello.session.clone());
    // A server learns of the others when it renews its lease.
    until("the servers know of each other", || {
        query::<usize>(&mut connection, &["ZCARD", "encke:{sessions}leases"]) == 3
            && servers.iter().all(|server| ids.iter().all(|id| server.admin.phase(id).is_some()))
    });
    for (at, id) in ids.iter().enumerate() {
        let other = &servers[(at + 1) % 3].admin;
        assert_eq!(other.session(id)["id"], json!(id));
        other.post(&format!("/api/sessions/{id}/send"), r#"{"data":"one"}"#);
        assert_eq!(clients[at].message()["data"], "one");
        let subscribed = other.post(&format!("/api/sessions/{id}/subscribe"), r#"{"channel":"news"}"#);
        assert_eq!(subscribed.status, 200, "{subscribed:?}");
    }
    let unknown = servers[0].admin.get("/api/sessions/s_AAAAAAAAAAAAAAAAAAAAAA");
    unknown.assert_error(404, "not_found");
    let sent = servers[1].admin.post("/api/users/alice/send", r#"{"data":"all"}"#).json();
    assert_eq!(sent["sessions"], 3, "{sent}");
    let revoked = servers[2].admin.request("DELETE", "/api/users/alice").json();
    assert_eq!(revoked["sessions"], 3, "{revoked}");
    for client in &mut clients {
        assert_eq!(client.close_code(), Some(4101));
    }
}

/// The resume token alone does not take a session from its user.
#[test]
fn client_of_another_user_does_not_take_a_session() {
    let redis = Redis::start();
    let start = || sharing(&redis).set(&format!("auth.secret={SECRET}")).start();
    let [first, second] = [start(), start()];
    let mut alice = first.client_of("alice");
    alice.subscribe("news");
    await_record(&redis, &alice.hello, true, "news");
    let resume = format!("resume={}", alice.hello.resume);
    let expired = token("alice", json!({"exp": 1}));
    for (token, code) in [
        (format!("&token={}", token("bob", json!({}))), 4102),
        (format!("&token={expired}"), 4003),
        (String::new(), 4102),
    ] {
        assert_eq!(Client::refusal_code(second.public, &format!("{resume}{token}")), code);
        let refused = PollClient::connect(second.public).get(&format!("{resume}{token}"));
        assert!([401, 403].contains(&refused.status), "{refused:?}");
    }
    first.admin.publish("news", 1);
    assert_message(&mut alice, 1, 1);
    assert!(has(&first, &alice.hello.session));
    let moved = Client::connect(second.public, &format!("{resume}&token={}", token("alice", json!({}))));
    assert!(moved.hello.recovered);
}

#[test]
fn session_that_moves_before_its_positions_arrive_is_not_replaced() {
    let redis = Redis::start();
    let [first, second, third] = servers(&redis);
    let mut client = first.client();
    client.subscribe("news");
    await_record(&redis, &client.hello, true, "news");
    let query = format!("resume={}&seq=0&positions=1", client.hello.resume);
    let [mut older, mut newer] = [&second, &third].map(|server| RawClient::upgraded(server.public, &query));
    older.text(r#"{"positions":{}}"#);
    assert_eq!(older.close_code(), 4008);
    newer.text(r#"{"positions":{}}"#);
    let hello = newer.hello();
    assert_eq!((hello.recovered, &hello.session), (true, &client.hello.session));
}

/// Until the servers have written their sessions again, they are not taken for unknown.
#[test]
fn no_session_is_replaced_after_redis_has_lost_its_data() {
    let mut redis = Redis::start();
    let [first, second] = servers(&redis);
    let mut client = first.client();
    client.subscribe("news");
    await_record(&redis, &client.hello, true, "news");
    redis.kill();
    redis.restart();
    let query = format!("resume={}&seq=0", client.hello.resume);
    let resumed = eventually_within(Duration::from_secs(60), "the session is resumed", || {
        Client::try_connect(second.public, &query).ok()
    });
    assert!(resumed.hello.recovered);
    assert_eq!(resumed.hello.session, client.hello.session);
}
