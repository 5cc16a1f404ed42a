use std::net::{SocketAddr, TcpListener};
use std::thread;

use encke_tests::waiting::{eventually, until};
use encke_tests::{Dashboard, Launch, RunningServer};
use serde_json::json;
use tungstenite::Message;

use super::with_names;

const STATE: &str = "[data-name='player']";

fn connected(server: &RunningServer) -> (Dashboard, String) {
    let mut page = Dashboard::open(server.admin.address(), "#/playground");
    page.await_text(STATE, "Not connected.");
    page.click("button:text-is('Connect')");
    page.await_text(STATE, "Connected, in a new session.");
    let id = eventually("its session is told", || page.text("main a.id").filter(|id| id.starts_with("s_")));
    (page, id)
}

/// Sends a template as it is.
fn say(page: &mut Dashboard, template: &str) {
    page.perform("choose", &json!(["#template", template]));
    page.click("button:text-is('Send')");
}

/// A frame that begins so.
fn await_frame(page: &mut Dashboard, way: &str, begins: &str) {
    until(format!("{way}: {begins}"), || {
        page.texts(&format!("[data-way='{way}']")).iter().any(|frame| frame.starts_with(begins))
    });
}

#[test]
fn a_client_in_the_page_is_cut_and_comes_back() {
    let server = RunningServer::with(&[]);
    let (mut page, id) = connected(&server);
    assert!(page.sockets()[0].starts_with(&format!("ws://{}/ws?heartbeat=message", server.public)));
    say(&mut page, "subscribe");
    await_frame(&mut page, "sent", r#"{"id":1,"subscribe""#);
    await_frame(&mut page, "received", r#"{"reply":{"id":1,"ok""#);
    say(&mut page, "publish");
    await_frame(&mut page, "received", r#"{"message":{"seq":1,"channel":"news""#);

    page.click("text=Drop the connection");
    server.await_phase(&id, "suspended");
    page.await_text("main .badge", "◐ suspended");
    until("its window runs down", || page.texts("[data-deadline='reconnect']").len() == 1);
    server.admin.publish("news", 2);
    page.click("button:text-is('Reconnect')");
    page.await_text(STATE, "Recovered: the same session, and no messages were lost.");
    await_frame(&mut page, "received", r#"{"message":{"seq":2,"channel":"news""#);
    page.await_text("main .badge", "● attached");
    assert_eq!(page.text("main a.id"), Some(id.clone()));

    // Its session is looked at elsewhere, and it is still there.
    page.click("main a.id");
    page.await_text("h1", "Session");
    page.await_text(".badge", "● attached");
    page.go("#/playground");
    page.await_text(STATE, "Recovered: the same session, and no messages were lost.");
    say(&mut page, "close: end the session");
    server.await_removal(&id);
    page.await_text(STATE, "Closed by the server: 1000 (normal).");
}

#[test]
fn a_session_that_is_gone_waits_for_nobody() {
    let server = RunningServer::with(&[]);
    let (mut page, id) = connected(&server);
    page.await_text("main .badge", "● attached");
    page.click("text=Drop the connection");
    assert_eq!(page.focused(), "Drop the connection");
    page.await_text(STATE, "Connection dropped. The session waits for you to reconnect.");
    assert_eq!(server.admin.kick(&id).status, 204);
    page.await_text(STATE, "Connection dropped. The session has ended.");
    page.click("button:text-is('Reconnect')");
    page.await_text(STATE, "Closed by the server: 4101 (kicked).");
    assert_eq!(page.focused(), "Reconnect");
}

#[test]
fn a_server_that_does_not_answer_is_given_up() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it has an address");
    let server = RunningServer::with(&[&format!("listen.public_url=http://{address}")]);
    let mut page = Dashboard::open(server.admin.address(), "#/playground");
    page.fill("#token", "some.token");
    page.click("button:text-is('Connect')");
    page.await_text(STATE, "Connecting.");
    assert_eq!(page.focused(), "Connect");
    page.click("text=Drop the connection");
    page.await_text(STATE, "Connection dropped before it was open.");
    page.go("#/limits");
    page.await_text("h1", "Limits");
    page.go("#/playground");
    page.await_text(STATE, "Connection dropped before it was open.");
    assert_eq!(page.perform("kept", &json!(["some.token"])), true, "the token is still typed");
}

/// Says what no Encke says.
fn stranger() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it has an address");
    thread::spawn(move || {
        let (stream, _) = listener.accept().expect("the page connects");
        let mut socket = tungstenite::accept(stream).expect("the page upgrades");
        let texts =
            ["no JSON", "null", "7", r#"{"ping":{"seq":1}}"#, r#"{"hello":true}"#, r#"{"message":null}"#];
        socket.send(Message::binary(vec![0; 5])).expect("the page reads");
        for text in texts {
            socket.send(Message::text(text)).expect("the page reads");
        }
        let _ = socket.read();
    });
    address
}

#[test]
fn what_is_no_frame_of_encke_is_shown_as_it_is() {
    let url = format!("listen.public_url=http://{}", stranger());
    let server = RunningServer::with(&[&url]);
    let mut page = Dashboard::open(server.admin.address(), "#/playground");
    page.click("button:text-is('Connect')");
    page.await_texts(
        "[data-way='received']",
        &[
            r#"{"message":null}"#,
            r#"{"hello":true}"#,
            r#"{"ping":{"seq":1}}"#,
            "7",
            "null",
            "no JSON",
            "binary, 5 bytes",
        ],
    );
    page.await_text(STATE, "Connected.");
    assert_eq!(page.count("[data-way='sent']"), 0);
    page.assert_no_fault();
}

#[test]
fn of_all_frames_the_newest_are_kept() {
    const KEPT: usize = 500;
    let server = RunningServer::with(&["session.ping_interval=1h"]);
    let (mut page, _) = connected(&server);
    say(&mut page, "subscribe");
    await_frame(&mut page, "received", r#"{"reply":{"id":1,"ok""#);
    for number in 1..=KEPT + 10 {
        server.admin.publish("news", number);
    }
    let newest =
        format!(r#"{{"message":{{"seq":{0},"channel":"news","offset":{0},"data":{0}}}}}"#, KEPT + 10);
    until("the newest is there", || page.text("[data-way]").as_deref() == Some(&*newest));
    assert_eq!(page.texts("[data-way]").len(), KEPT);
}

#[test]
fn a_client_that_falls_silent_is_found_out() {
    let server = RunningServer::with(&["session.ping_interval=1s", "session.pong_timeout=500ms"]);
    let (mut page, id) = connected(&server);
    await_frame(&mut page, "received", r#"{"ping":"#);
    await_frame(&mut page, "sent", r#"{"pong":"#);
    page.click("text=Stop answering");
    page.await_text(
        STATE,
        "Closed by the server: 4000 (pong_timeout). The session waits for you to reconnect.",
    );
    page.await_text("main .badge", "◐ suspended");
    server.logs.await_lifecycle(&id, &[("opened", "connect"), ("suspended", "pong_timeout")]);
    page.click("button:text-is('Reconnect')");
    page.await_text(STATE, "Recovered: the same session, and no messages were lost.");
}

#[test]
fn a_client_without_a_token_is_told_what_is_missing() {
    let server = with_names(&[]);
    let mut page = Dashboard::open(server.admin.address(), "#/playground");
    page.click("button:text-is('Connect')");
    until("it says why", || page.text(STATE).is_some_and(|text| text.contains("4102")));
    let claims = json!({"sub": "alice", "channels": {"*": ["subscribe"]}});
    page.fill("#token", &encke_tests::tokens::sign(&claims, encke_tests::tokens::SECRET));
    page.click("button:text-is('Connect')");
    page.await_text(STATE, "Connected, in a new session.");
}

#[test]
fn the_page_connects_to_where_clients_are_told_to() {
    let server = RunningServer::with(&[]);
    let url = format!("listen.public_url=http://localhost:{}/", server.public.port());
    let other = Launch::with(&[&url]).start();
    let mut page = Dashboard::open(other.admin.address(), "#/playground");
    page.click("button:text-is('Connect')");
    page.await_text(STATE, "Connected, in a new session.");
    assert_eq!(server.admin.metrics().connections(), 1.0);
    assert!(page.sockets()[0].starts_with(&format!("ws://localhost:{}/ws?", server.public.port())));
}
