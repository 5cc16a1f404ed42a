use std::net::{Shutdown, SocketAddr, TcpStream};
use std::{fs, io};

use encke_tests::bayeux::{JSON, BayeuxPolling, assert_successful, connect, events, post, session};
use encke_tests::poll::get;
use encke_tests::waiting::until;
use encke_tests::{EventStream, RawClient, PollClient, RunningServer};
use serde_json::json;

/// How the client ends the connection on which its request is read late.
type End = fn(RawClient);

const ENDS: [End; 2] = [|late| late.stream().shutdown(Shutdown::Both).expect("it is open"), RawClient::reset];

/// A request that the server reads after the end of its connection, and after `newer`: it stands still meanwhile.
fn read_late(server: &RunningServer, request: &str, end: End, newer: impl FnOnce()) {
    refuse_late(server, "late", request, end, newer);
}

/// The same, which it refuses for this reason.
fn refuse_late(server: &RunningServer, reason: &str, request: &str, end: End, newer: impl FnOnce()) {
    newer();
    let before = server.admin.metrics().refusals(reason);
    let is_refused = || server.admin.metrics().refusals(reason) == before + 1.0;
    // A connection may end before hyper has read the request. Nothing comes of that.
    for _ in 0..20 {
        let open = server.open_descriptors();
        let mut late = RawClient::connect(server.public);
        // One that is reset before is never served.
        until("it is accepted", || is_accepted(late.stream()));
        server.while_stopped(|| {
            late.send(request.as_bytes());
            end(late);
        });
        until("it is over", || is_refused() || server.open_descriptors() == open);
        if is_refused() {
            return;
        }
    }
    panic!("no request is refused as {reason}");
}

/// Whether the server has taken the connection from the kernel's queue: until then it has no inode.
fn is_accepted(client: &TcpStream) -> bool {
    let port = |address: io::Result<SocketAddr>| format!(":{:04X}", address.expect("it is connected").port());
    let (client, server) = (port(client.local_addr()), port(client.peer_addr()));
    let sockets = fs::read_to_string("/proc/net/tcp").expect("the system has it");
    sockets.lines().map(|line| line.split_whitespace().collect::<Vec<_>>()).any(|socket| {
        // See proc_net_tcp(5): its number, both addresses, and the inode in the tenth place.
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
fn a_poll_of_a_client_that_is_gone_answers_no_other() {
    let server = RunningServer::with(&[]);
    let mut requests = PollClient::connect(server.public);
    let opened = requests.get("channels=news").json();
    let session = opened[0]["hello"]["session"].as_str().expect("a session").to_owned();
    let resume = opened[0]["hello"]["resume"].as_str().expect("a token").to_owned();
    for (end, seq) in ENDS.into_iter().zip(0..) {
        let query = format!("resume={resume}&seq={seq}");
        read_late(&server, &get(&query), end, || {
            requests.send_get(&query);
            await_held(&server, &session);
        });
        server.admin.publish("news", seq);
        assert_eq!(requests.response().json()[0]["message"]["data"], seq);
        // Between two polls, too: it would have what comes next.
        read_late(&server, &get(&query), end, || ());
    }
    server.logs.await_lifecycle(&session, &[("opened", "connect")]);
}

/// That it was kicked, its client hears on the next connection.
#[test]
fn a_poll_of_a_client_that_is_gone_is_not_told_of_the_end() {
    let server = RunningServer::with(&[]);
    for end in ENDS {
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
fn a_connect_of_a_client_that_is_gone_answers_no_other() {
    let server = RunningServer::with(&[]);
    let mut polls = BayeuxPolling::connect(server.public);
    let id = polls.open(&["/news"]);
    for (end, number) in ENDS.into_iter().zip(1..) {
        // hyper looks for the end of a connection by itself, unless there is part of another request.
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
fn a_stream_of_events_of_a_client_that_is_gone_takes_nothing_over() {
    let server = RunningServer::with(&[]);
    let mut stream = EventStream::open(server.public, "channels=news");
    let hello = stream.hello();
    let request =
        format!("GET /events HTTP/1.1\r\nHost: 127.0.0.1\r\nLast-Event-ID: {}:0\r\n\r\n", hello.resume);
    for (end, number) in ENDS.into_iter().zip(1..) {
        read_late(&server, &request, end, || ());
        server.admin.publish("news", number);
        let event = stream.event();
        assert!(event.contains(&format!(r#""data":{number}"#)), "{event}");
    }
    server.logs.await_lifecycle(&hello.session, &[("opened", "connect")]);
}
