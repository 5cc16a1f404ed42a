use std::time::Duration;

use encke_tests::live::request_live;
use encke_tests::raw::Dial;
use encke_tests::waiting::{eventually, until};
use encke_tests::{Launch, LiveStream, Metrics, RunningServer};
use serde_json::{Value, json};

const READER: &str = "reader-0123456789";
const PUBLISHER: &str = "publisher-0123456789";

/// Reads the first events of a stream and returns the samples of the history.
fn history(stream: &mut LiveStream) -> Vec<Value> {
    stream.event("server");
    stream.event("history").as_array().expect("an array").clone()
}

/// Returns the sample in the form in which it appears in the history.
fn without_rings(mut sample: Value) -> Value {
    sample.as_object_mut().expect("an object").remove("rings").expect("each event has rings");
    sample
}

/// The page itself contains no data, so it requires no key.
#[test]
fn stream_requires_the_read_scope_and_begins_with_the_server() {
    let key = |name, key, scope| format!("{{name=\"{name}\",key=\"{key}\",scopes=[\"{scope}\"]}}");
    let keys = [key("reader", READER, "read"), key("publisher", PUBLISHER, "publish")].join(",");
    let server = Launch::with(&["session.idle=1h", "listen.public_url=wss://ws.example/"])
        .set(&format!("auth.api_keys=[{keys}]"))
        .start();
    assert_eq!(server.admin.get("/api/live").status, 401);
    server.admin.with_key(PUBLISHER).get("/api/live").assert_error(403, "forbidden");
    for path in ["/", "/dashboard/main.js"] {
        assert_eq!(server.admin.get(path).status, 200, "{path}");
    }
    let reader = server.admin.with_key(READER);
    let head = reader.request("HEAD", "/api/live");
    assert_eq!((head.status, &*head.body), (200, ""));
    assert_eq!(reader.request("POST", "/api/live").status, 405);
    let mut stream = LiveStream::open(reader);
    for head in [&stream.head, &head] {
        assert_eq!(head.header("content-type"), Some("text/event-stream"));
    }
    assert_eq!(stream.head.header("cache-control"), Some("no-store"));
    let about = stream.event("server");
    let timeouts = json!({"ping_interval_ms": 25_000, "pong_timeout_ms": 10_000, "poll_hold_ms": 30_000, "poll_gap_ms": 10_000,
        "reconnect_window_ms": 120_000, "idle_ms": 3_600_000, "lifetime_ms": 86_400_000});
    assert_eq!(about["timeouts"], timeouts);
    assert_eq!(about["public_url"], "wss://ws.example");
    assert_eq!((&about["public_port"], &about["public_tls"]), (&json!(server.public.port()), &json!(false)));
    assert_eq!((&about["scopes"], &about["webhooks"]), (&json!(["read"]), &json!([])));
}

fn assert_metrics_agree(sample: &Value, metrics: &Metrics) {
    let labelled = |list: &str, name: &str, labels: &[&str], value: &str| {
        for item in sample[list].as_array().expect("an array") {
            let labels: Vec<_> = labels
                .iter()
                .map(|label| format!("{label}=\"{}\"", item[label].as_str().expect("text")))
                .collect();
            let series = format!("{name}{{{}}}", labels.join(","));
            assert_eq!(item[value].as_f64(), Some(metrics.value(&series)), "{series}");
        }
        let all: f64 =
            sample[list].as_array().into_iter().flatten().filter_map(|item| item[value].as_f64()).sum();
        assert_eq!(all, metrics.total(name), "{name} has no other series");
    };
    labelled("events", "encke_session_events_total", &["event", "reason"], "count");
    labelled("resumes", "encke_resumes_total", &["outcome"], "count");
    labelled("refusals", "encke_refusals_total", &["reason"], "count");
    labelled("connections", "encke_connections", &["transport", "dialect"], "open");
    for (deadline, count) in sample["expiries"].as_object().expect("an object") {
        // This deadline keeps changing: the sampler itself sleeps between samples.
        if deadline != "sleep" {
            let series = format!("encke_timer_expiries_total{{deadline=\"{deadline}\"}}");
            assert_eq!(count.as_f64(), Some(metrics.value(&series)), "{series}");
        }
    }
    for phase in ["attached", "suspended"] {
        assert_eq!(sample["sessions"][phase].as_f64(), Some(metrics.sessions(phase)), "{phase}");
    }
    for (path, series) in [
        ("/messages/published", "encke_messages_published_total"),
        ("/messages/delivered", "encke_messages_delivered_total"),
        ("/messages/gaps", "encke_gaps_total"),
        ("/channels", "encke_channels"),
        ("/log_bytes", "encke_log_bytes"),
        ("/reminders", "encke_reminders"),
    ] {
        assert_eq!(sample.pointer(path).and_then(Value::as_f64), Some(metrics.value(series)), "{series}");
    }
    assert_eq!(sample["parked"].as_f64(), Some(metrics.total("encke_connections_parked")));
    for bucket in sample["ping_rtt"].as_array().expect("an array") {
        let end = bucket[0].as_f64().map_or("+Inf".to_owned(), |ms| format!("{:?}", ms / 1e3));
        let series = format!("encke_ping_rtt_seconds_bucket{{le=\"{end}\"}}");
        assert_eq!(bucket[1].as_f64(), Some(metrics.value(&series)), "{series}");
    }
}

