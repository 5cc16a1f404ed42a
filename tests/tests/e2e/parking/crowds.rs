use encke_tests::{Launch, crowd};

use super::*;

/// Number of connections of each kind. On two processors, two tasks share each sweep of a channel with this many
/// subscribers.
const EACH: usize = 1_100;
const ALL: usize = 3 * EACH;
const MESSAGES: u64 = 20;

/// No output unparks a WebSocket or an event stream, but each answer unparks its poll. The disconnect of the
/// whole crowd is detected.
#[test]
fn thousands_of_parked_clients_receive_every_message_once_and_in_order() {
    crowd::require_descriptors(ALL);
    let settings = ["parking.after=50ms", "session.poll_gap=3s", "session.ping_interval=10m"];
    let server = RunningServer::with(&settings);
    let mut sockets = crowd::connect(&server, &vec![String::new(); EACH]);
    let mut streams: Vec<_> =
        (0..EACH).map(|_| EventStream::greeted(server.public, "channels=news").0).collect();
    for (client, _) in &mut sockets {
        client.text(r#"{"id":1,"subscribe":{"channel":"news"}}"#);
        assert_eq!(client.object()["reply"]["id"], 1);
    }
    await_parked(&server, 2 * EACH);
    let before = unparked(&server);
    for number in 1..=MESSAGES {
        assert_eq!(server.admin.publish("news", number)["offset"], number);
    }
    for number in 1..=MESSAGES {
        for (client, _) in &mut sockets {
            assert_eq!(seq_and_offset(&client.object()), (number, number));
        }
        for events in &mut streams {
            let (id, object) = events.object();
            assert_eq!(seq_and_offset(&object), (number, number));
            let id = id.expect("a message has an event id");
            assert!(id.ends_with(&format!(":{number}.")), "{id} contains the offset");
        }
    }
    assert_eq!((parked(&server), unparked(&server)), ((2 * EACH) as f64, before));

    let mut polls: Vec<_> = (0..EACH).map(|_| open(&server, "chat")).collect();
    for seq in 0..3 {
        for (requests, hello) in &mut polls {
            requests.send_get(&poll_query(hello, seq));
        }
        await_parked(&server, ALL);
        server.admin.publish("chat", seq);
        for (requests, _) in &mut polls {
            assert_eq!(seq_and_offset(&requests.response().json()[0]), (seq + 1, seq + 1));
        }
    }
    assert_eq!(unparked(&server), before + (3 * EACH) as f64);
    for (requests, hello) in &mut polls {
        requests.send_get(&poll_query(hello, 3));
    }
    await_parked(&server, ALL);
    drop((sockets, streams, polls));
    crowd::await_sessions(&server, "suspended", ALL);
    await_parked(&server, 0);
    assert!(unparked(&server) < before + 8.0 * EACH as f64, "no disconnect unparks repeatedly");
}

/// The connections are divided among the threads.
#[test]
fn several_threads_poll_with_many_processors() {
    const CLIENTS: usize = 9;
    let server = Launch::with(&[PARK_AT_ONCE]).environment("TOKIO_WORKER_THREADS", "12").start();
    let polling_threads = || server.thread_names().iter().filter(|name| *name == "encke-poll").count();
    // A thread sets its name when it starts to run.
    until("one polling thread for each four runtime threads", || polling_threads() == 3);
    let mut clients: Vec<_> = (0..CLIENTS).map(|_| RawClient::greeted(server.public, "").0).collect();
    for offset in 1..=2 * CLIENTS {
        await_parked(&server, CLIENTS);
        let client = &mut clients[offset % CLIENTS];
        client.text(r#"{"id":1,"publish":{"channel":"news","data":1}}"#);
        assert_eq!(client.object()["reply"]["ok"]["offset"], offset);
    }
    await_parked(&server, CLIENTS);
    drop(clients);
    await_parked(&server, 0);
}
