use std::net::SocketAddr;
use std::time::{Duration, Instant};

use encke_tests::network::NetworkLink;
use encke_tests::raw::{PING, PONG, RawClient, masked};
use encke_tests::waiting::MAX_LATENESS;
use encke_tests::{Client, EventStream, Launch, RunningServer};

const PONG_TIMEOUT: Duration = Duration::from_millis(500);
const INTERVAL: Duration = Duration::from_secs(1);

fn server(link: &NetworkLink, reconnect_window: &str) -> RunningServer {
    let server = Launch::listening_on(&SocketAddr::new(link.near_address(), 0).to_string())
        .argument("--insecure")
        .set("session.ping_interval=1s")
        .set("session.pong_timeout=500ms")
        .set(&format!("session.reconnect_window={reconnect_window}"));
    server.start()
}

/// Connects a client that answers a ping and then vanishes: it sends no FIN or RST, and its kernel no longer
/// knows the connection.
fn vanish(link: &NetworkLink, server: &RunningServer) -> (encke_tests::Hello, Instant) {
    let mut client = RawClient::over(link.connect(server.public));
    client.request_upgrade("");
    client.await_upgrade();
    let hello = client.hello();
    let ping = client.frame_of(PING);
    client.send(&masked(PONG, &ping.payload));
    let answered = Instant::now();
    link.cut();
    drop(client);
    link.forget_connections();
    (hello, answered)
}

#[test]
fn vanished_client_is_detected_and_expires() {
    let link = NetworkLink::new();
    let server = server(&link, "2s");
    let (hello, answered) = vanish(&link, &server);
    server.await_phase(&hello.session, "suspended");
    let after = answered.elapsed();
    assert!(after >= INTERVAL + PONG_TIMEOUT, "suspended after {after:?}");
    assert!(after <= INTERVAL + PONG_TIMEOUT + MAX_LATENESS, "suspended after {after:?}");
    server.await_removal(&hello.session);
    let events = [("opened", "connect"), ("suspended", "pong_timeout"), ("expired", "reconnect_window")];
    server.logs.await_lifecycle(&hello.session, &events);
    let metrics = server.admin.metrics();
    assert_eq!(metrics.events("expired", "reconnect_window"), 1.0);

    link.restore();
    let again = Client::over(link.connect(server.public), &format!("resume={}", hello.resume));
    assert!(!again.hello.recovered);
}

#[test]
fn vanished_client_resumes_when_the_link_is_restored() {
    let link = NetworkLink::new();
    let server = server(&link, "60s");
    let (hello, _) = vanish(&link, &server);
    server.await_phase(&hello.session, "suspended");
    link.restore();
    let again = Client::over(link.connect(server.public), &format!("resume={}&seq=0", hello.resume));
    assert!(again.hello.recovered);
    assert_eq!(again.hello.session, hello.session);
    let again = again.into_background();
    again.await_more_pings(2);
    assert!(!again.has_ended());
    let events = [("opened", "connect"), ("suspended", "pong_timeout"), ("resumed", "reconnect")];
    server.logs.await_lifecycle(&hello.session, &events);
}

#[test]
fn vanished_client_resumes_before_it_is_detected() {
    let link = NetworkLink::new();
    let server = server(&link, "60s");
    let (hello, _) = vanish(&link, &server);
    link.restore();
    let again = Client::over(link.connect(server.public), &format!("resume={}&seq=0", hello.resume));
    assert!(again.hello.recovered);
    assert_eq!(again.hello.session, hello.session);
    let again = again.into_background();
    again.await_more_pings(3);
    assert!(!again.has_ended(), "the end of the old connection is not the end of the new one");
    let last = server.logs.lifecycle(&hello.session).pop();
    assert_eq!(last.map(|(event, _)| event).as_deref(), Some("resumed"));
}

/// An event stream cannot answer heartbeats. The server notices that the client's kernel does not acknowledge
/// them.
#[test]
fn vanished_event_stream_is_detected() {
    let link = NetworkLink::new();
    let server = server(&link, "60s");
    let mut events = EventStream::over(link.connect(server.public), "channels=news", "");
    let hello = events.hello();
    assert_eq!(events.block().as_deref(), Some(":"));
    let last_heartbeat = Instant::now();
    link.cut();
    drop(events);
    link.forget_connections();
    server.await_phase(&hello.session, "suspended");
    let after = last_heartbeat.elapsed();
    assert!(after <= INTERVAL + PONG_TIMEOUT + MAX_LATENESS, "suspended after {after:?}");
    server.logs.await_lifecycle(&hello.session, &[("opened", "connect"), ("suspended", "pong_timeout")]);
    link.restore();
    let id = format!("Last-Event-ID: {}:0\r\n", hello.resume);
    let mut again = EventStream::over(link.connect(server.public), "channels=news", &id);
    assert!(again.hello().recovered);
}
