use std::io::Read;
use std::time::{Duration, Instant};

use encke_tests::live::request_live;
use encke_tests::raw::Dial;
use encke_tests::waiting::{MAX_LATENESS, TIMEOUT, eventually, until};
use encke_tests::{Launch, LiveStream, Metrics, RunningServer};
use serde_json::{Value, json};

const READER: &str = "reader-0123456789";
const PUBLISHER: &str = "publisher-0123456789";

fn numbers(samples: &[Value]) -> Vec<u64> {
    samples.iter().map(|sample| sample["at_ms"].as_u64().expect("a number")).collect()
}

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

#[test]
fn all_streams_receive_the_same_samples_once_without_holes() {
    let server = RunningServer::with(&[]);
    let mut one = LiveStream::open(server.admin);
    let mut seen = history(&mut one);
    seen.extend((0..2).map(|_| without_rings(one.event("sample"))));
    let mut other = LiveStream::open(server.admin);
    let mut other_seen = history(&mut other);
    other_seen.extend((0..2).map(|_| without_rings(other.event("sample"))));
    while seen.len() < other_seen.len() {
        seen.push(without_rings(one.event("sample")));
    }
    assert_eq!(seen, other_seen, "the samples are identical");
    let at = numbers(&seen);
    assert!(at.windows(2).all(|two| two[0] < two[1]), "{at:?}");
    // A stream that starts later has all these samples in its history.
    let late = history(&mut LiveStream::open(server.admin));
    assert_eq!(late[..seen.len().min(late.len())], seen[..seen.len().min(late.len())]);
}

#[test]
fn first_event_describes_the_server() {
    let server = Launch::with(&["session.idle=1h", "listen.public_url=wss://ws.example/"]).start();
    let about = LiveStream::open(server.admin).event("server");
    let timeouts = json!({"ping_interval_ms": 25_000, "pong_timeout_ms": 10_000, "poll_hold_ms": 30_000, "poll_gap_ms": 10_000,
        "reconnect_window_ms": 120_000, "idle_ms": 3_600_000, "lifetime_ms": 86_400_000});
    assert_eq!(about["timeouts"], timeouts);
    assert_eq!(about["public_url"], "wss://ws.example");
    assert_eq!((&about["public_port"], &about["public_tls"]), (&json!(server.public.port()), &json!(false)));
    assert_eq!(about["scopes"], json!(["read", "publish", "sessions"]));
    assert_eq!(about["webhooks"], json!([]));
}

