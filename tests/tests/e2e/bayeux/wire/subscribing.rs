use encke_tests::RunningServer;
use encke_tests::bayeux::{BayeuxPolling, assert_successful, connect_now, events, subscribe, unsubscribe};
use serde_json::json;

use super::subscribed_channels;

#[test]
fn subscription_is_a_name_or_an_array_of_names() {
    let server = RunningServer::with(&[]);
    let (mut polls, id) = BayeuxPolling::opened(server.public, &[]);
    for (wanted, all) in [
        (json!("/a"), vec!["/a"]),
        (json!(["/b", "/c/*"]), vec!["/a", "/b", "/c/*"]),
        // One channel is repeated, and one is new.
        (json!(["/a", "/d/**"]), vec!["/a", "/b", "/c/*", "/d/**"]),
    ] {
        let reply = polls.reply(&subscribe(&id, wanted.clone()));
        assert_successful(&reply);
        assert_eq!([&reply["channel"], &reply["id"]], ["/meta/subscribe", "s"]);
        assert_eq!(reply["subscription"], wanted);
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
