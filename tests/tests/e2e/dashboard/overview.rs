use encke_tests::process::Signal;
use encke_tests::waiting::until;
use encke_tests::{Dashboard, EventStream, Launch, RunningServer};
use serde_json::{Value, json};

/// Starts a server with sessions, channels and connections of each kind, whose numbers do not change.
fn populated_server() -> (RunningServer, Vec<encke_tests::client::BackgroundClient>, EventStream) {
    let server = RunningServer::with(&["limits.max_sessions=5", "session.ping_interval=1h"]);
    let mut clients: Vec<_> = (0..3).map(|_| server.client()).collect();
    for client in &mut clients {
        client.subscribe("news");
    }
    server.admin.publish_each("news", 0..7);
    let stream = EventStream::open(server.public, "channels=news");
    let _ = server.suspended_session();
    (server, clients.into_iter().map(encke_tests::Client::into_background).collect(), stream)
}

fn number(value: &Value) -> u64 {
    value.as_u64().expect("it is a number")
}

#[test]
fn overview_and_limits_agree_with_the_api_and_the_chart_is_read_by_keyboard() {
    let (server, clients, _stream) = populated_server();
    let mut page = Dashboard::open(server.admin.address(), "#/");
    page.await_text("#stream b", "live");
    assert_eq!(page.perform("title", &json!([])), "Overview · Encke");

    page.await_text("[data-name='sessions']", "5");
    page.await_text("[data-name='sessions.note']", "4 attached, 1 suspended");
    page.await_text("[data-panel='Sessions by phase'] [data-series='attached']", "4");
    page.await_text("[data-panel='Sessions by phase'] [data-series='suspended']", "1");
    let metrics = server.admin.metrics();
    assert_eq!(metrics.total("encke_connections"), 4.0);
    assert_eq!(metrics.value("encke_messages_published_total"), 7.0);
    page.await_text("[data-name='connections']", "4");
    page.await_text("[data-panel='Connections'] [data-series='websocket json']", "3");
    page.await_text("[data-panel='Connections'] [data-series='sse json']", "1");
    page.await_text("[data-name='channels']", "1");
    page.await_text("[data-name='published.note']", "7 total");

    until("the wheel is stable and shown correctly", || {
        let timers = server.admin.get("/api/timers").json();
        let levels = timers["levels"].as_array().expect("there are levels");
        let shown = |page: &mut Dashboard, name: &str| page.number(name);
        shown(&mut page, "timers.entries") == Some(number(&timers["entries"]))
            && levels.iter().enumerate().all(|(level, held)| {
                shown(&mut page, &format!("timers.levels.{level}")) == Some(number(held))
            })
    });
    let label = page.perform("attribute", &json!(["canvas", "aria-label"]));
    assert!(label.as_str().is_some_and(|label| label.starts_with("The wheel holds ")), "{label}");

    // The chart can be read by keyboard.
    page.click("[data-panel='Sessions by phase'] .chart");
    page.press("End");
    let shows = |page: &mut Dashboard, part: &str| page.text(".at").is_some_and(|text| text.contains(part));
    until("the newest point is shown", || shows(&mut page, ": attached 4, suspended 1"));
    page.press("Home");
    until("the oldest point is shown", || shows(&mut page, " ago: attached "));
    let value =
        page.perform("attribute", &json!(["[data-panel='Sessions by phase'] .chart", "aria-valuetext"]));
    assert!(value.as_str().is_some_and(|text| text.contains(" ago: attached ")), "{value}");
    page.press("Escape");
    until("the values are hidden", || page.texts(".at").is_empty());
    let chart = json!(["[data-panel='Sessions by phase'] .chart", "aria-valuetext"]);
    let now = |page: &mut Dashboard, text: &str| page.perform("attribute", &chart).as_str() == Some(text);
    until("the newest value is announced again", || now(&mut page, "now: attached 4, suspended 1"));
    page.press("Tab");
    // The new session evicts the suspended one.
    let _more = server.client();
    until("the current value is announced on return", || now(&mut page, "now: attached 5, suspended 0"));

    // The limit that is reached comes first.
    page.go("#/limits");
    page.await_text(".limits tbody tr:first-child code", "limits.max_sessions");
    page.await_text(".limits tbody tr:first-child .word", "full");
    assert_eq!(page.number("limits.max_sessions.used"), Some(5));
    assert_eq!(page.number("limits.max_sessions.max"), Some(5));
    until("the summary is shown", || {
        page.text("[data-name='says']")
            .is_some_and(|text| text.starts_with("1 of ") && text.ends_with(" is near or reached."))
    });
    assert_eq!(server.admin.kick(&clients[0].hello.session).status, 204);
    page.await_text(".limits tbody tr:first-child .word", "near");
}

#[test]
fn a_scheme_without_slots_has_bars() {
    let server = RunningServer::with(&["timers.scheme=binary-heap"]);
    let _clients = [server.client(), server.client()].map(encke_tests::Client::into_background);
    let mut page = Dashboard::open(server.admin.address(), "#/");
    page.await_visible(".level-bars li");
    assert!(page.texts("canvas").is_empty(), "no wheel is drawn");
    until("the timers are shown", || {
        let entries = number(&server.admin.get("/api/timers").json()["entries"]);
        page.text(".no-slots .total")
            .is_some_and(|text| text == format!("{entries} timers, held by binary-heap, which has no slots"))
    });
}

#[test]
fn stream_reconnects_to_a_restarted_server() {
    let mut server = RunningServer::with(&[]);
    let (public, admin) = (server.public.to_string(), server.admin.address().to_string());
    let mut page = Dashboard::open(server.admin.address(), "#/");
    page.await_text("#stream b", "live");
    page.await_text("[data-name='sessions']", "0");
    server.signal(Signal::KILL);
    server.await_exit();
    page.await_text("#stream b", "reconnecting");
    let server = Launch::listening_on_both(&public, &admin).start();
    let _client = server.client().into_background();
    page.await_text("#stream b", "live");
    page.await_text("[data-name='sessions']", "1");
    until("the footer counts the session", || {
        page.text("#about").is_some_and(|text| text.ends_with(", 1 session"))
    });
}