/// Asserts that `/metrics` agrees with a sample.
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
fn steady_fields(sample: &Value) -> Value {
    let fields = [
        "events",
        "resumes",
        "refusals",
        "connections",
        "parked",
        "sessions",
        "messages",
        "channels",
        "log_bytes",
    ];
    fields
        .iter()
        .map(|field| ((*field).to_owned(), sample[field].clone()))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

#[test]
fn sample_agrees_with_metrics_and_timers() {
    let server = RunningServer::with(&[
        "session.ping_interval=200ms",
        "session.pong_timeout=200ms",
        "timers.ping_slack=20ms",
    ]);
    let (mut client, mut other) = (server.client(), server.client());
    client.subscribe("news");
    server.admin.publish("news", "a message");
    assert_eq!(client.object()["message"]["data"], "a message");
    // Produce answered pings and closed sessions, so that these counters are not zero.
    other.send(r#"{"close":{}}"#);
    assert_eq!(other.close_code(), Some(1000));
    let suspended = server.suspended_session();
    assert!(server.resume("s_none.none").hello.session != suspended.session);
    until("pings were answered", || {
        _ = client.next_within(Duration::from_millis(50));
        server.admin.metrics().value("encke_ping_rtt_seconds_count") >= 2.0
    });
    client.send(r#"{"close":{}}"#);
    assert_eq!(client.close_code(), Some(1000));
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
    assert!(
        sample["ping_rtt"]
            .as_array()
            .and_then(|all| all.last())
            .is_some_and(|last| last[1].as_u64() >= Some(2))
    );
    let timers = server.admin.get("/api/timers").json();
    for field in ["scheme", "tick_ms", "lateness", "stalls"] {
        assert_eq!(sample["timers"][field], timers[field], "{field}");
    }
    let keys = |value: &Value| value.as_object().expect("an object").keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(&sample["timers"]), keys(&timers));
    let sessions = server.admin.get("/api/sessions").json()["sessions"].as_array().map(Vec::len);
    let limit = |key: &str| {
        sample["limits"].as_array().into_iter().flatten().find(|limit| limit["key"] == key).cloned()
    };
    assert_eq!(
        limit("limits.max_sessions").and_then(|limit| limit["used"].as_u64()),
        sessions.map(|count| count as u64)
    );
    assert_eq!(
        limit("limits.max_channels"),
        Some(json!({"key": "limits.max_channels", "used": 1, "max": 100_000}))
    );
    assert_eq!(limit("limits.max_connections"), None, "the number of connections is not limited");
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

/// While a client watches, the wheel wakes a few times per second and reports its contents.
#[test]
fn samples_show_the_wheel_while_a_client_watches() {
    let server = RunningServer::with(&[
        "session.ping_interval=1h",
        "session.reconnect_window=1h",
        "session.lifetime=off",
    ]);
    let clients: Vec<_> = (0..3).map(|_| server.client()).collect();
    let mut stream = LiveStream::open(server.admin);
    history(&mut stream);
    let sample = eventually("the wheel reports its contents", || {
        let sample = stream.event("sample");
        let held = |ring: &Value| -> u64 {
            ring["occupied"].as_array().into_iter().flatten().filter_map(|slot| slot[1].as_u64()).sum()
        };
        let rings: u64 = sample["rings"].as_array()?.iter().map(held).sum();
        (rings >= clients.len() as u64).then_some(sample)
    });
    let rings = sample["rings"].as_array().expect("rings");
    assert_eq!(rings.len(), sample["timers"]["levels"].as_array().expect("levels").len());
    assert_eq!(
        (&rings[0]["slots"], &rings[0]["slot_ticks"], &rings[0]["counted"]),
        (&json!(256), &json!(1), &json!(true))
    );
}

#[test]
fn a_scheme_without_slots_has_no_rings() {
    let server = RunningServer::with(&["timers.scheme=binary-heap"]);
    let mut stream = LiveStream::open(server.admin);
    history(&mut stream);
    let rings = eventually("the wheel has turned", || {
        Some(stream.event("sample")["rings"].clone()).filter(|rings| !rings.is_null())
    });
    assert_eq!(rings, json!([]));
}

#[test]
fn events_match_the_openapi_document() {
    let server = RunningServer::with(&[]);
    let mut client = server.client();
    client.subscribe("news");
    let document = server.admin.get("/api/openapi.json").json();
    let events = "/paths/~1api~1live/get/responses/200/content/text~1event-stream/x-events";
    let events = document.pointer(events).expect("the events").clone();
    let mut stream = LiveStream::open(server.admin);
    for name in ["server", "history", "sample", "sample"] {
        validate(&stream.event(name), &events[name], &document, name);
    }
}

#[test]
fn stream_has_the_headers_of_an_event_stream() {
    let server = RunningServer::with(&[]);
    let stream = LiveStream::open(server.admin);
    assert_eq!(stream.head.header("content-type"), Some("text/event-stream"));
    assert_eq!(stream.head.header("cache-control"), Some("no-store"));
    let head = server.admin.request("HEAD", "/api/live");
    assert_eq!((head.status, &*head.body), (200, ""));
    assert_eq!(head.header("content-type"), Some("text/event-stream"));
    assert_eq!(server.admin.request("POST", "/api/live").status, 405);
}

#[test]
fn watching_requires_the_read_scope() {
    let key = |name, key, scope| format!("{{name=\"{name}\",key=\"{key}\",scopes=[\"{scope}\"]}}");
    let keys = [key("reader", READER, "read"), key("publisher", PUBLISHER, "publish")].join(",");
    let server = Launch::default().set(&format!("auth.api_keys=[{keys}]")).start();
    assert_eq!(server.admin.get("/api/live").status, 401);
    let refused = server.admin.with_key(PUBLISHER).get("/api/live");
    assert_eq!((refused.status, &*refused.error_code()), (403, "forbidden"));
    let about = LiveStream::open(server.admin.with_key(READER)).event("server");
    assert_eq!(about["scopes"], json!(["read"]));
    // The page itself contains no data, so it requires no key.
    for path in ["/", "/dashboard/main.js"] {
        assert_eq!(server.admin.get(path).status, 200, "{path}");
    }
}

/// Returns the number of connections to the admin listener, from the next sample.
fn admin_connections(stream: &mut LiveStream) -> Option<u64> {
    let sample = stream.event("sample");
    let limits = sample["limits"].as_array().expect("an array");
    limits.iter().find(|limit| limit["key"] == "limits.max_admin_connections")?["used"].as_u64()
}

#[test]
fn client_that_does_not_read_is_disconnected_and_costs_no_memory() {
    let server = RunningServer::with(&["session.write_timeout=1s", "limits.send_buffer=4KiB"]);
    let mut stream = LiveStream::open(server.admin);
    history(&mut stream);
    until("no other connection is open", || admin_connections(&mut stream) == Some(1));
    let before = server.resident_bytes();
    let dial = || Dial { receive_buffer: Some(4096), ..Dial::default() };
    let mut idle: Vec<_> = (0..100).map(|_| request_live(server.admin, dial())).collect();
    until("all streams are open", || admin_connections(&mut stream) == Some(101));
    until("all streams are closed", || admin_connections(&mut stream) == Some(1));
    let after = server.resident_bytes();
    assert!(after.saturating_sub(before) < 16 << 20, "{before} bytes, and then {after}");
    // Data in transit can still be read. It is followed by the end of the stream or a reset.
    for stream in &mut idle {
        _ = stream.read_to_end(&mut Vec::new());
    }
    admin_connections(&mut stream);
}

#[test]
fn streams_end_when_the_server_drains_and_delay_nothing() {
    let mut server = RunningServer::with(&["shutdown.drain=15s"]);
    let mut streams: Vec<_> = (0..3).map(|_| LiveStream::open(server.admin)).collect();
    for stream in &mut streams {
        history(stream);
    }
    let from = Instant::now();
    server.terminate();
    assert_eq!(server.await_exit(TIMEOUT).code(), Some(0));
    assert!(from.elapsed() < MAX_LATENESS + Duration::from_secs(3), "{:?}", from.elapsed());
    for mut stream in streams {
        while stream.next().is_some() {}
    }
}

#[test]
fn draining_server_ends_streams_and_starts_no_new_ones() {
    let server = RunningServer::with(&["shutdown.drain=15s", "session.close_timeout=15s"]);
    let (mut stays, _) = encke_tests::RawClient::greeted(server.public, "");
    let mut stream = LiveStream::open(server.admin);
    history(&mut stream);
    server.terminate();
    stays.object();
    let mut samples = 0;
    while stream.next().is_some() {
        samples += 1;
    }
    assert!(samples <= 2, "{samples} samples after the signal");
    let refused = server.admin.get("/api/live");
    assert_eq!((refused.status, &*refused.error_code()), (503, "draining"));
}
