use std::time::{Duration, Instant};

use encke_tests::{PollClient, crowd};

use super::*;

#[test]
fn pings_are_exchanged_while_parked() {
    let server =
        RunningServer::with(&[PARK_AT_ONCE, "session.ping_interval=500ms", "session.pong_timeout=400ms"]);
    let (mut client, hello) = RawClient::greeted(server.public, "");
    await_parked(&server, 1);
    for _ in 0..4 {
        let ping = client.frame_of(PING);
        assert_eq!(parked(&server), 1.0);
        client.send(&masked(PONG, &ping.payload));
    }
    client.frame_of(PING);
    assert_eq!((parked(&server), unparked(&server)), (1.0, 0.0));
    assert!(server.admin.metrics().value("encke_ping_rtt_seconds_count") >= 4.0);
    let last_heard_ms = server.admin.session(&hello.session)["last_heard_ms"].as_f64();
    assert!(last_heard_ms.is_some_and(|ms| ms < 2_900.0), "{last_heard_ms:?}");
    server.logs.await_lifecycle(&hello.session, &[("opened", "connect")]);
}

#[test]
fn silence_while_parked_is_detected_on_time() {
    let server =
        RunningServer::with(&[PARK_AT_ONCE, "session.ping_interval=1s", "session.pong_timeout=500ms"]);
    let (mut client, hello) = RawClient::greeted(server.public, "");
    client.frame_of(PING);
    let pinged = Instant::now();
    assert_eq!(client.close_code(), 4000);
    let after = pinged.elapsed();
    assert!(after <= Duration::from_millis(500) + MAX_LATENESS, "detected after {after:?}");
    server.await_phase(&hello.session, "suspended");
    server.logs.await_lifecycle(&hello.session, &[("opened", "connect"), ("suspended", "pong_timeout")]);
    await_parked(&server, 0);
}

/// A pong counts even if it is still unread because the server was stopped.
#[test]
fn unread_input_counts_as_activity() {
    let server =
        RunningServer::with(&[PARK_AT_ONCE, "session.ping_interval=1s", "session.pong_timeout=500ms"]);
    let (mut client, hello) = RawClient::greeted(server.public, "");
    for _ in 0..3 {
        let ping = client.frame_of(PING);
        server.while_stopped(|| {
            client.send(&masked(PONG, &ping.payload));
            let_pass(Duration::from_millis(700));
        });
    }
    server.logs.await_lifecycle(&hello.session, &[("opened", "connect")]);
}

