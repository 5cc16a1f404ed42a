use std::net::SocketAddr;
use std::time::{Duration, Instant};

use encke_tests::network::NetworkLink;
use encke_tests::raw::{PING, PONG, RawClient, masked};
use encke_tests::server::FREQUENT_PINGS;
use encke_tests::waiting::MAX_LATENESS;
use encke_tests::{Client, EventStream, Launch};

/// Both clients vanish after they have received a heartbeat: they send no FIN or RST, and their kernel no longer
/// knows the connections. An event stream cannot answer heartbeats, but the server notices that the client's
/// kernel does not acknowledge them.
#[test]
fn vanished_clients_are_detected_and_resume_when_the_link_is_restored() {
    let link = NetworkLink::new();
    let server = Launch::listening_on(&SocketAddr::new(link.near_address(), 0).to_string())
        .argument("--insecure")
        .set_all(&FREQUENT_PINGS)
        .start();
    let mut events = EventStream::over(link.connect(server.public), "channels=news", "");
    let events_hello = events.hello();
    assert_eq!(events.block().as_deref(), Some(":"));
    let mut client = RawClient::over(link.connect(server.public));
    let hello = client.greet("");
    let ping = client.frame_of(PING);
    client.send(masked(PONG, &ping.payload));
    let answered = Instant::now();
    link.cut();
    drop((client, events));
    link.forget_connections();
    for session in [&hello.session, &events_hello.session] {
        server.await_phase(session, "suspended");
        server.await_lifecycle(session, "opened connect, suspended pong_timeout");
    }
    let after = answered.elapsed();
    assert!(after <= Duration::from_secs(12) + MAX_LATENESS, "suspended after {after:?}");

    link.restore();
    let again = Client::over(link.connect(server.public), &format!("resume={}&seq=0", hello.resume));
    assert!(again.hello.recovered && again.hello.session == hello.session, "{:?}", again.hello);
    let id = format!("Last-Event-ID: {}:0\r\n", events_hello.resume);
    assert!(EventStream::over(link.connect(server.public), "channels=news", &id).hello().recovered);
    let again = again.into_background();
    again.await_more_pings(1);
    assert!(!again.has_ended());
}
