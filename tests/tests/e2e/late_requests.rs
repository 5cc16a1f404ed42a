use std::net::{Shutdown, SocketAddr, TcpStream};
use std::{fs, io};

use encke_tests::bayeux::{BayeuxPolling, JSON, assert_successful, connect, events, post, session};
use encke_tests::poll::get;
use encke_tests::waiting::{eventually, until};
use encke_tests::{EventStream, RawClient, RunningServer};
use serde_json::json;

use crate::poll::{open, poll_query};

/// How the client ends the connection on which a request is read late.
type EndConnection = fn(RawClient);

const ENDINGS: [EndConnection; 2] =
    [|late| late.stream().shutdown(Shutdown::Both).expect("the socket is connected"), RawClient::reset];

/// Makes the server read a request late, which it refuses for `reason`: the server is stopped while the client
/// sends the request and ends the connection.
fn read_late(server: &RunningServer, reason: &str, request: &str, end: EndConnection) {
    let before = server.admin.metrics().refusals(reason);
    let is_refused = || server.admin.metrics().refusals(reason) == before + 1.0;
    // Retry if the connection ends before hyper has read the request, which is then ignored.
    for _ in 0..20 {
        let mut late = RawClient::connect(server.public);
        // Wait until the connection is accepted: if it is reset before, it is never served.
        let socket = ServerSocket::of(late.stream());
        let inode = eventually("the connection is accepted", || socket.inode());
        server.while_stopped(|| {
            late.send(request.as_bytes());
            end(late);
            until("the end of the connection arrives", || !socket.is_established());
        });
        until("the request is refused or the connection is closed", || {
            is_refused() || !server.has_socket(&inode)
        });
        if is_refused() {
            return;
        }
    }
    panic!("no request is refused as {reason}");
}

/// Waits until the server has accepted a connection.
#[track_caller]
pub(crate) fn await_acceptance(client: &TcpStream) {
    eventually("the connection is accepted", || ServerSocket::of(client).inode());
}

/// Setting for tests that open connections before they send requests. On a machine with many sockets, a wait for the
/// state of one may take longer than the default.
pub(crate) const SLOW_REQUESTS: &str = "limits.handshake_timeout=120s";

/// Waits until the server has accepted a connection, and has read everything that the client has sent.
#[track_caller]
pub(crate) fn await_read(client: &TcpStream) {
    await_acceptance(client);
    until("the server has read", || ServerSocket::of(client).has_read_all());
}

/// The server's socket of a connection, as the kernel shows it.
struct ServerSocket {
    server: String,
    client: String,
}

impl ServerSocket {
    fn of(client: &TcpStream) -> Self {
        let port = |address: io::Result<SocketAddr>| {
            format!(":{:04X}", address.expect("the socket is connected").port())
        };
        Self { server: port(client.peer_addr()), client: port(client.local_addr()) }
    }

    /// Returns the fields of the socket's line in `/proc/net/tcp`: the number, both addresses, the state, the sizes of the queues for
    /// output and input, and the inode in the tenth column. `None` if the connection has been reset.
    fn fields(&self) -> Option<Vec<String>> {
        let sockets = fs::read_to_string("/proc/net/tcp").expect("Linux has /proc/net/tcp");
        let mut sockets =
            sockets.lines().map(|line| line.split_whitespace().map(ToOwned::to_owned).collect());
        sockets.find(|it: &Vec<_>| it[1].ends_with(&self.server) && it[2].ends_with(&self.client))
    }

    /// Returns the inode. The socket has none until the server has accepted the connection.
    fn inode(&self) -> Option<String> {
        self.fields().map(|fields| fields[9].clone()).filter(|inode| inode != "0")
    }

    /// Whether the server has read everything that the client has sent.
    fn has_read_all(&self) -> bool {
        let client = Self { server: self.client.clone(), client: self.server.clone() };
        let has_arrived = client.fields().is_some_and(|fields| fields[4].starts_with("00000000:"));
        has_arrived && self.fields().is_some_and(|fields| fields[4].ends_with(":00000000"))
    }