#[test]
fn message_pings_are_sent_while_parked_and_message_pongs_unpark() {
    let server =
        RunningServer::with(&[PARK_AT_ONCE, "session.ping_interval=500ms", "session.pong_timeout=400ms"]);
    let mut client = Client::connect(server.public, "heartbeat=message");
    for _ in 0..3 {
        assert_eq!(client.object()["ping"]["seq"], 0);
        client.send(r#"{"pong":{"seq":0}}"#);
    }
    await_parked(&server, 1);
    assert!(unparked(&server) >= 2.0);
}

/// There are enough clients for two tasks to share each sweep, given two processors.
#[test]
fn thousands_of_parked_clients_receive_every_message_once_and_in_order() {
    const CLIENTS: usize = 2_100;
    const MESSAGES: u64 = 20;
    crowd::require_descriptors(CLIENTS);
    let server = RunningServer::with(&["parking.after=50ms"]);
    let mut clients = crowd::connect(&server, &vec![String::new(); CLIENTS]);
    for (client, _) in &mut clients {
        client.text(r#"{"id":1,"subscribe":{"channel":"news"}}"#);
    }
    for (client, _) in &mut clients {
        assert_eq!(client.object()["reply"]["id"], 1);
    }
    await_parked(&server, CLIENTS);
    let before = unparked(&server);
    for number in 1..=MESSAGES {
        assert_eq!(server.admin.publish("news", number)["offset"], number);
    }
    for (client, _) in &mut clients {
        for number in 1..=MESSAGES {
            assert_eq!(seq_and_offset(&client.object()), (number, number));
        }
    }
    assert_eq!(unparked(&server), before, "output does not unpark");
    assert_eq!(parked(&server), CLIENTS as f64);
}

/// Several sweeps visit the same sessions concurrently.
#[test]
fn concurrent_channels_keep_their_order() {
    const CHANNELS: usize = 6;
    const MESSAGES: u64 = 200;
    let server =
        RunningServer::with(&[PARK_AT_ONCE, "limits.commands_per_second=0", "limits.frames_per_second=0"]);
    let mut clients: Vec<Client> = (0..20).map(|_| server.client()).collect();
    for client in &mut clients {
        for channel in 0..CHANNELS {
            client.subscribe(&format!("news{channel}"));
        }
    }
    await_parked(&server, clients.len());
    let before = unparked(&server);
    std::thread::scope(|scope| {
        for channel in 0..CHANNELS {
            let server = &server;
            scope.spawn(move || server.client().publish(&format!("news{channel}"), 1..=MESSAGES));
        }
        for client in &mut clients {
            scope.spawn(move || {
                let mut offsets = [0; CHANNELS];
                for expected in 1..=CHANNELS as u64 * MESSAGES {
                    let object = client.object();
                    let (seq, offset) = seq_and_offset(&object);
                    assert_eq!(seq, expected, "{object}");
                    let channel = object["message"]["channel"].as_str().expect("a name");
                    let last = &mut offsets[channel[4..].parse::<usize>().expect("a number")];
                    *last += 1;
                    assert_eq!(offset, *last, "{object}");
                    if seq % 100 == 0 {
                        client.send(&format!(r#"{{"ack":{{"seq":{seq}}}}}"#));
                    }
                }
            });
        }
    });
    assert!(unparked(&server) > before);
}

/// Connects a subscriber of `news` with a small receive buffer.
fn slow_subscriber(server: &RunningServer) -> (RawClient, Hello) {
    let dial = Dial { receive_buffer: Some(4096), ..Dial::default() };
    let mut slow = RawClient::over(dial.connect(server.public));
    slow.request_upgrade("");
    slow.await_upgrade();
    let hello: Hello = slow.hello();
    slow.text(r#"{"id":1,"subscribe":{"channel":"news"}}"#);
    slow.object();
    (slow, hello)
}

/// The connection's task sends the output that the kernel does not accept while the connection is parked:
/// nothing is lost or duplicated.
#[test]
fn a_paused_reader_receives_everything_later() {
    const MESSAGES: u64 = 60;
    let server = RunningServer::with(&[PARK_AT_ONCE, "limits.send_buffer=4KiB"]);
    let (mut slow, hello) = slow_subscriber(&server);
    let mut quick = server.client();
    quick.subscribe("news");
    await_parked(&server, 2);
    let before = unparked(&server);
    let data = "x".repeat(8_000);
    for number in 1..=MESSAGES {
        server.admin.publish("news", format!("{number} {data}"));
        assert_eq!(seq_and_offset(&quick.object()), (number, number), "other clients are not delayed");
    }
    until("the connection is unparked", || unparked(&server) > before);
    for number in 1..=MESSAGES {
        let object = slow.object();
        assert_eq!(seq_and_offset(&object), (number, number));
        assert_eq!(object["message"]["data"], format!("{number} {data}"));
    }
    await_parked(&server, 2);
    server.admin.publish("news", "last");
    assert_eq!(seq_and_offset(&slow.object()), (MESSAGES + 1, MESSAGES + 1));
    server.logs.await_lifecycle(&hello.session, &[("opened", "connect")]);
}

/// A parked client that never reads is suspended as an active one would be, and nothing is retained for it.
#[test]
fn a_client_that_never_reads_is_suspended() {
    let server = RunningServer::with(&[
        PARK_AT_ONCE,
        "limits.send_buffer=4KiB",
        "session.write_timeout=1s",
        "session.close_timeout=500ms",
    ]);
    let (_client, hello) = slow_subscriber(&server);
    await_parked(&server, 1);
    for _ in 0..60 {
        server.admin.publish("news", "x".repeat(8_000));
    }
    server.await_phase(&hello.session, "suspended");
    server.logs.await_lifecycle(&hello.session, &[("opened", "connect"), ("suspended", "slow_consumer")]);
    await_parked(&server, 0);
}

/// A full replay ring stops the stream. An acknowledgement received while parked lets it continue.
#[test]
fn an_acknowledgement_while_parked_resumes_a_full_stream() {
    const MESSAGES: u64 = 100;
    let server = Launch::with(&[PARK_AT_ONCE, "session.max_unacked=16", "session.ping_interval=60s"]).start();
    let mut client = server.client();
    client.subscribe("news");
    await_parked(&server, 1);
    let before = unparked(&server);
    for number in 1..=MESSAGES {
        server.admin.publish("news", number);
    }
    // The client's pongs acknowledge the messages sent before the previous ping.
    for number in 1..=MESSAGES {
        assert_eq!(seq_and_offset(&client.object()), (number, number));
    }
    assert_eq!(unparked(&server), before);
    until("all pings are answered", || {
        client.next_within(Duration::ZERO);
        let unacked = server.admin.session(&client.hello.session)["unacked"].as_u64();
        unacked.is_some_and(|unacked| unacked <= 16)
    });
}

/// The acknowledgement arrives in a separate request while the connection is parked or active.
#[test]
fn a_posted_acknowledgement_resumes_a_full_stream() {
    const MESSAGES: u64 = 40;
    for parking in [PARK_AT_ONCE, "parking.after=off"] {
        let server = Launch::with(&[parking, "session.max_unacked=16", "session.ping_interval=60s"]).start();
        let (mut client, hello) = RawClient::greeted(server.public, "");
        client.text(r#"{"id":1,"subscribe":{"channel":"news"}}"#);
        client.object();
        for number in 1..=MESSAGES {
            server.admin.publish("news", number);
        }
        let mut separate = PollClient::connect(server.public);
        for number in 1..=MESSAGES {
            // Skip pings, with which the server requests an acknowledgement.
            let message = std::iter::repeat_with(|| client.frame()).find(|frame| frame.first == TEXT);
            let object =
                serde_json::from_slice(&message.expect("the iterator is endless").payload).expect("JSON");
            assert_eq!(seq_and_offset(&object), (number, number));
            if number % 16 == 0 {
                let ack = format!(r#"[{{"ack":{{"seq":{number}}}}}]"#);
                assert_eq!(separate.post(&format!("resume={}", hello.resume), &ack).status, 200);
            }
        }
    }
}