/// Returns the fields of a sample that change only when something happens.
fn steady_fields(sample: &Value) -> Vec<Value> {
    let traffic = ["events", "resumes", "refusals", "messages", "channels", "log_bytes"];
    let fields = traffic.iter().chain(&["connections", "parked", "sessions"]);
    fields.map(|field| sample[field].clone()).collect()
}

fn limit<'a>(sample: &'a Value, key: &str) -> Option<&'a Value> {
    sample["limits"].as_array().expect("an array").iter().find(|limit| limit["key"] == key)
}

#[test]
fn sample_agrees_with_metrics_and_timers() {
    let server = RunningServer::with(&[
        "session.ping_interval=2s",
        "session.pong_timeout=2s",
        "timers.ping_slack=20ms",
    ]);
    let (mut client, mut other) = (server.client(), server.client());
    client.subscribe("news");
    server.admin.publish("news", "a message");
    assert_eq!(client.object()["message"]["data"], "a message");
    // Produce answered pings and closed sessions, so that these counters are not zero.
    other.close();
    let suspended = server.suspended_session();
    assert!(server.resume("s_none.none").hello.session != suspended.session);
    until("pings were answered", || {
        _ = client.next_within(Duration::from_millis(50));
        server.admin.metrics().value("encke_ping_rtt_seconds_count") >= 2.0
    });
    client.close();
    server.admin.request("GET", "/api/users/nobody");
    let mut stream = LiveStream::open(server.admin);
    history(&mut stream);
    let mut before = stream.event("sample");
    let (sample, metrics) = eventually("two consecutive samples are equal", || {
        let metrics = server.admin.metrics();
        let sample = stream.event("sample");
        let is_still = steady_fields(&before) == steady_fields(&sample);
        before = sample.clone();
        is_still.then_some((sample, metrics))
    });
    assert_metrics_agree(&sample, &metrics);
    let round_trips = sample["ping_rtt"].as_array().and_then(|buckets| buckets.last());
    assert!(round_trips.is_some_and(|last| last[1].as_u64() >= Some(2)));
    let timers = server.admin.get("/api/timers").json();
    for field in ["scheme", "tick_ms", "lateness", "stalls"] {
        assert_eq!(sample["timers"][field], timers[field], "{field}");
    }
    let keys = |value: &Value| value.as_object().expect("an object").keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(&sample["timers"]), keys(&timers));
    let sessions = server.admin.get("/api/sessions").json()["sessions"].as_array().map(Vec::len);
    assert_eq!(limit(&sample, "limits.max_sessions").map(|limit| &limit["used"]), Some(&json!(sessions)));
    let channels = json!({"key": "limits.max_channels", "used": 1, "max": 100_000});
    assert_eq!(limit(&sample, "limits.max_channels"), Some(&channels));
    assert_eq!(limit(&sample, "limits.max_connections"), None, "the number of connections is not limited");
    assert!(sample["process"]["resident_bytes"].as_u64() >= Some(1 << 20), "{sample}");
}

