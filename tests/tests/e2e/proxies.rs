use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

use encke_tests::proxy::{NGINX_READ_TIMEOUT, Proxy};
use encke_tests::raw::Dial;
use encke_tests::waiting::{let_pass, until};
use encke_tests::{Certificate, EventStream, Launch, RawClient, RunningServer, tls};

const OVERLOADED: u16 = 4005;
const KICKED: u16 = 4101;

#[test]
fn clients_of_a_trusted_proxy_have_their_own_addresses() {
    for (forwarded, header) in
        [("x-forwarded-for", "X-Forwarded-For: 8.8.8.8, "), ("forwarded", "Forwarded: for=8.8.8.8, for=")]
    {
        let server = RunningServer::with(&[
            "listen.trusted_proxies=[\"127.0.0.1\"]",
            &format!("listen.forwarded={forwarded}"),
            "limits.max_connections_per_address=1",
        ]);
        let connect = |source: &str, client: &str| {
            let mut connection = RawClient::over(Dial::from(source).connect(server.public));
            connection.request_upgrade_with("", &format!("{header}{client}\r\n"));
            connection.await_upgrade();
            connection
        };
        let proxy = "127.0.0.1";
        let mut one = connect(proxy, "192.0.2.1");
        let mut two = connect(proxy, "192.0.2.2");
        for (connection, address) in [(&mut one, "192.0.2.1"), (&mut two, "192.0.2.2")] {
            let hello = connection.hello();
            assert!(!hello.recovered);
            assert_eq!(server.admin.session(&hello.session)["address"], address);
        }
        assert_eq!(connect(proxy, "192.0.2.1").close_code(), OVERLOADED);
        let is_logged = || server.logs.records().iter().any(|line| line["address"] == "192.0.2.1");
        until("the refused address is logged", is_logged);
        // Headers from a client that is not a trusted proxy are ignored.
        let elsewhere = "127.0.0.2";
        let mut first = connect(elsewhere, "192.0.2.3");
        assert!(!first.hello().recovered);
        assert_eq!(connect(elsewhere, "192.0.2.4").close_code(), OVERLOADED);
    }
}

const VERSION_1: &[u8] = b"PROXY TCP4 192.0.2.1 127.0.0.1 4660 8000\r\n";
/// Header with the command `LOCAL` and no addresses, which the proxy sends for its own connections.
const LOCAL: &[u8] = b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0";

