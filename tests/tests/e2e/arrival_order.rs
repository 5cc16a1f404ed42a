use std::io::Write;
use std::time::Duration;

use encke_tests::connection::Transport;
use encke_tests::poll::get;
use encke_tests::raw::upgrade_request;
use encke_tests::waiting::let_pass;
use encke_tests::{Certificate, Connection, EventStream, Hello, Launch, RawClient, RunningServer, tls};
use rand::SeedableRng;
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;

use crate::late_requests::{SLOW_REQUESTS, await_acceptance, await_read};
use crate::poll::{hello, open, poll_query};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    WebSocket,
    Events,
    Poll,
}

/// Pause longer than three of the kernel's ticks, which take at most 10 ms each. Needed where the kernel no longer has the
/// exact time of a request.
const APART: Duration = Duration::from_millis(40);

const KINDS: [Kind; 3] = [Kind::WebSocket, Kind::Events, Kind::Poll];

impl Kind {
    /// Returns a request that resumes a session.
    fn request(self, hello: &Hello) -> String {
        match self {
            Self::WebSocket => upgrade_request(&["Upgrade"], &format!("/ws?resume={}", hello.resume), ""),
            Self::Events => {
                let path = format!("/events?resume={}", hello.resume);
                format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
            }
            Self::Poll => get(&poll_query(hello, 0)),
        }
    }

    /// Waits until the session is resumed over a connection on which its request has been sent.
    #[track_caller]
    fn await_attached<S: Transport>(
        self,
        mut client: Connection<S>,
        hello: &Hello,
        server: &RunningServer,
    ) -> Attached<S> {
        match self {
            Self::WebSocket => {
                client.await_upgrade();
                assert!(client.hello().recovered);
                Attached::WebSocket(client)
            }
            Self::Events => {
                let mut stream = EventStream::read(client);
                assert!(stream.hello().recovered);
                Attached::Events(stream)
            }
            Self::Poll => {
                server.await_held(&hello.session);
                Attached::Poll(client)
            }
        }
    }

    /// Reads the refusal of a request that arrived before the one of the session's connection.
    #[track_caller]
    fn assert_refused<S: Transport>(self, mut client: Connection<S>) {
        if self == Self::WebSocket {
            client.await_upgrade();
            assert_eq!(client.frame().payload[..2], 4100_u16.to_be_bytes());
        } else {
            let refusal = client.response();
            refusal.assert_error(409, "superseded");
            assert_eq!(refusal.header("retry-after"), Some("1"));
        }
    }
}

/// A connection that has resumed its session.
enum Attached<S> {
    WebSocket(Connection<S>),
    Events(EventStream<S>),
    Poll(Connection<S>),
}

impl<S: Transport> Attached<S> {
    /// Waits until another connection has replaced this one.
    #[track_caller]
    fn await_replacement(self) {
        match self {
            Self::WebSocket(mut client) => assert_eq!(client.close_code(), 4100),
            Self::Events(stream) => drop(stream.to_end()),
            Self::Poll(mut client) => client.response().assert_error(409, "superseded"),
        }
    }

    /// Checks that the connection is still the one of its session.
    #[track_caller]
    fn assert_receives(&mut self, server: &RunningServer, data: i32) {
        server.admin.publish("news", data);
        let object = match self {
            Self::WebSocket(client) => client.object(),
            Self::Events(stream) => stream.object().1,
            Self::Poll(client) => client.response().json()[0].clone(),
        };
        assert_eq!(object["message"]["data"], data, "{object}");
    }
}

/// A slow request, which its client may have abandoned, must not end the client's next connection.
#[test]
fn a_request_that_began_earlier_does_not_replace_a_newer_connection() {
    let server = RunningServer::with(&[SLOW_REQUESTS]);
    let mut refused = 0.0;
    for older_kind in KINDS {
        for newer_kind in KINDS {
            let (_requests, hello) = open(&server, "news");
            let request = older_kind.request(&hello);
            let mut older = RawClient::connect(server.public);
            older.send(&request[..1]);
            await_read(older.stream());
            let mut newer = RawClient::connect(server.public);
            newer.send(newer_kind.request(&hello));
            let mut newer = newer_kind.await_attached(newer, &hello, &server);
            older.send(&request[1..]);
            older_kind.assert_refused(older);
            newer.assert_receives(&server, 1);
            refused += 1.0;
        }
    }
    assert_eq!(server.admin.metrics().refusals("late"), refused);
}

/// Browsers open connections in advance, and proxies keep them for later requests.
#[test]
fn a_connection_is_as_old_as_its_request() {
    let server = RunningServer::with(&[SLOW_REQUESTS]);
    let connect = || {
        let client = RawClient::connect(server.public);
        await_acceptance(client.stream());
        client
    };
    for kind in KINDS {
        assert_replaces_later_ones(&server, connect(), connect, kind);
        assert_replaces_later_ones(&server, used_connection(&server), connect, kind);
    }
}

#[test]
fn a_connection_behind_the_proxy_protocol_is_as_old_as_its_request() {
    let settings = [SLOW_REQUESTS, "listen.trusted_proxies=[\"127.0.0.1\"]", "listen.proxy_protocol=true"];
    let server = RunningServer::with(&settings);
    let connect = || {
        let mut client = RawClient::connect(server.public);
        client.send("PROXY TCP4 192.0.2.1 127.0.0.1 4660 8000\r\n");
        await_read(client.stream());
        client
    };
    for kind in KINDS {
        assert_replaces_later_ones(&server, connect(), connect, kind);
    }
}

