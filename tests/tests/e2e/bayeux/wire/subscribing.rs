use encke_tests::bayeux::{
    BayeuxPolling, assert_refused, assert_successful, connect_now, events, subscribe, unsubscribe, with_field,
};
use encke_tests::tokens::{SECRET, sign};
use encke_tests::{Launch, RunningServer};
use serde_json::json;

use super::{assert_refused_somehow, followed};

#[test]
fn a_name_or_an_array_of_them() {
    let server = RunningServer::with(&[]);
    let mut polls = BayeuxPolling::connect(server.public);
    let id = polls.open(&[]);
    for (wanted, all) in [
        (json!("/a"), vec!["/a"]),
        (json!(["/b", "/c/*"]), vec!["/a", "/b", "/c/*"]),
        // Again, and with one that is new.
        (json!(["/a", "/d/**"]), vec!["/a", "/b", "/c/*", "/d/**"]),
    ] {
        let reply = polls.reply(&subscribe(&id, wanted.clone()));
        assert_successful(&reply);
        assert_eq!(
            (&reply["channel"], &reply["id"], &reply["subscription"]),
            (&json!("/meta/subscribe"), &json!("s"), &wanted)
        );
        assert_eq!(followed(&server, &id), all);
    }
    for channel in ["/a", "/c/x", "/d/x/y", "/c/x/y"] {
        server.admin.publish(channel, channel);
    }
    assert_eq!(events(&polls.request(&connect_now(&id))), ["/a", "/c/x", "/d/x/y"]);
    for (gone, left) in [(json!(["/a", "/d/**"]), vec!["/b", "/c/*"]), (json!("/b"), vec!["/c/*"])] {
        let reply = polls.reply(&unsubscribe(&id, gone.clone()));
        assert_successful(&reply);
        assert_eq!((&reply["channel"], &reply["subscription"]), (&json!("/meta/unsubscribe"), &gone));
        assert_eq!(followed(&server, &id), left);
    }
    server.admin.publish("/a", 1);
    server.admin.publish("/c/x", 2);
    assert_eq!(events(&polls.request(&connect_now(&id))), [2]);
}

#[test]
fn all_or_nothing() {
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
        assert_refused_somehow(&reply);
        assert_eq!(reply["channel"], "/meta/subscribe", "{refused}");
        assert_eq!(followed(&server, &id), ["/a"], "{refused}");
    }
    let mut nothing = subscribe(&id, "/b");
    nothing.as_object_mut().expect("an object").remove("subscription");
    assert_refused_somehow(&polls.reply(&nothing));
    // The session is unharmed.
    assert_successful(&polls.reply(&subscribe(&id, json!(["/b", "/c"]))));
}

/// A pattern is allowed where every channel is that it can match.
#[test]
fn a_token_says_what_may_be_followed() {
    let server = Launch::default().environment("ENCKE_AUTH__SECRET", SECRET).start();
    let channels = json!({"/a/*": ["subscribe", "publish"], "/news": ["subscribe"]});
    let token = sign(&json!({"sub": "alice", "channels": channels}), SECRET);
    let mut polls = BayeuxPolling::connect(server.public);
    let hello = with_field(encke_tests::bayeux::handshake(), "ext", json!({"authentication": {"token": token}}));
    let id = encke_tests::bayeux::client_id(&polls.reply(&hello));
    for allowed in ["/news", "/a/b", "/a/*", "/a/b/**", "/a/**"] {
        assert_successful(&polls.reply(&subscribe(&id, allowed)));
    }
    let before = followed(&server, &id);
    for refused in [json!("/b"), json!("/*"), json!("/**"), json!(["/a/c", "/b"])] {
        assert_refused(&polls.reply(&subscribe(&id, refused)), "403");
        assert_eq!(followed(&server, &id), before);
    }
    assert_successful(&polls.reply(&encke_tests::bayeux::publish(&id, "/a/b", 1)));
    assert_refused(&polls.reply(&encke_tests::bayeux::publish(&id, "/news", 1)), "403");
}
