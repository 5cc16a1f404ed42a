use std::time::{Duration, Instant};

use encke_tests::{PollClient, crowd};

use super::*;

#[test]
fn pings_are_sent_and_answered_at_rest() {
    let server = RunningServer::with(&[AT_ONCE, "session.ping_interval=500ms", "session.pong_timeout=400ms"]);
    let (mut client, hello) = RawClient::greeted(server.public, "");
    await_rest(&server, 1);
    for _ in 0..4 {
        let ping = client.frame_of(PING);
        assert_eq!(at_rest(&server), 1.0);
        client.send(&masked(PONG, &ping.payload));
    }
    client.frame_of(PING);
    assert_eq!((at_rest(&server), woken(&server)), (1.0, 0.0));
    assert!(server.admin.metrics().value("encke_ping_rtt_seconds_count") >= 4.0);
    let heard = server.admin.session(&hello.session)["last_heard_ms"].as_f64();
    assert!(heard.is_some_and(|ms| ms < 2_900.0), "{heard:?}");
    server.logs.await_lifecycle(&hello.session, &[("opened", "connect")]);
}

#[test]
fn silence_at_rest_is_noticed_on_time() {
    let server = RunningServer::with(&[AT_ONCE, "session.ping_interval=1s", "session.pong_timeout=500ms"]);
    let (mut client, hello) = RawClient::greeted(server.public, "");
    client.frame_of(PING);
    let pinged = Instant::now();
    assert_eq!(client.close_code(), 4000);
    let after = pinged.elapsed();
    assert!(after <= Duration::from_millis(500) + MAX_LATENESS, "noticed after {after:?}");
    server.await_phase(&hello.session, "suspended");
    server.logs.await_lifecycle(&hello.session, &[("opened", "connect"), ("suspended", "pong_timeout")]);
    await_rest(&server, 0);
}

