use std::collections::BTreeSet;

use encke_tests::waiting::until;
use encke_tests::{Client, Dashboard, RunningServer, ServerOutput};
use serde_json::json;

use super::names;

const ROWS: &str = ".list tbody th";

fn link(id: &str) -> String {
    format!(".list a[href='#/sessions/{id}']")
}

#[test]
fn table_has_filters_and_pages() {
    let server = RunningServer::with_tokens(&["session.reconnect_window=10m"]);
    let clients: Vec<_> = (0..60).map(|number| server.client_of(&format!("user-{number}"))).collect();
    let ids: BTreeSet<_> = clients.iter().map(|client| client.hello.session.clone()).collect();
    let clients: Vec<_> = clients.into_iter().map(Client::into_background).collect();
    let mut page = Dashboard::open(server.admin.address(), "#/sessions");
    until("the first page is full", || page.texts(ROWS).len() == 50);
    let first = page.texts(ROWS);
    page.click("text=Next page");
    until("the second page has the rest", || page.texts(ROWS).len() == 10);
    let both = first.iter().cloned().chain(page.texts(ROWS));
    assert_eq!(both.collect::<BTreeSet<_>>(), ids);
    page.click("text=Previous page");
    until("the first page is shown again", || page.texts(ROWS) == first);

    page.fill("#user", "user-17");
    page.press("Enter");
    page.await_texts(ROWS, &[&clients[17].hello.session]);
    page.await_texts(".list .name", &["user-17"]);

    page.go("#/sessions");
    page.perform("choose", &json!(["#phase", "suspended"]));
    page.click("text=Filter");
    // A filtered page may be empty without being the last.
    until("no session is listed", || {
        page.text("[data-name='says']").is_some_and(|text| text.starts_with("No"))
    });
    drop(clients);
    until("the suspended sessions are listed", || page.texts(ROWS).len() == 50);
    assert_eq!(page.texts(".list .badge"), ["◐ suspended"; 50]);
}

#[test]
fn session_page_agrees_with_the_api() {
    let server = RunningServer::with_tokens(&["session.reconnect_window=10m", "session.ping_interval=10m"]);
    let mut alice = server.client_of("alice");
    alice.subscribe("news");
    alice.subscribe("chat");
    server.admin.publish("news", 1);
    server.admin.publish("news", 2);
    let id = alice.hello.session.clone();
    until("both messages are sent", || server.admin.session(&id)["seq"] == 2);
    let alice = alice.into_background();

    let mut page = Dashboard::open(server.admin.address(), &format!("#/sessions/{id}"));
    page.await_text("[data-name='seq']", "2");
    let session = server.admin.session(&id);
    page.await_text("[data-name='unacknowledged']", &session["unacked"].to_string());
    page.await_text("[data-name='user']", "alice");
    page.await_text("[data-name='connection']", "websocket, json");
    let channels = page.texts("section:has(> h2:text('Subscriptions')) tbody th");
    assert_eq!(channels, names(&session["subscriptions"], "channel"));
    let deadlines = page.texts(".deadlines tbody th");
    assert_eq!(deadlines, names(&session["deadlines"], "deadline"));
    let is_shown = |page: &mut Dashboard, deadline: &str, begins: &str| {
        page.text(&format!("[data-deadline='{deadline}']")).is_some_and(|text| text.starts_with(begins))
    };
    until("the lifetime is shown", || is_shown(&mut page, "lifetime", "23 h 59 min"));
    page.await_texts(".events b", &["opened"]);

    drop(alice);
    page.await_text(".badge", "◐ suspended");
    page.await_texts(".events b", &["suspended", "opened"]);
    until("the reconnect window is shown", || is_shown(&mut page, "reconnect", "9 min "));

    assert_eq!(server.admin.kick(&id).status, 204);
    page.await_text(".notice", "This session has ended: kicked.");
    page.await_text(".badge", "○ closed");
    page.await_text(".acts .note", "The session has already ended.");
    until("the timeline ends with the close", || page.text(".events b").is_some_and(|last| last == "closed"));

    page.go("#/sessions/s_fjuLroW4R2mZ1cY0pX9dTA");
    page.await_text(".notice", "Unknown session: it ended long ago, or never existed.");
}

#[test]
fn session_is_disconnected_and_ended_after_confirmation() {
    let server = RunningServer::with(&[]);
    let client = server.client();
    let id = client.hello.session.clone();
    let client = client.into_background();
    let mut page = Dashboard::open(server.admin.address(), "#/sessions");
    page.await_visible(&link(&id));
    page.tab_to(&id);
    page.press("Enter");
    page.await_text("h1", "Session");
    page.await_text(".badge", "● attached");
    page.tab_to("End session…");
    page.press("Enter");
    page.await_text("dialog h2", "End this session?");
    assert_eq!(page.focused(), "Cancel");
    page.press("Escape");
    until("the dialog is closed", || page.count("dialog") == 0);
    assert_eq!(page.focused(), "End session…");
    assert_eq!(server.admin.phase(&id).as_deref(), Some("attached"));

    page.click("text=Disconnect…");
    page.click("dialog .danger");
    let is_disconnected = |it: &_| matches!(it, ServerOutput::Close(4007, _));
    until("the connection is closed", || client.received().iter().any(is_disconnected));
    page.await_text(".badge", "◐ suspended");
    page.click("text=Disconnect…");
    page.click("dialog .danger");
    page.await_text(".notice", "The session has no connection now.");
    page.tab_to("End session…");
    page.press("Enter");
    page.tab_to("End session");
    page.press("Enter");
    page.await_text(".badge", "○ closed");
    server.await_removal(&id);
    page.await_text(".acts .note", "The session has already ended.");
    assert_eq!(page.focused(), "End session…");
}

#[test]
fn confirmation_names_its_session_and_closes_with_its_page() {
    let server = RunningServer::with_tokens(&[]);
    let clients = ["alice", "bob"].map(|name| server.client_of(name));
    let [alice, bob] = clients.each_ref().map(|client| client.hello.session.clone());
    let _clients = clients.map(Client::into_background);
    let mut page = Dashboard::open(server.admin.address(), &format!("#/sessions/{alice}"));
    page.await_text("[data-name='user']", "alice");
    page.go(&format!("#/sessions/{bob}"));
    page.await_text("[data-name='user']", "bob");
    page.click("text=End session…");
    page.await_text("#question-about", &format!("{bob}, user bob"));
    page.perform("back", &json!([]));
    page.await_text("[data-name='user']", "alice");
    until("the dialog is closed", || page.count("dialog") == 0);
    assert_eq!(page.focused(), "Session");
    assert_eq!(server.admin.phase(&bob).as_deref(), Some("attached"));
    page.click("text=End session…");
    page.await_text("#question-about", &format!("{alice}, user alice"));
    page.click("dialog .danger");
    server.await_removal(&alice);
    assert_eq!(server.admin.phase(&bob).as_deref(), Some("attached"));
}
