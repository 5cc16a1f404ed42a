use std::time::Duration;

use encke_tests::waiting::{let_pass, until};
use encke_tests::{EventStream, RunningServer};

use crate::parking::await_parked;
use crate::poll::{open, poll_query};

/// One in this many deliveries is measured.
const SAMPLE_EVERY: usize = 128;

fn measured(server: &RunningServer, transport: &str, what: &str) -> f64 {
    server.admin.metrics().value(&format!("encke_delivery_seconds_{what}{{transport=\"{transport}\"}}"))
}

/// Checks that exactly one delivery over this transport was measured, and that it took a plausible time.
#[track_caller]
fn await_sample(server: &RunningServer, transport: &str) {
    until(format!("a sample of {transport}"), || measured(server, transport, "count") == 1.0);
    let seconds = measured(server, transport, "sum");
    assert!(0.0 < seconds && seconds < 5.0, "{transport}: {seconds}");
}

/// Delivers as many messages over each transport as are needed for one sample, by tasks and to parked
/// connections.
#[test]
fn deliveries_are_measured_on_each_transport() {
    ["parking.after=off", "parking.after=0s"].into_iter().for_each(measure_each_transport);
}

fn measure_each_transport(parking: &str) {
    let server = RunningServer::with(&[parking]);
    let await_parked = |connections: usize| {
        if parking == "parking.after=0s" {
            await_parked(&server, connections);
        }
    };
    let mut socket = server.client();
    socket.subscribe("a");
    for _ in 0..SAMPLE_EVERY {
        server.admin.publish("a", 1);
        socket.object();
        await_parked(1);
    }
    await_sample(&server, "websocket");

    let (mut stream, _) = EventStream::greeted(server.public, "channels=b");
    for _ in 0..SAMPLE_EVERY {
        server.admin.publish("b", 1);
        stream.object();
        await_parked(2);
    }
    await_sample(&server, "sse");

    let (mut poll, hello) = open(&server, "c");
    // These messages wait for the next poll, so none of them would be measured.
    server.admin.publish_each("c", 1..SAMPLE_EVERY);
    let waited = poll.get(&poll_query(&hello, 0)).json();
    assert_eq!(waited.as_array().expect("messages").len(), SAMPLE_EVERY - 1);
    poll.send_get(&poll_query(&hello, SAMPLE_EVERY as u64 - 1));
    server.await_held(&hello.session);
    await_parked(3);
    // Give the task of the poll time to find that no message is pending.
    let_pass(Duration::from_millis(100));
    server.admin.publish("c", 1);
    poll.response();
    await_sample(&server, "poll");
    assert_eq!(server.admin.metrics().value("encke_messages_delivered_total"), 3.0 * SAMPLE_EVERY as f64);
}
