use std::net::SocketAddr;
use std::thread;

use encke_tests::port::listen;
use encke_tests::server::FREQUENT_PINGS;
use encke_tests::tokens::token;
use encke_tests::waiting::{eventually, until};
use encke_tests::{Dashboard, Launch, RunningServer};
use serde_json::json;
use tungstenite::Message;

const STATE: &str = "[data-name='player']";

fn connected(server: &RunningServer) -> (Dashboard, String) {
    let mut page = Dashboard::open(server.admin.address(), "#/playground");
    page.await_text(STATE, "Not connected.");
    page.click("button:text-is('Connect')");
    page.await_text(STATE, "Connected, in a new session.");
    let id = eventually("the session is shown", || page.text("main a.id").filter(|id| id.starts_with("s_")));
    (page, id)
}

/// Sends a template unchanged.
fn send_template(page: &mut Dashboard, template: &str) {
    page.perform("choose", &json!(["#template", template]));
    page.click("button:text-is('Send')");
}

/// Waits for a frame that begins with this text.
fn await_frame(page: &mut Dashboard, way: &str, begins: &str) {
    until(format!("{way}: {begins}"), || {
        page.texts(&format!("[data-way='{way}']")).iter().any(|frame| frame.starts_with(begins))
    });
}

#[test]
fn client_in_the_page_disconnects_and_resumes() {
    let server = RunningServer::with(&[]);
    let (mut page, id) = connected(&server);
    assert!(page.sockets()[0].starts_with(&format!("ws://{}/ws?heartbeat=message", server.public)));
    send_template(&mut page, "subscribe");
    await_frame(&mut page, "sent", r#"{"id":1,"subscribe""#);
    await_frame(&mut page, "received", r#"{"reply":{"id":1,"ok""#);
    send_template(&mut page, "publish");
    await_frame(&mut page, "received", r#"{"message":{"seq":1,"channel":"news""#);

    page.click("text=Drop the connection");
    server.await_phase(&id, "suspended");
    page.await_text("main .badge", "◐ suspended");
    until("the reconnect window is shown", || page.texts("[data-deadline='reconnect']").len() == 1);
    server.admin.publish("news", 2);
    page.click("button:text-is('Reconnect')");
    page.await_text(STATE, "Recovered: the same session, and no messages were lost.");
    await_frame(&mut page, "received", r#"{"message":{"seq":2,"channel":"news""#);
    page.await_text("main .badge", "● attached");
    assert_eq!(page.text("main a.id"), Some(id.clone()));

    // The session's page shows that it is still open.
    page.click("main a.id");
    page.await_text("h1", "Session");
    page.await_text(".badge", "● attached");
    page.go("#/playground");
    page.await_text(STATE, "Recovered: the same session, and no messages were lost.");
    send_template(&mut page, "close: end the session");
    server.await_removal(&id);
    page.await_text(STATE, "Closed by the server: 1000 (normal).");
}

#[test]
fn ended_session_cannot_be_resumed() {
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
fn attempt_to_connect_can_be_dropped() {
    let (_listener, address) = listen();
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
    assert_eq!(page.perform("kept", &json!(["some.token"])), true, "the token is still in its field");
}

/// Starts a server that sends frames which Encke never sends.
fn foreign_server() -> SocketAddr {
    let (listener, address) = listen();
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
fn unknown_frames_are_shown_unchanged() {
    let url = format!("listen.public_url=http://{}", foreign_server());
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
fn silent_client_is_detected() {
    let server = RunningServer::with(&FREQUENT_PINGS);
    let (mut page, id) = connected(&server);
    await_frame(&mut page, "received", r#"{"ping":"#);
    await_frame(&mut page, "sent", r#"{"pong":"#);
    page.click("button:text-is('Stop answering')");
    page.await_text(
        STATE,
        "Closed by the server: 4000 (pong_timeout). The session waits for you to reconnect.",
    );
    page.await_text("main .badge", "◐ suspended");
    server.await_lifecycle(&id, "opened connect, suspended pong_timeout");
    page.click("button:text-is('Reconnect')");
    page.await_text(STATE, "Recovered: the same session, and no messages were lost.");
}

/// The page connects to `listen.public_url`.
#[test]
fn client_without_a_token_sees_the_close_code() {
    let server = RunningServer::with_tokens(&[]);
    let url = format!("listen.public_url=http://localhost:{}/", server.public.port());
    let other = Launch::with(&[&url]).start();
    let mut page = Dashboard::open(other.admin.address(), "#/playground");
    page.click("button:text-is('Connect')");
    until("the reason is shown", || page.text(STATE).is_some_and(|text| text.contains("4102")));
    page.fill("#token", &token("alice", json!({})));
    page.click("button:text-is('Connect')");
    page.await_text(STATE, "Connected, in a new session.");
    assert!(page.sockets()[0].starts_with(&format!("ws://localhost:{}/ws?", server.public.port())));
}