    /// Whether the client has not ended the connection, as far as the server's kernel knows.
    fn is_established(&self) -> bool {
        self.fields().is_some_and(|fields| fields[3] == "01")
    }
}

#[test]
fn late_poll_does_not_replace_a_newer_one() {
    let server = RunningServer::with(&[SLOW_REQUESTS]);
    let (mut requests, hello) = open(&server, "news");
    for (end, seq) in ENDINGS.into_iter().zip(0..) {
        let query = poll_query(&hello, seq);
        requests.send_get(&query);
        server.await_held(&hello.session);
        read_late(&server, "late", &get(&query), end);
        server.admin.publish("news", seq);
        assert_eq!(requests.response().json()[0]["message"]["data"], seq);
        // The late poll is also refused between polls. Otherwise it would receive the next message.
        read_late(&server, "late", &get(&query), end);
    }
    server.await_lifecycle(&hello.session, "opened connect");
}

/// A client that has given up on a poll may have sent the next one on another connection. The server may handle
/// them in either order, and even if the first one is still open, the later one stays.
#[test]
fn the_poll_that_arrived_last_stays() {
    let server = RunningServer::with(&[SLOW_REQUESTS]);
    let (_requests, hello) = open(&server, "news");
    for number in 1..=30 {
        let poll = get(&poll_query(&hello, number - 1));
        let [mut earlier, mut later] = server.while_stopped(|| {
            [(); 2].map(|()| {
                let mut client = RawClient::connect(server.public);
                client.send(&poll);
                client
            })
        });
        earlier.response().assert_error(409, "superseded");
        server.admin.publish("news", number);
        assert_eq!(later.response().json()[0]["message"]["data"], number);
    }
    server.await_lifecycle(&hello.session, "opened connect");
}

/// The client learns that it was kicked only on its next connection.
#[test]
fn late_poll_does_not_consume_the_close_reason() {
    let server = RunningServer::with(&[SLOW_REQUESTS]);
    for end in ENDINGS {
        let (mut requests, hello) = open(&server, "news");
        server.admin.kick(&hello.session);
        let query = poll_query(&hello, 0);
        read_late(&server, "gone", &get(&query), end);
        assert_eq!(requests.get(&query).json()[0]["goaway"]["reason"], "kicked");
        assert_eq!(requests.get(&query).json()[0]["hello"]["recovered"], false);
    }
}

#[test]
fn late_connect_does_not_replace_a_newer_one() {
    let server = RunningServer::with(&[SLOW_REQUESTS]);
    let (mut polls, id) = BayeuxPolling::opened(server.public, &["/news"]);
    for (end, number) in ENDINGS.into_iter().zip(1..) {
        // hyper detects the end of the connection by itself unless part of another request has arrived.
        let request = post("/bayeux", JSON, &connect(&id).to_string()) + "POST";
        polls.send(&connect(&id));
        server.await_held(&session(&id));
        read_late(&server, "late", &request, end);
        server.admin.publish("/news", number);
        let answer = polls.response();
        assert_eq!(events(&answer), [number], "{answer:?}");
        read_late(&server, "late", &request, end);
        server.admin.publish("/news", -number);
        let answer = polls.request(&json!([connect(&id)]));
        assert_eq!(events(&answer), [-number], "{answer:?}");
        assert_successful(answer.last().expect("a reply"));
    }
    server.await_lifecycle(&session(&id), "opened connect");
}

#[test]
fn late_event_stream_does_not_take_the_session_over() {
    let server = RunningServer::with(&[SLOW_REQUESTS]);
    let (mut stream, hello) = EventStream::greeted(server.public, "channels=news");
    let request =
        format!("GET /events HTTP/1.1\r\nHost: 127.0.0.1\r\nLast-Event-ID: {}:0\r\n\r\n", hello.resume);
    for (end, number) in ENDINGS.into_iter().zip(1..) {
        read_late(&server, "late", &request, end);
        server.admin.publish("news", number);
        let event = stream.event();
        assert!(event.contains(&format!(r#""data":{number}"#)), "{event}");
    }
    server.await_lifecycle(&hello.session, "opened connect");
}
