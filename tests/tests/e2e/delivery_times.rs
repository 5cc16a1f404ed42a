use std::time::Duration;

use encke_tests::waiting::{let_pass, until};
use encke_tests::{EventStream, PollClient, RunningServer};
use serde_json::json;

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

fn publish(server: &RunningServer, channel: &str, count: usize) {
    for number in 0..count {
        let body = json!({ "channel": channel, "data": number }).to_string();
        assert_eq!(server.admin.post("/api/publish", &body).status, 200);
    }
}

/// Delivers as many messages over each transport as are needed for one sample, with this `parking` setting.
fn measure_each_transport(parking: &str) {
    let server = RunningServer::with(&[parking]);
    let await_parked = |connections: usize| {
        if parking == "parking.after=0s" {
            until(format!("{connections} parked connections"), || {
                server.admin.metrics().total("encke_connections_parked") == connections as f64
            });
        }
    };
    let mut socket = server.client();
    socket.subscribe("a");
    for _ in 0..SAMPLE_EVERY {
        publish(&server, "a", 1);
        socket.object();
        await_parked(1);
    }
    await_sample(&server, "websocket");

    let mut stream = EventStream::open(server.public, "channels=b");
    stream.hello();
    for _ in 0..SAMPLE_EVERY {
        publish(&server, "b", 1);
        stream.object();
        await_parked(2);
    }
    await_sample(&server, "sse");

    let mut poll = PollClient::connect(server.public);
    let opened = poll.get("channels=c").json();
    let token = opened[0]["hello"]["resume"].as_str().expect("a token").to_owned();
    // These messages wait for the next poll, so none of them would be measured.
    publish(&server, "c", SAMPLE_EVERY - 1);
    let waited = poll.get(&format!("resume={token}&seq=0")).json();
    assert_eq!(waited.as_array().expect("messages").len(), SAMPLE_EVERY - 1);
    poll.send_get(&format!("resume={token}&seq={}", SAMPLE_EVERY - 1));
    until("the poll is held", || {
        server.admin.metrics().value("encke_connections{transport=\"poll\",dialect=\"json\"}") == 1.0
    });
    await_parked(3);
    // Give the task of the poll time to find that no message is pending.
    let_pass(Duration::from_millis(100));
    publish(&server, "c", 1);
    poll.response();
    await_sample(&server, "poll");
    assert_eq!(server.admin.metrics().value("encke_messages_delivered_total"), 3.0 * SAMPLE_EVERY as f64);
}

#[test]
fn deliveries_by_tasks_are_measured() {
    measure_each_transport("parking.after=off");
}

#[test]
fn deliveries_to_parked_connections_are_measured() {
    measure_each_transport("parking.after=0s");
}

#[test]
fn a_backlog_is_not_measured() {
    let server = RunningServer::with(&[]);
    publish(&server, "news", 2 * SAMPLE_EVERY);
    let mut stream = EventStream::open(server.public, "channels=news&last=256");
    stream.hello();
    for _ in 0..2 * SAMPLE_EVERY {
        stream.object();
    }
    let metrics = server.admin.metrics();
    assert_eq!(metrics.value("encke_messages_delivered_total"), 2.0 * SAMPLE_EVERY as f64);
    assert_eq!(measured(&server, "sse", "count"), 0.0);
}
