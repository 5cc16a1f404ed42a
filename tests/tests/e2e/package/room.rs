//! The documents' page for one room, run in Chromium.

use encke_tests::waiting::until;
use encke_tests::{RunningServer, Script};
use serde_json::{Value, json};

const ROOM: &str = "room-7";

/// Waits until the page shows the numbers from 1 to `last`, once each and in order. Ignores the first `before`
/// outputs of the page.
#[track_caller]
fn await_shown(page: &Script, before: usize, last: u64) {
    let expected = Value::from_iter((1..=last).map(|number| format!("anonymous: {number}")));
    until(format!("the page shows {expected}: {:?}", page.values("shown")), || {
        page.values("shown").iter().skip(before).any(|shown| *shown == expected)
    });
}

/// Returns how many joins and leaves the room has seen.
fn joins_and_leaves(server: &RunningServer) -> [usize; 2] {
    let history = server.admin.get(&format!("/api/channels/{ROOM}/history?limit=1000")).json();
    let messages = history["messages"].as_array().expect("an array");
    ["joined", "left"].map(|field| messages.iter().filter(|message| message.get(field).is_some()).count())
}

#[test]
fn a_reloaded_page_shows_every_message_and_neither_leaves_nor_joins() {
    let server = RunningServer::with(&["namespace=[{prefix='room-', join_leave=true}]"]);
    server.admin.publish_each(ROOM, 1..=3);
    let mut page = Script::start_in_browser("room.mjs", &[&server.public.to_string()]);
    await_shown(&page, 0, 3);

    page.send_command(&json!({"leave": true}));
    page.await_object("done", 1);
    server.admin.publish_each(ROOM, 4..=5);
    let before = page.count("shown");
    page.send_command(&json!({"return": true}));
    await_shown(&page, before, 5);

    let before = page.count("shown");
    page.send_command(&json!({"reload": true}));
    await_shown(&page, before, 5);
    server.admin.publish(ROOM, 6);
    await_shown(&page, before, 6);
    assert_eq!(joins_and_leaves(&server), [1, 0]);
}
