//! Webhooks: signed requests that notify the backend of events.

// Failures between server and backend.
mod faults;
// Exact delivery for sessions that are disconnected while the backend is down.
mod lossless;
// Selection and content of the events.
mod events;

use encke_tests::waiting::{eventually, until};
use encke_tests::{Backend, BackendRequest, Launch};
use serde_json::Value;

pub(crate) use events::assert_signed;

pub(crate) const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const SESSIONS: &str =
    r#""session.opened","session.suspended","session.resumed","session.expired","session.closed""#;
const CHANNELS: &str = r#""channel.occupied","channel.vacated""#;

/// Configures a server that sends these events to `backend`. `more` contains additional settings of the
/// webhook, each preceded by a comma.
pub(crate) fn launch_with_webhook(backend: &Backend, events: &str, more: &str) -> Launch {
    Launch::default().set(&format!("webhook=[{}]", webhook(backend, events, more)))
}

fn webhook(backend: &Backend, events: &str, more: &str) -> String {
    format!("{{url=\"{}\",events=[{events}],secret=\"{SECRET}\"{more}}}", backend.url("/encke"))
}

/// Returns the events of accepted requests, in the order of acceptance.
pub(crate) fn accepted_events(backend: &Backend) -> Vec<Value> {
    let accepted = backend.requests().into_iter().filter(|request| request.status == Some(200));
    accepted.flat_map(|request| events_of(&request)).collect()
}

fn events_of(request: &BackendRequest) -> Vec<Value> {
    request.json()["events"].as_array().expect("events").clone()
}

/// Returns the number, name and reason of each event of a session.
fn events_of_session(events: &[Value], session: &str) -> Vec<(u64, String, String)> {
    let text = |event: &Value, field: &str| event[field].as_str().expect(field).to_owned();
    let of_session = events.iter().filter(|event| event["session"] == session);
    of_session
        .map(|event| {
            (event["number"].as_u64().expect("a number"), text(event, "event"), text(event, "reason"))
        })
        .collect()
}

/// Waits until exactly these events of a session have been accepted.
#[track_caller]
fn await_session(backend: &Backend, session: &str, expected: &[(u64, &str, &str)]) {
    until(format!("exactly the events {expected:?}"), || {
        let events = events_of_session(&accepted_events(backend), session);
        let events: Vec<_> =
            events.iter().map(|(number, event, reason)| (*number, &**event, &**reason)).collect();
        events == expected
    });
}

/// Waits for a request that satisfies a condition.
#[track_caller]
fn await_request(
    backend: &Backend,
    what: &str,
    is_wanted: impl Fn(&BackendRequest) -> bool,
) -> BackendRequest {
    eventually(what, || backend.requests().into_iter().find(&is_wanted))
}