#[test]
fn a_connection_over_tls_is_as_old_as_its_request() {
    let certificate = Certificate::generate();
    let files = tempfile::tempdir().expect("a temporary directory");
    let server = Launch::with(&[SLOW_REQUESTS]).with_certificate(&certificate, files.path()).start();
    let connect = || {
        let stream = tls::handshake(server.public, &certificate, tls::VERSIONS[1]).expect("a handshake");
        await_read(&stream.sock);
        Connection::over(stream)
    };
    for kind in KINDS {
        assert_replaces_later_ones(&server, connect(), connect, kind);
    }
}

/// The server reads the first part of the request's TLS record, which it cannot decrypt yet.
#[test]
fn a_request_over_tls_is_as_old_as_the_first_byte_of_its_record() {
    let certificate = Certificate::generate();
    let files = tempfile::tempdir().expect("a temporary directory");
    let server = Launch::with(&[SLOW_REQUESTS]).with_certificate(&certificate, files.path()).start();
    for kind in KINDS {
        let connect = || tls::handshake(server.public, &certificate, tls::VERSIONS[1]).expect("a handshake");
        let hello = hello(&Connection::over(connect()).get("channels=news").json());
        let [mut older, mut newer] = [connect(), connect()];
        await_read(&older.sock);
        let record = tls::record(&mut older, kind.request(&hello).as_bytes());
        let (first, rest) = record.split_at(record.len() / 2);
        older.sock.write_all(first).expect("the connection is open");
        await_read(&older.sock);
        newer.write_all(kind.request(&hello).as_bytes()).expect("the connection is open");
        let mut newer = kind.await_attached(Connection::over(newer), &hello, &server);
        older.sock.write_all(rest).expect("the connection is open");
        kind.assert_refused(Connection::over(older));
        newer.assert_receives(&server, 1);
    }
    assert_eq!(server.admin.metrics().refusals("late"), 3.0);
}

/// Checks that a request on an early connection replaces a connection that was opened later.
#[track_caller]
fn assert_replaces_later_ones<S: Transport>(
    server: &RunningServer,
    mut early: Connection<S>,
    connect: impl Fn() -> Connection<S>,
    kind: Kind,
) {
    let hello = hello(&connect().get("channels=news").json());
    let mut later = connect();
    later.send(kind.request(&hello));
    let later = kind.await_attached(later, &hello, server);
    early.send(kind.request(&hello));
    later.await_replacement();
    kind.await_attached(early, &hello, server).assert_receives(server, 1);
}

/// A client that has given up on a connection may have resumed its session over another. The server may read
/// the requests in either order; the later one stays.
#[test]
fn the_connection_that_arrived_last_stays() {
    let server = RunningServer::with(&[SLOW_REQUESTS]);
    for kind in [Kind::WebSocket, Kind::Events] {
        for number in 1..=20 {
            let (_requests, hello) = open(&server, "news");
            let request = kind.request(&hello);
            let [mut earlier, later] = server.while_stopped(|| {
                [(); 2].map(|()| {
                    let mut client = RawClient::connect(server.public);
                    client.send(&request);
                    client
                })
            });
            earlier.await_end();
            kind.await_attached(later, &hello, &server).assert_receives(&server, number);
        }
    }
}

/// A proxy reuses connections in any order. Without pauses between the requests, or while it has no CPU time, the server
/// does not notice in which order they arrive.
#[test]
fn the_request_that_arrived_last_wins_on_connections_that_were_open_already() {
    let seed = rand::random();
    println!("seed {seed}");
    let mut rng = SmallRng::seed_from_u64(seed);
    let server = RunningServer::with(&[SLOW_REQUESTS]);
    for (kind, number) in [KINDS; 8].into_iter().flatten().zip(1..) {
        let (_requests, hello) = open(&server, "news");
        let mut clients: Vec<_> = (0..5).map(|_| used_connection(&server)).collect();
        clients.shuffle(&mut rng);
        let is_stopped = number % 2 == 0;
        let mut send = || clients.iter_mut().for_each(|client| client.send(kind.request(&hello)));
        if is_stopped {
            server.while_stopped(send);
        } else {
            send();
        }
        let last = clients.pop().expect("five clients");
        let mut last = kind.await_attached(last, &hello, &server);
        for mut client in clients {
            match kind {
                // Some of these connections may have had the session until a newer request replaced them.
                Kind::WebSocket | Kind::Events => drop(client.await_end()),
                Kind::Poll if is_stopped => client.response().assert_error(409, "superseded"),
                Kind::Poll => drop(client.response()),
            }
        }
        last.assert_receives(&server, number);
    }
}

/// A request may wait in a connection's buffer until the poll before it is answered.
#[test]
fn a_pipelined_poll_is_as_old_as_its_arrival() {
    let server = RunningServer::with(&[SLOW_REQUESTS]);
    let (mut pipelined, hello) = open(&server, "news");
    let poll = get(&poll_query(&hello, 0));
    pipelined.send(&poll);
    server.await_held(&hello.session);
    pipelined.send(&poll);
    await_read(pipelined.stream());
    let_pass(APART);
    let mut later = used_connection(&server);
    later.send(&poll);
    for _ in 0..2 {
        pipelined.response().assert_error(409, "superseded");
    }
    server.admin.publish("news", 1);
    assert_eq!(later.response().json()[0]["message"]["data"], 1);
}

/// Opens a connection that has already carried a request.
fn used_connection(server: &RunningServer) -> RawClient {
    let mut client = RawClient::connect(server.public);
    assert_eq!(client.exchange("GET /encke.js HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n").status, 200);
    client
}
