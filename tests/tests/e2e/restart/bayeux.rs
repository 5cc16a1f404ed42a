use encke_tests::bayeux::{BayeuxPolling, assert_successful, connect, connect_now, events, session};
use serde_json::json;

use super::RestartableServer;

#[test]
fn a_held_connect_is_answered_and_the_session_continues() {
    let mut restarts = RestartableServer::with(&[]);
    let (mut polls, id) = BayeuxPolling::opened(restarts.server.public, &["/news"]);
    restarts.server.admin.publish("/news", 1);
    assert_eq!(events(&polls.request(&connect(&id))), [1]);
    polls.send(&connect(&id));
    restarts.server.await_held(&session(&id));
    restarts.server.terminate();
    // The client is advised to pause before it connects again.
    let answer = polls.response();
    let reply = answer.last().expect("a reply");
    assert_successful(reply);
    let advice = &reply["advice"];
    assert!(advice["interval"].as_u64().is_some_and(|pause| pause < 2_000), "{reply}");
    assert_ne!(advice["reconnect"], "handshake", "{reply}");
    restarts.server.await_exit();
    restarts.start();
    restarts.server.admin.publish("/news", 2);
    let mut polls = BayeuxPolling::connect(restarts.server.public);
    let answer = polls.request(&connect(&id));
    assert_eq!(events(&answer), [2], "{answer:?}");
    // The advised pause has ended.
    assert_eq!(answer.last().map(|reply| &reply["advice"]["interval"]), Some(&json!(0)), "{answer:?}");
    restarts.server.admin.publish("/news", 3);
    assert_eq!(events(&polls.request(&connect_now(&id))), [3]);
}
