use encke_tests::raw::{PING, PONG, masked};
use encke_tests::{Client, Hello, RawClient, RunningServer};

use crate::channels::message;

/// Resumes the session and asserts that the hello confirms it.
#[track_caller]
fn resume(server: &RunningServer, hello: &Hello, seq: Option<u64>) -> (RawClient, Hello) {
    let seq = seq.map_or_else(String::new, |seq| format!("&seq={seq}"));
    let (client, again) = RawClient::greeted(server.public, &format!("resume={}{seq}", hello.resume));
    assert!(again.recovered);
    assert_eq!(again.session, hello.session);
    (client, again)
}

/// Asserts that messages with these offsets arrive, and that their seqs equal their offsets.
#[track_caller]
fn assert_messages(client: &mut RawClient, offsets: impl IntoIterator<Item = u64>) {
    for offset in offsets {
        assert_eq!(client.text_message(), message(offset, offset));
    }
}

/// Returns the total number of messages sent.
#[track_caller]
fn delivered(server: &RunningServer) -> f64 {
    server.admin.metrics().value("encke_messages_delivered_total")
}

#[test]
fn resume_with_a_seq_returns_exactly_the_later_messages() {
    let server = RunningServer::with(&[]);
    let (mut client, hello) = RawClient::greeted(server.public, "");
    client.text(r#"{"id":1,"subscribe":{"channel":"news"}}"#);
    client.text_message();
    let mut publisher = server.client();
    publisher.publish("news", 1..=5);
    assert_messages(&mut client, 1..=5);
    drop(client);
    server.await_phase(&hello.session, "suspended");
    publisher.publish("news", [6]);
    // Nothing was sent with this seq, so the client gets a new session.
    let other = Client::connect(server.public, &format!("resume={}&seq=6", hello.resume));
    assert!(!other.hello.recovered && other.hello.session != hello.session, "{:?}", other.hello);
    assert_eq!(other.hello.object["hello"]["seq"], 0);

    // The client claims to have lost two of the five messages.
    let (mut client, again) = resume(&server, &hello, Some(3));
    assert_eq!(again.object["hello"]["seq"], 3);
    assert_messages(&mut client, 4..=6);
    publisher.publish("news", [7]);
    assert_messages(&mut client, [7]);
    assert_eq!(delivered(&server), 9.0, "two messages are sent twice");
    client.text(r#"{"id":7,"ack":{"seq":5}}"#);
    assert_eq!(client.text_message(), r#"{"reply":{"id":7,"ok":{}}}"#);
    client.reset();
    server.await_phase(&hello.session, "suspended");
    let (mut client, again) = resume(&server, &hello, None);
    assert_eq!(again.object["hello"]["seq"], 5);
    assert_messages(&mut client, 6..=7);
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
    client.send(masked(PONG, &ping.payload));
    let ping = client.frame_of(PING);
    assert_eq!(ping.payload, 16_u64.to_be_bytes());
    assert_eq!(delivered(&server), 16.0);
    client.send(masked(PONG, &ping.payload));
    assert_messages(&mut client, 17..=32);

    client.reset();
    server.await_phase(&hello.session, "suspended");
    let (mut client, again) = resume(&server, &hello, None);
    assert_eq!(again.object["hello"]["seq"], 16);
    assert_messages(&mut client, 17..=32);
}