/// Validates JSON against a schema of the document: types, required fields, and the absence of unknown
/// fields.
fn validate(value: &Value, schema: &Value, document: &Value, at: &str) {
    if let Some(reference) = schema["$ref"].as_str() {
        let schema =
            document.pointer(reference.trim_start_matches('#')).expect("the schema that the reference names");
        return validate(value, schema, document, at);
    }
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
    };
    let allowed = schema["type"].as_array().cloned().unwrap_or_else(|| vec![schema["type"].clone()]);
    let is_allowed = allowed.iter().any(|one| one == kind || (kind == "integer" && one == "number"));
    assert!(is_allowed, "{at}: {kind}, not {allowed:?}");
    for item in value.as_array().into_iter().flatten() {
        if schema["items"].is_object() {
            validate(item, &schema["items"], document, at);
        }
    }
    let Some(fields) = value.as_object() else { return };
    for name in schema["required"].as_array().into_iter().flatten() {
        assert!(fields.contains_key(name.as_str().expect("a name")), "{at} lacks {name}");
    }
    for (name, field) in fields {
        let named = &schema["properties"][name];
        let schema = if named.is_null() { &schema["additionalProperties"] } else { named };
        assert!(schema.is_object(), "{at}.{name} is not in the document");
        validate(field, schema, document, &format!("{at}.{name}"));
    }
}

/// Another stream has the same samples in its history.
#[test]
fn events_match_the_openapi_document() {
    let server = RunningServer::with(&[]);
    let mut client = server.client();
    client.subscribe("news");
    let document = server.admin.get("/api/openapi.json").json();
    let events = "/paths/~1api~1live/get/responses/200/content/text~1event-stream/x-events";
    let events = document.pointer(events).expect("the events").clone();
    let mut stream = LiveStream::open(server.admin);
    let [about, _, one, two] = ["server", "history", "sample", "sample"].map(|name| {
        let event = stream.event(name);
        validate(&event, &events[name], &document, name);
        event
    });
    assert_eq!(about["scopes"], json!(["read", "publish", "sessions"]));
    let known = history(&mut LiveStream::open(server.admin));
    let first = without_rings(one);
    let at = known.iter().position(|sample| *sample == first).expect("the history has the sample");
    assert_eq!(known[at + 1], without_rings(two));
}

/// Returns the number of connections to the admin listener, from the next sample.
fn admin_connections(stream: &mut LiveStream) -> Option<u64> {
    limit(&stream.event("sample"), "limits.max_admin_connections")?["used"].as_u64()
}

#[test]
fn client_that_does_not_read_is_disconnected_and_costs_no_memory() {
    let server = RunningServer::with(&["session.write_timeout=1s", "limits.send_buffer=4KiB"]);
    let mut stream = LiveStream::open(server.admin);
    history(&mut stream);
    until("no other connection is open", || admin_connections(&mut stream) == Some(1));
    let before = server.resident_bytes();
    let dial = || Dial::with_receive_buffer(4096);
    let mut idle: Vec<_> = (0..100).map(|_| request_live(server.admin, dial())).collect();
    until("all streams are open", || admin_connections(&mut stream) == Some(101));
    until("all streams are closed", || admin_connections(&mut stream) == Some(1));
    let after = server.resident_bytes();
    assert!(after.saturating_sub(before) < 16 << 20, "{before} bytes, and then {after}");
    // Data in transit can still be read. It is followed by the end of the stream or a reset.
    for stream in &mut idle {
        stream.read_to_end();
    }
    admin_connections(&mut stream);
}

#[test]
fn draining_server_ends_streams_and_starts_no_new_ones() {
    let mut server = RunningServer::with(&["shutdown.drain=60s", "session.close_timeout=60s"]);
    let (mut stays, _) = encke_tests::RawClient::greeted(server.public, "");
    let mut streams: Vec<_> = (0..3).map(|_| LiveStream::open(server.admin)).collect();
    for stream in &mut streams {
        history(stream);
    }
    server.terminate();
    stays.object();
    for stream in streams {
        let samples = stream.count();
        assert!(samples <= 2, "{samples} samples after the signal");
    }
    server.admin.get("/api/live").assert_error(503, "draining");
    drop(stays);
    assert_eq!(server.await_exit().code(), Some(0), "the drain does not wait for streams");
}
