use std::time::Duration;

use encke_tests::raw::{PING, PONG, masked};
use encke_tests::waiting::let_pass;
use encke_tests::{Client, Hello, RawClient, RunningServer};

const REPLACED: u16 = 4100;

/// Returns a client that is subscribed to `news`, its hello, and the epoch of the log.
#[track_caller]
fn subscriber(server: &RunningServer, query: &str) -> (RawClient, Hello, String) {
    let (mut client, hello) = RawClient::greeted(server.public, query);
    client.text(r#"{"id":1,"subscribe":{"channel":"news"}}"#);
    let reply = client.text_message();
    let epoch = reply.split(r#""epoch":""#).nth(1).and_then(|rest| rest.split('"').next());
    let epoch = epoch.unwrap_or_else(|| panic!("{reply}")).to_owned();
    (client, hello, epoch)
}

/// Resumes the session and asserts that the hello confirms it.
#[track_caller]
fn resume(server: &RunningServer, hello: &Hello, seq: Option<u64>) -> (RawClient, Hello) {
    let seq = seq.map_or_else(String::new, |seq| format!("&seq={seq}"));
    let (client, again) = RawClient::greeted(server.public, &format!("resume={}{seq}", hello.resume));
    assert!(again.recovered);
    assert_eq!(again.session, hello.session);
    (client, again)
}

fn message(seq: u64, offset: u64) -> String {
    format!(r#"{{"message":{{"seq":{seq},"channel":"news","offset":{offset},"data":{offset}}}}}"#)
}

fn gap(seq: u64, epoch: &str, from: u64, to: u64) -> String {
    format!(r#"{{"gap":{{"seq":{seq},"channel":"news","epoch":"{epoch}","from":{from},"to":{to}}}}}"#)
}

/// Asserts that messages with these offsets arrive, and that their seqs equal their offsets.
#[track_caller]
fn assert_messages(client: &mut RawClient, offsets: impl IntoIterator<Item = u64>) {
    for offset in offsets {
        assert_eq!(client.text_message(), message(offset, offset));
    }
}

#[track_caller]
fn acknowledge(client: &mut RawClient, seq: u64) {
    client.text(&format!(r#"{{"id":7,"ack":{{"seq":{seq}}}}}"#));
    assert_eq!(client.text_message(), r#"{"reply":{"id":7,"ok":{}}}"#);
}

/// Returns the total number of messages sent.
#[track_caller]
fn delivered(server: &RunningServer) -> f64 {
    server.admin.metrics().value("encke_messages_delivered_total")
}

#[test]
fn resume_with_a_seq_returns_exactly_the_later_messages() {
    let server = RunningServer::with(&[]);
    let (mut client, hello, _) = subscriber(&server, "");
    let mut publisher = server.client();
    publisher.publish("news", 1..=5);
    assert_messages(&mut client, 1..=5);
    drop(client);
    server.await_phase(&hello.session, "suspended");
    publisher.publish("news", [6]);

    // The client claims to have lost two of the five messages.
    let (mut client, again) = resume(&server, &hello, Some(3));
    assert_eq!(again.object["hello"]["seq"], 3);
    assert_messages(&mut client, 4..=6);
    publisher.publish("news", [7]);
    assert_messages(&mut client, [7]);
    assert_eq!(delivered(&server), 9.0, "two messages are sent twice");
}

#[test]
fn resume_with_the_last_seq_returns_only_new_messages() {
    let server = RunningServer::with(&[]);
    let (mut client, hello, _) = subscriber(&server, "");
    let mut publisher = server.client();
    for round in 0..4 {
        publisher.publish("news", [2 * round + 1]);
        assert_messages(&mut client, [2 * round + 1]);
        client.reset();
        server.await_phase(&hello.session, "suspended");
        publisher.publish("news", [2 * round + 2]);
        client = resume(&server, &hello, Some(2 * round + 1)).0;
        assert_messages(&mut client, [2 * round + 2]);
    }
    assert_eq!(delivered(&server), 8.0, "no message is sent twice");
    assert_eq!(server.admin.metrics().value("encke_gaps_total"), 0.0);
}

#[test]
fn resume_without_a_seq_returns_unacknowledged_messages() {
    let server = RunningServer::with(&[]);
    let (mut client, hello, _) = subscriber(&server, "");
    let mut publisher = server.client();
    publisher.publish("news", 1..=5);
    assert_messages(&mut client, 1..=5);
    acknowledge(&mut client, 2);
    drop(client);
    server.await_phase(&hello.session, "suspended");
    publisher.publish("news", [6]);
    let (mut client, again) = resume(&server, &hello, None);
    assert_eq!(again.object["hello"]["seq"], 2);
    assert_messages(&mut client, 3..=6);
}

#[test]
fn resume_before_the_acknowledged_seq_begins_with_a_gap() {
    let server = RunningServer::with(&[]);
    let (mut client, hello, epoch) = subscriber(&server, "");
    let mut publisher = server.client();
    publisher.publish("news", 1..=8);
    assert_messages(&mut client, 1..=8);
    acknowledge(&mut client, 5);
    drop(client);
    server.await_phase(&hello.session, "suspended");
    let (mut client, again) = resume(&server, &hello, Some(2));
    assert_eq!(again.object["hello"]["seq"], 2);
    // The reported range may be larger than the loss: it can begin at the offset at which the session
    // subscribed.
    assert_eq!(client.text_message(), gap(5, &epoch, 1, 5));
    assert_messages(&mut client, 6..=8);
    publisher.publish("news", [9]);
    assert_messages(&mut client, [9]);
}

#[test]
fn future_seq_opens_a_new_session_without_subscriptions() {
    let server = RunningServer::with(&[]);
    let (mut client, hello, _) = subscriber(&server, "");
    let mut publisher = server.client();
    publisher.publish("news", [1]);
    assert_messages(&mut client, [1]);
    drop(client);
    server.await_phase(&hello.session, "suspended");
    let mut other = Client::connect(server.public, &format!("resume={}&seq=2", hello.resume));
    assert!(!other.hello.recovered);
    assert_ne!(other.hello.session, hello.session);
    assert_eq!(other.hello.object["hello"]["seq"], 0);
    publisher.publish("news", [2]);
    // A message would precede the reply.
    other.subscribe("news");
    let (mut client, _) = resume(&server, &hello, Some(1));
    assert_messages(&mut client, [2]);
}

#[test]
fn take_over_continues_after_its_seq() {
    let server = RunningServer::with(&[]);
    let (mut first, hello, _) = subscriber(&server, "");
    let mut publisher = server.client();
    publisher.publish("news", 1..=5);
    assert_messages(&mut first, 1..=5);
    let (mut second, again) = resume(&server, &hello, Some(2));
    assert_eq!(again.object["hello"]["seq"], 2);
    assert_eq!(first.close_code(), REPLACED);
    // Acks on a replaced connection are ignored.
    first.text(r#"{"ack":{"seq":5}}"#);
    assert_messages(&mut second, 3..=5);
    publisher.publish("news", [6]);
    assert_messages(&mut second, [6]);
    drop(second);
    server.await_phase(&hello.session, "suspended");
    let (mut third, _) = resume(&server, &hello, None);
    assert_messages(&mut third, 3..=6);
}

#[test]
fn messages_are_sent_again_after_an_unsubscribe() {
    let server = RunningServer::with(&[]);
    let (mut client, hello, _) = subscriber(&server, "");
    let mut publisher = server.client();
    publisher.publish("news", 1..=3);
    assert_messages(&mut client, 1..=3);
    client.text(r#"{"id":8,"unsubscribe":{"channel":"news"}}"#);
    assert_eq!(client.text_message(), r#"{"reply":{"id":8,"ok":{}}}"#);
    drop(client);
    server.await_phase(&hello.session, "suspended");
    publisher.publish("news", [4]);
    let (mut client, _) = resume(&server, &hello, Some(1));
    assert_messages(&mut client, 2..=3);
    acknowledge(&mut client, 3);
    assert_eq!(delivered(&server), 5.0, "no other message is sent");
}

#[test]
fn frame_pong_acknowledges_up_to_the_previous_pong() {
    let server = RunningServer::with(&["session.max_unacked=16", "limits.commands_per_second=0"]);
    server.client().publish("news", 1..=40);
    let epoch = server.client().subscribe("news");
    let (mut client, hello) = RawClient::greeted(server.public, "");
    client.text(&format!(
        r#"{{"id":9,"subscribe":{{"channel":"news","since":{{"epoch":"{epoch}","offset":0}}}}}}"#
    ));
    assert!(client.text_message().contains(r#""recovered":true"#));
    assert_messages(&mut client, 1..=16);
    // A full ring causes an immediate ping. A browser's pong does not prove that the page has the messages
    // sent before the ping.
    let ping = client.frame_of(PING);
    assert_eq!(ping.payload, 16_u64.to_be_bytes());
    client.send(&masked(PONG, &ping.payload));
    let ping = client.frame_of(PING);
    assert_eq!(ping.payload, 16_u64.to_be_bytes());
    assert_eq!(delivered(&server), 16.0);
    client.send(&masked(PONG, &ping.payload));
    assert_messages(&mut client, 17..=32);

    client.reset();
    server.await_phase(&hello.session, "suspended");
    let (mut client, again) = resume(&server, &hello, None);
    assert_eq!(again.object["hello"]["seq"], 16);
    assert_messages(&mut client, 17..=32);
}

#[test]
fn client_that_only_answers_pings_receives_a_long_stream() {
    for heartbeat in ["frame", "message"] {
        let server = RunningServer::with(&[
            "session.max_unacked=16",
            "session.ping_interval=1s",
            "session.pong_timeout=1s",
            "limits.commands_per_second=0",
        ]);
        let mut client = Client::connect(server.public, &format!("heartbeat={heartbeat}"));
        client.subscribe("news");
        server.client().publish("news", 1..=200);
        let mut next = 1;
        while next <= 200 {
            let object = client.object();
            if let Some(seq) = object["ping"]["seq"].as_u64() {
                client.send(&format!(r#"{{"pong":{{"seq":{seq}}}}}"#));
                continue;
            }
            assert_eq!(object["message"]["seq"], next, "{heartbeat}: {object}");
            assert_eq!(object["message"]["offset"], next, "{heartbeat}: {object}");
            next += 1;
        }
        server.logs.await_lifecycle(&client.hello.session, &[("opened", "connect")]);
    }
}

#[test]
fn silent_client_receives_no_more_than_the_ring_holds() {
    let server = RunningServer::with(&["session.max_unacked=16", "limits.commands_per_second=0"]);
    let (mut client, _, _) = subscriber(&server, "");
    let mut publisher = server.client();
    publisher.publish("news", 1..=40);
    assert_messages(&mut client, 1..=16);
    publisher.publish("news", 41..=50);
    let_pass(Duration::from_millis(300));
    assert_eq!(delivered(&server), 16.0);

    acknowledge(&mut client, 3);
    assert_messages(&mut client, 17..=19);
    acknowledge(&mut client, 19);
    assert_messages(&mut client, 20..=35);
    acknowledge(&mut client, 35);
    assert_messages(&mut client, 36..=50);
    assert_eq!(server.admin.metrics().value("encke_gaps_total"), 0.0);
}

#[test]
fn suspended_session_on_a_busy_channel_gets_a_gap_and_continues() {
    let server = RunningServer::with(&["channel.history_messages=4"]);
    let (mut client, hello, epoch) = subscriber(&server, "");
    let mut publisher = server.client();
    publisher.publish("news", 1..=2);
    assert_messages(&mut client, 1..=2);
    drop(client);
    server.await_phase(&hello.session, "suspended");
    server.admin.await_offset("news", publisher.publish("news", 3..=22));
    let (mut client, _) = resume(&server, &hello, Some(2));
    assert_eq!(client.text_message(), gap(3, &epoch, 3, 18));
    for (seq, offset) in [(4, 19), (5, 20), (6, 21), (7, 22)] {
        assert_eq!(client.text_message(), message(seq, offset));
    }
    publisher.publish("news", [23]);
    assert_eq!(client.text_message(), message(8, 23));

    // A client that has not received the gap gets it again, with the same seq.
    client.reset();
    server.await_phase(&hello.session, "suspended");
    let (mut client, _) = resume(&server, &hello, Some(2));
    assert_eq!(client.text_message(), gap(3, &epoch, 3, 18));
}

#[test]
fn evicted_messages_become_a_gap_when_they_are_to_be_sent_again() {
    let server = RunningServer::with(&["channel.history_messages=4"]);
    let (mut client, hello, epoch) = subscriber(&server, "");
    let mut publisher = server.client();
    publisher.publish("news", 1..=4);
    assert_messages(&mut client, 1..=4);
    drop(client);
    server.await_phase(&hello.session, "suspended");
    server.admin.await_offset("news", publisher.publish("news", 5..=6));
    let (mut client, _) = resume(&server, &hello, Some(0));
    assert_eq!(
        client.text_message(),
        gap(2, &epoch, 1, 2),
        "the gap has the seq of the last missing message"
    );
    assert_messages(&mut client, 3..=6);
}