/// Returns a version 2 header that names this client.
fn version_2(client: [u8; 4]) -> Vec<u8> {
    let addresses = [&client[..], &[127, 0, 0, 1], &[0x12, 0x34], &[0x1f, 0x40]].concat();
    [&b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c"[..], &addresses].concat()
}

#[test]
fn proxy_protocol_provides_the_client_address() {
    let server = RunningServer::with(&[
        "listen.trusted_proxies=[\"127.0.0.1\"]",
        "listen.proxy_protocol=true",
        "limits.max_connections_per_address=1",
    ]);
    let connect = |header: &[u8]| {
        let mut connection = RawClient::connect(server.public);
        connection.send(header);
        connection.upgrade("");
        connection
    };
    let mut one = connect(VERSION_1);
    let mut two = connect(&version_2([192, 0, 2, 2]));
    let mut proxy_itself = connect(LOCAL);
    for connection in [&mut one, &mut two, &mut proxy_itself] {
        assert!(!connection.hello().recovered);
    }
    // The client may be named by either version.
    assert_eq!(connect(&version_2([192, 0, 2, 1])).close_code(), OVERLOADED);

    // Send the header one byte at a time, immediately followed by the request.
    let mut slow = RawClient::connect(server.public);
    for byte in version_2([192, 0, 2, 3]) {
        slow.send([byte]);
        let_pass(Duration::from_millis(1));
    }
    assert!(!slow.greet("").recovered);
}

#[test]
fn connection_without_the_proxy_protocol_is_refused() {
    let server = RunningServer::with(&[
        "listen.trusted_proxies=[\"127.0.0.1\"]",
        "listen.proxy_protocol=true",
        "limits.handshake_timeout=3s",
    ]);
    for (number, bytes) in
        [&b"GET /ws HTTP/1.1\r\n"[..], b"PROXY TCP4 x\r\n", b"\r\n\r\n\0\r\nQUIT\n\x31\x11\0\0", &[0; 100]]
            .into_iter()
            .enumerate()
    {
        let mut connection = RawClient::connect(server.public);
        connection.send(bytes);
        connection.await_end();
        until("the refusal is counted", || server.admin.metrics().refusals("proxy") == number as f64 + 1.0);
    }
    // An empty connection, such as some health checks open, is not counted.
    drop(RawClient::connect(server.public));
    // This address is not a trusted proxy's.
    let mut elsewhere = RawClient::over(Dial::from("127.0.0.2").connect(server.public));
    let _ = elsewhere.try_send(VERSION_1);
    elsewhere.await_end();
    until("the refusal is counted", || server.admin.metrics().refusals("proxy") == 5.0);
    // The handshake timeout also applies to an incomplete header.
    let mut half = RawClient::connect(server.public);
    half.send(&VERSION_1[..20]);
    half.await_end();
    until("the refusal is counted", || server.admin.metrics().refusals("handshake_timeout") == 1.0);
    assert_eq!(server.admin.metrics().refusals("proxy"), 5.0);
}

#[test]
fn tls_begins_after_the_proxy_protocol() {
    let certificate = Certificate::generate();
    let files = tempfile::tempdir().expect("a temporary directory");
    let server = Launch::with(&["listen.trusted_proxies=[\"127.0.0.1\"]", "listen.proxy_protocol=true"])
        .with_certificate(&certificate, files.path())
        .start();
    let mut socket = TcpStream::connect(server.public).expect("the server accepts");
    socket.write_all(&version_2([192, 0, 2, 1])).expect("the server reads");
    let mut client = tls::client_over(socket, &certificate, tls::VERSIONS[1]);
    assert_eq!(client.request(r#"{"id":1,"subscribe":{"channel":"a"}}"#)["ok"]["channel"], "a");
}

/// Sockets that are in a handshake or being closed count towards the limit as well.
#[test]
fn sockets_of_a_client_behind_a_proxy_are_limited() {
    const LIMIT: usize = 2 + 16;
    let server = RunningServer::with(&[
        "listen.trusted_proxies=[\"127.0.0.1\"]",
        "listen.forwarded=x-forwarded-for",
        "limits.max_connections_per_address=1",
        // None of the refused clients answers its Close frame.
        "session.close_timeout=1m",
    ]);
    let connect = |client: &str| {
        let mut connection = RawClient::connect(server.public);
        connection.request_upgrade_with("", &format!("X-Forwarded-For: {client}\r\n"));
        connection
    };
    let mut sockets = Vec::new();
    for _ in 0..LIMIT {
        let mut connection = connect("192.0.2.1");
        connection.await_upgrade();
        sockets.push(connection);
    }
    assert!(connect("192.0.2.1").http_head().starts_with("HTTP/1.1 503 "));
    connect("192.0.2.2").await_upgrade();
}

/// How long connections stay idle: longer than nginx's read timeout and HAProxy's timeouts for requests, so they
/// last only with the documented configurations.
const IDLE: Duration = Duration::from_secs(12);

#[test]
fn nginx_and_haproxy_work_with_the_documented_configurations() {
    // Check both in parallel, because they are idle most of the time.
    std::thread::scope(|scope| {
        scope.spawn(|| check_proxy(Proxy::nginx, &["listen.forwarded=x-forwarded-for"]));
        scope.spawn(|| check_proxy(Proxy::haproxy, &["listen.proxy_protocol=true"]));
    });
}

fn check_proxy(proxy: impl FnOnce(&RunningServer, &Certificate) -> Proxy, settings: &[&str]) {
    let certificate = Certificate::generate();
    let server = settings
        .iter()
        .fold(Launch::default(), |launch, setting| launch.set(setting))
        .set("listen.trusted_proxies=[\"127.0.0.1\"]")
        .set("limits.max_connections_per_address=1")
        // Without pings, only the proxy could close an idle connection.
        .set("session.ping_interval=5m")
        .start();
    let proxy = proxy(&server, &certificate);
    let socket = Dial::from("127.0.0.2").connect(proxy.address);
    let mut client = tls::client_over(socket, &certificate, tls::VERSIONS[1]);
    client.request(r#"{"id":1,"subscribe":{"channel":"news"}}"#);
    let stream = || {
        let socket = Dial::from("127.0.0.3").connect(proxy.address);
        let stream = tls::handshake_over(socket, &certificate, tls::VERSIONS[1]);
        EventStream::over(stream.expect("the certificate is trusted"), "channels=news", "")
    };
    let mut events = stream();
    events.hello();
    let refused = || server.admin.metrics().refusals("overloaded");
    assert_eq!(refused(), 0.0, "each client has its own address");
    let mut second = stream();
    assert!(second.event().starts_with("retry: "));
    assert!(second.object().1["goaway"].is_object());
    assert_eq!(refused(), 1.0, "an address may have one connection");

    const { assert!(IDLE.as_secs() > NGINX_READ_TIMEOUT.as_secs()) };
    let_pass(IDLE);
    server.admin.publish("news", "after a while");
    assert_eq!(client.object()["message"]["data"], "after a while");
    assert_eq!(events.object().1["message"]["data"], "after a while");

    let session = &client.hello.session;
    assert_eq!(server.admin.request("DELETE", &format!("/api/sessions/{session}")).status, 204);
    assert_eq!(client.close_code(), Some(KICKED));
    assert_eq!(server.admin.metrics().events("suspended", "connection_lost"), 0.0);
}
