use std::net::{Shutdown, SocketAddr, TcpStream};
use std::{fs, io};

use encke_tests::bayeux::{BayeuxPolling, JSON, assert_successful, connect, events, post, session};
use encke_tests::poll::get;
use encke_tests::waiting::until;
use encke_tests::{EventStream, PollClient, RawClient, RunningServer};
use serde_json::json;

/// How the client ends the connection on which a request is read late.
type EndConnection = fn(RawClient);

const ENDINGS: [EndConnection; 2] =
    [|late| late.stream().shutdown(Shutdown::Both).expect("the socket is connected"), RawClient::reset];

/// Runs `newer`, then makes the server read a request late: the server is stopped while the client sends the
/// request and ends the connection.
fn read_late(server: &RunningServer, request: &str, end: EndConnection, newer: impl FnOnce()) {
    refuse_late(server, "late", request, end, newer);
}

/// Like `read_late`, for a request that the server refuses for `reason`.
fn refuse_late(
    server: &RunningServer,
    reason: &str,
    request: &str,
    end: EndConnection,
    newer: impl FnOnce(),
) {
    newer();
    let before = server.admin.metrics().refusals(reason);
    let is_refused = || server.admin.metrics().refusals(reason) == before + 1.0;
    // Retry if the connection ends before hyper has read the request, which is then ignored.
    for _ in 0..20 {
        let open = server.open_descriptors();
        let mut late = RawClient::connect(server.public);
        // Wait until the connection is accepted: if it is reset before, it is never served.
        until("the connection is accepted", || is_accepted(late.stream()));
        server.while_stopped(|| {
            late.send(request.as_bytes());
            end(late);
        });
        until("the request is refused or the connection is closed", || {
            is_refused() || server.open_descriptors() == open
        });
        if is_refused() {
            return;
        }
    }
    panic!("no request is refused as {reason}");
}

/// Whether the server has accepted the connection. Until then, the server's socket has no inode.
fn is_accepted(client: &TcpStream) -> bool {
    let port = |address: io::Result<SocketAddr>| {
        format!(":{:04X}", address.expect("the socket is connected").port())
    };
    let (client, server) = (port(client.local_addr()), port(client.peer_addr()));
    let sockets = fs::read_to_string("/proc/net/tcp").expect("Linux has /proc/net/tcp");
    sockets.lines().map(|line| line.split_whitespace().collect::<Vec<_>>()).any(|socket| {
        // Fields as in proc_net_tcp(5): the number, both addresses, and the inode in the tenth column.
        socket[1].ends_with(&server) && socket[2].ends_with(&client) && socket[9] != "0"
    })
}

#[track_caller]
fn await_held(server: &RunningServer, session: &str) {
    until("a poll is held", || {
        let session = server.admin.session(session);
        let deadlines = session["deadlines"].as_array().expect("an array");
        deadlines.iter().any(|armed| armed["deadline"] == "poll_hold")
    });
}

#[test]
fn late_poll_does_not_replace_a_newer_one() {
    let server = RunningServer::with(&[]);
    let mut requests = PollClient::connect(server.public);
    let opened = requests.get("channels=news").json();
    let session = opened[0]["hello"]["session"].as_str().expect("a session").to_owned();
    let resume = opened[0]["hello"]["resume"].as_str().expect("a token").to_owned();
    for (end, seq) in ENDINGS.into_iter().zip(0..) {
        let query = format!("resume={resume}&seq={seq}");
        read_late(&server, &get(&query), end, || {
            requests.send_get(&query);
            await_held(&server, &session);
        });
        server.admin.publish("news", seq);
        assert_eq!(requests.response().json()[0]["message"]["data"], seq);
        // The late poll is also refused between polls. Otherwise it would receive the next message.
        read_late(&server, &get(&query), end, || ());
    }
    server.logs.await_lifecycle(&session, &[("opened", "connect")]);
}

/// The client learns that it was kicked only on its next connection.
#[test]
fn late_poll_does_not_consume_the_close_reason() {
    let server = RunningServer::with(&[]);
    for end in ENDINGS {
        let mut requests = PollClient::connect(server.public);
        let opened = requests.get("channels=news").json();
        let hello = &opened[0]["hello"];
        server.admin.kick(hello["session"].as_str().expect("a session"));
        let query = format!("resume={}&seq=0", hello["resume"].as_str().expect("a token"));
        refuse_late(&server, "gone", &get(&query), end, || ());
        assert_eq!(requests.get(&query).json()[0]["goaway"]["reason"], "kicked");
        assert_eq!(requests.get(&query).json()[0]["hello"]["recovered"], false);
    }
}

#[test]
fn late_connect_does_not_replace_a_newer_one() {
    let server = RunningServer::with(&[]);
    let mut polls = BayeuxPolling::connect(server.public);
    let id = polls.open(&["/news"]);
    for (end, number) in ENDINGS.into_iter().zip(1..) {
        // hyper detects the end of the connection by itself unless part of another request has arrived.
        let request = post("/bayeux", JSON, &connect(&id).to_string()) + "POST";
        read_late(&server, &request, end, || {
            polls.send(&connect(&id));
            await_held(&server, &session(&id));
        });
        server.admin.publish("/news", number);
        let answer = polls.response();
        assert_eq!(events(&answer), [number], "{answer:?}");
        read_late(&server, &request, end, || ());
        server.admin.publish("/news", -number);
        let answer = polls.request(&json!([connect(&id)]));
        assert_eq!(events(&answer), [-number], "{answer:?}");
        assert_successful(answer.last().expect("a reply"));
    }
    server.logs.await_lifecycle(&session(&id), &[("opened", "connect")]);
}

#[test]
fn late_event_stream_does_not_take_the_session_over() {
    let server = RunningServer::with(&[]);
    let mut stream = EventStream::open(server.public, "channels=news");
    let hello = stream.hello();
    let request =
        format!("GET /events HTTP/1.1\r\nHost: 127.0.0.1\r\nLast-Event-ID: {}:0\r\n\r\n", hello.resume);
    for (end, number) in ENDINGS.into_iter().zip(1..) {
        read_late(&server, &request, end, || ());
        server.admin.publish("news", number);
        let event = stream.event();
        assert!(event.contains(&format!(r#""data":{number}"#)), "{event}");
    }
    server.logs.await_lifecycle(&hello.session, &[("opened", "connect")]);
}