/// An answer that nobody has read yet, because the process was stopped, is one.
#[test]
fn what_the_kernel_holds_is_life() {
    let server = RunningServer::with(&[AT_ONCE, "session.ping_interval=1s", "session.pong_timeout=500ms"]);
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
fn pings_by_message_are_sent_at_rest_and_their_answers_wake() {
    let server = RunningServer::with(&[AT_ONCE, "session.ping_interval=500ms", "session.pong_timeout=400ms"]);
    let mut client = Client::connect(server.public, "heartbeat=message");
    for _ in 0..3 {
        assert_eq!(client.object()["ping"]["seq"], 0);
        client.send(r#"{"pong":{"seq":0}}"#);
    }
    await_rest(&server, 1);
    assert!(woken(&server) >= 2.0);
}

/// They are so many that two tasks share each sweep, where there are two processors.
#[test]
fn thousands_at_rest_get_every_message_once_and_in_order() {
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
    await_rest(&server, CLIENTS);
    let before = woken(&server);
    for number in 1..=MESSAGES {
        assert_eq!(server.admin.publish("news", number)["offset"], number);
    }
    for (client, _) in &mut clients {
        for number in 1..=MESSAGES {
            assert_eq!(seq_and_offset(&client.object()), (number, number));
        }
    }
    assert_eq!(woken(&server), before, "nobody was woken by what was sent");
    assert_eq!(at_rest(&server), CLIENTS as f64);
}

/// Two sweeps and more go through the same sessions at once.
#[test]
fn many_channels_at_once_keep_their_order() {
    const CHANNELS: usize = 6;
    const MESSAGES: u64 = 200;
    let server =
        RunningServer::with(&[AT_ONCE, "limits.commands_per_second=0", "limits.frames_per_second=0"]);
    let mut clients: Vec<Client> = (0..20).map(|_| server.client()).collect();
    for client in &mut clients {
        for channel in 0..CHANNELS {
            client.subscribe(&format!("news{channel}"));
        }
    }
    await_rest(&server, clients.len());
    let before = woken(&server);
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
    assert!(woken(&server) > before);
}

/// A client that takes little before it reads. It follows the channel `news`.
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

/// What its kernel does not take at rest is for its task: nothing is lost, and nothing comes twice.
#[test]
fn a_client_that_does_not_read_gets_everything_once_it_does() {
    const MESSAGES: u64 = 60;
    let server = RunningServer::with(&[AT_ONCE, "limits.send_buffer=4KiB"]);
    let (mut slow, hello) = slow_subscriber(&server);
    let mut quick = server.client();
    quick.subscribe("news");
    await_rest(&server, 2);
    let before = woken(&server);
    let data = "x".repeat(8_000);
    for number in 1..=MESSAGES {
        server.admin.publish("news", format!("{number} {data}"));
        assert_eq!(seq_and_offset(&quick.object()), (number, number), "others are not held up");
    }
    until("it has woken", || woken(&server) > before);
    for number in 1..=MESSAGES {
        let object = slow.object();
        assert_eq!(seq_and_offset(&object), (number, number));
        assert_eq!(object["message"]["data"], format!("{number} {data}"));
    }
    await_rest(&server, 2);
    server.admin.publish("news", "last");
    assert_eq!(seq_and_offset(&slow.object()), (MESSAGES + 1, MESSAGES + 1));
    server.logs.await_lifecycle(&hello.session, &[("opened", "connect")]);
}

/// One that never reads is given up as any other, with nothing kept for it.
#[test]
fn a_client_that_never_reads_at_rest_is_given_up() {
    let server = RunningServer::with(&[
        AT_ONCE,
        "limits.send_buffer=4KiB",
        "session.write_timeout=1s",
        "session.close_timeout=500ms",
    ]);
    let (_client, hello) = slow_subscriber(&server);
    await_rest(&server, 1);
    for _ in 0..60 {
        server.admin.publish("news", "x".repeat(8_000));
    }
    server.await_phase(&hello.session, "suspended");
    server.logs.await_lifecycle(&hello.session, &[("opened", "connect"), ("suspended", "slow_consumer")]);
    await_rest(&server, 0);
}

/// A ring that is full stops the stream, and an acknowledgement at rest has it go on.
#[test]
fn an_acknowledgement_at_rest_has_a_full_stream_go_on() {
    const MESSAGES: u64 = 100;
    let server = Launch::with(&[AT_ONCE, "session.max_unacked=16", "session.ping_interval=60s"]).start();
    let mut client = server.client();
    client.subscribe("news");
    await_rest(&server, 1);
    let before = woken(&server);
    for number in 1..=MESSAGES {
        server.admin.publish("news", number);
    }
    // Its pongs acknowledge what came before the ping before.
    for number in 1..=MESSAGES {
        assert_eq!(seq_and_offset(&client.object()), (number, number));
    }
    assert_eq!(woken(&server), before);
    until("all was answered", || {
        client.next_within(Duration::ZERO);
        let unacked = server.admin.session(&client.hello.session)["unacked"].as_u64();
        unacked.is_some_and(|unacked| unacked <= 16)
    });
}

/// The same by a request beside the connection, whether that is at rest or has its task.
#[test]
fn an_acknowledgement_beside_it_has_a_full_stream_go_on() {
    const MESSAGES: u64 = 40;
    for rest in [AT_ONCE, "parking.after=off"] {
        let server = Launch::with(&[rest, "session.max_unacked=16", "session.ping_interval=60s"]).start();
        let (mut client, hello) = RawClient::greeted(server.public, "");
        client.text(r#"{"id":1,"subscribe":{"channel":"news"}}"#);
        client.object();
        for number in 1..=MESSAGES {
            server.admin.publish("news", number);
        }
        let mut beside = PollClient::connect(server.public);
        for number in 1..=MESSAGES {
            // Beside messages there are pings: its server would like to hear that they have come.
            let message = std::iter::repeat_with(|| client.frame()).find(|frame| frame.first == TEXT);
            let object = serde_json::from_slice(&message.expect("it is endless").payload).expect("JSON");
            assert_eq!(seq_and_offset(&object), (number, number));
            if number % 16 == 0 {
                let ack = format!(r#"[{{"ack":{{"seq":{number}}}}}]"#);
                assert_eq!(beside.post(&format!("resume={}", hello.resume), &ack).status, 200);
            }
        }
    }
}
