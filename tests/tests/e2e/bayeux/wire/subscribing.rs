use encke_tests::bayeux::{
    BayeuxPolling, assert_refused, assert_successful, connect_now, events, subscribe, unsubscribe, with_field,
};
use encke_tests::tokens::{SECRET, sign};
use encke_tests::{Launch, RunningServer};
use serde_json::json;

use super::{assert_refused_with_any_code, subscribed_channels};

#[test]
fn subscription_is_a_name_or_an_array_of_names() {
    let server = RunningServer::with(&[]);
    let mut polls = BayeuxPolling::connect(server.public);
    let id = polls.open(&[]);
    for (wanted, all) in [
        (json!("/a"), vec!["/a"]),
        (json!(["/b", "/c/*"]), vec!["/a", "/b", "/c/*"]),
        // One channel is repeated, and one is new.
        (json!(["/a", "/d/**"]), vec!["/a", "/b", "/c/*", "/d/**"]),
    ] {
        let reply = polls.reply(&subscribe(&id, wanted.clone()));
        assert_successful(&reply);
        assert_eq!(
            (&reply["channel"], &reply["id"], &reply["subscription"]),
            (&json!("/meta/subscribe"), &json!("s"), &wanted)
        );
        assert_eq!(subscribed_channels(&server, &id), all);
    }
    for channel in ["/a", "/c/x", "/d/x/y", "/c/x/y"] {
        server.admin.publish(channel, channel);
    }
    assert_eq!(events(&polls.request(&connect_now(&id))), ["/a", "/c/x", "/d/x/y"]);
    for (removed, left) in [(json!(["/a", "/d/**"]), vec!["/b", "/c/*"]), (json!("/b"), vec!["/c/*"])] {
        let reply = polls.reply(&unsubscribe(&id, removed.clone()));
        assert_successful(&reply);
        assert_eq!((&reply["channel"], &reply["subscription"]), (&json!("/meta/unsubscribe"), &removed));
        assert_eq!(subscribed_channels(&server, &id), left);
    }
    server.admin.publish("/a", 1);
    server.admin.publish("/c/x", 2);
    assert_eq!(events(&polls.request(&connect_now(&id))), [2]);
}

#[test]
fn array_is_subscribed_to_entirely_or_not_at_all() {
    let server = RunningServer::with(&["limits.max_subscriptions=3"]);
    let mut polls = BayeuxPolling::connect(server.public);
    let id = polls.open(&["/a"]);
    for refused in [
        json!(["/b", "/$x", "$x"]),
        json!(["/b", ""]),
        json!(["/b", 7]),
        json!(["/b", "/c", "/d"]),
        json!(["/b", "x".repeat(300)]),
        json!(""),
        json!({}),
    ] {
        let reply = polls.reply(&subscribe(&id, refused.clone()));
        assert_refused_with_any_code(&reply);
        assert_eq!(reply["channel"], "/meta/subscribe", "{refused}");
        assert_eq!(subscribed_channels(&server, &id), ["/a"], "{refused}");
    }
    let mut nothing = subscribe(&id, "/b");
    nothing.as_object_mut().expect("an object").remove("subscription");
    assert_refused_with_any_code(&polls.reply(&nothing));
    // The session is still usable.
    assert_successful(&polls.reply(&subscribe(&id, json!(["/b", "/c"]))));
}

/// A token allows a pattern if it allows all channels that the pattern can match.
#[test]
fn token_limits_subscriptions() {
    let server = Launch::default().environment("ENCKE_AUTH__SECRET", SECRET).start();
    let channels = json!({"/a/*": ["subscribe", "publish"], "/news": ["subscribe"]});
    let token = sign(&json!({"sub": "alice", "channels": channels}), SECRET);
    let mut polls = BayeuxPolling::connect(server.public);
    let hello =
        with_field(encke_tests::bayeux::handshake(), "ext", json!({"authentication": {"token": token}}));
    let id = encke_tests::bayeux::client_id(&polls.reply(&hello));
    for allowed in ["/news", "/a/b", "/a/*", "/a/b/**", "/a/**"] {
        assert_successful(&polls.reply(&subscribe(&id, allowed)));
    }
    let before = subscribed_channels(&server, &id);
    for refused in [json!("/b"), json!("/*"), json!("/**"), json!(["/a/c", "/b"])] {
        assert_refused(&polls.reply(&subscribe(&id, refused)), "403");
        assert_eq!(subscribed_channels(&server, &id), before);
    }
    assert_successful(&polls.reply(&encke_tests::bayeux::publish(&id, "/a/b", 1)));
    assert_refused(&polls.reply(&encke_tests::bayeux::publish(&id, "/news", 1)), "403");
}
