//! Pattern subscriptions in the `json` dialect.

use encke_tests::RunningServer;
use encke_tests::raw::RawClient;
use encke_tests::server::tests_use_redis;
use serde_json::json;

#[test]
fn message_through_a_pattern_has_its_position_in_both_logs() {
    let server = RunningServer::with(&[]);
    let (mut client, _) = RawClient::greeted(server.public, "");
    client.text(r#"{"id":1,"subscribe":{"channel":"/a/*"}}"#);
    let pattern = client.object()["reply"]["ok"]["epoch"].as_str().expect("an epoch").to_owned();
    let mut publisher = server.client();
    publisher.publish("/b", [1]);
    publisher.publish("/a/b/c", [2]);
    let reply = publisher.request(r#"{"id":1,"publish":{"channel":"/a/b","data":3}}"#);
    let channel = reply["ok"]["epoch"].as_str().expect("an epoch");
    let expected = format!(
        r#"{{"message":{{"seq":1,"pattern":{{"name":"/a/*","epoch":"{pattern}","offset":1}},"epoch":"{channel}","channel":"/a/b","offset":1,"data":3}}}}"#
    );
    assert_eq!(client.text_message(), expected);
}

/// A gap names the pattern. A message that was already sent through a pattern is not sent again through its
/// channel. On that channel, `last` therefore behaves like `since`.
#[test]
fn since_and_last_of_a_pattern_return_its_messages() {
    let server = RunningServer::with(&["channel.history_messages=3"]);
    let mut client = server.client();
    let epoch = client.subscribe("/a/**");
    let mut publisher = server.client();
    for number in 1..=6 {
        publisher.publish(&format!("/a/{number}"), [number]);
        assert_eq!(client.message()["data"], number);
    }
    let gap = json!({"gap": {"seq": 1, "channel": "/a/**", "epoch": epoch, "from": 2, "to": 3}});
    for (offset, first) in [(4, 5), (1, 4)] {
        let mut client = server.client();
        let since = json!({"epoch": epoch, "offset": offset});
        let command = json!({"id": 1, "subscribe": {"channel": "/a/**", "since": since}});
        let reply = client.request(&command);
        assert_eq!((&reply["ok"]["recovered"], &reply["ok"]["offset"]), (&json!(offset >= 3), &json!(6)));
        if offset < 3 {
            assert_eq!(client.object(), gap);
        }
        for number in first..=6 {
            let message = client.message();
            assert_eq!(message["pattern"], json!({"name": "/a/**", "epoch": epoch, "offset": number}));
            assert_eq!(message["channel"], format!("/a/{number}"));
            assert_eq!(message["offset"], 1);
        }
    }
    for (count, expected) in [(2, 5..=6), (3, 4..=6), (9, 4..=6)] {
        let mut client = server.client();
        let reply = client.request(json!({"id": 1, "subscribe": {"channel": "/a/**", "last": count}}));
        assert_eq!(reply["ok"], json!({"channel": "/a/**", "epoch": epoch, "offset": 6}));
        for number in expected {
            let message = client.message();
            let place = json!({"name": "/a/**", "epoch": epoch, "offset": number});
            assert_eq!((&message["pattern"], &message["data"]), (&place, &json!(number)));
        }
    }
    let reply = client.request(json!({"id": 1, "subscribe": {"channel": "/a/6", "last": 1}}));
    assert_eq!(reply["ok"]["offset"], 1, "{reply}");
    publisher.publish("/a/6", [7]);
    let mut next = client.message();
    // With Redis, a log without earlier subscribers has no record of what was sent through the pattern, so a
    // message may arrive through both.
    if tests_use_redis() && next["data"] == 6 {
        next = client.message();
    }
    assert_eq!(next["data"], 7);
}

#[test]
fn patterns_count_as_channels_and_are_shown_by_the_api() {
    let server = RunningServer::with(&["limits.max_subscriptions=2", "limits.max_channels=3"]);
    let mut client = server.client();
    client.subscribe("/a/*");
    client.subscribe("/a/b");
    client.assert_refused(r#"{"id":1,"subscribe":{"channel":"/a/**"}}"#, "limit");
    let mut other = server.client_from("127.0.0.2");
    let present = other.request(r#"{"id":1,"presence":{"channel":"/a/*"}}"#);
    assert_eq!(present["ok"]["total"], 1, "subscribers of the pattern");
    other.subscribe("/c");
    other.assert_refused(r#"{"id":1,"subscribe":{"channel":"/d"}}"#, "limit");
    server.admin.publish("/a/b", json!("x"));
    let page = server.admin.get("/api/channels").json();
    let channels = page["channels"].as_array().expect("a list");
    let shown: Vec<_> = channels.iter().map(|it| (it["channel"].clone(), it["pattern"].clone())).collect();
    let is = |name: &str, pattern: bool| (json!(name), json!(pattern));
    assert_eq!(shown, [is("/a/*", true), is("/a/b", false), is("/c", false)]);
    let history = server.admin.get("/api/channels/%2Fa%2F%2A/history").json();
    assert_eq!(history["messages"][0]["channel"], "/a/b");
    let history = server.admin.get("/api/channels/%2Fa%2Fb/history").json();
    assert_eq!(history["messages"][0].get("channel"), None);
}
