//! Webhooks: signed requests that notify the backend of events.

// Failures between server and backend.
mod faults;
// Selection and content of the events.
mod events;
// Events of users.
mod users;

use encke_tests::waiting::{eventually, until};
use encke_tests::{Backend, BackendRequest, Launch};
use serde_json::Value;

pub(crate) use events::assert_signed;

pub(crate) const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
pub(crate) const SESSIONS: &str =
    r#""session.opened","session.suspended","session.resumed","session.expired","session.closed""#;
const CHANNELS: &str = r#""channel.occupied","channel.vacated""#;
pub(crate) const USERS: &str = r#""user.online","user.offline""#;

/// Configures a server that sends these events to `backend`. `more` contains additional settings of the
/// webhook, each preceded by a comma.
pub(crate) fn launch_with_webhook(backend: &Backend, events: &str, more: &str) -> Launch {
    Launch::default().set(&format!("webhook=[{}]", webhook(&backend.url("/encke"), events, more)))
}

pub(crate) fn webhook(url: &str, events: &str, more: &str) -> String {
    format!("{{url=\"{url}\",events=[{events}],secret=\"{SECRET}\"{more}}}")
}

/// Returns the requests that the backend has answered with 200.
fn accepted_requests(backend: &Backend) -> impl Iterator<Item = BackendRequest> {
    backend.requests().into_iter().filter(|request| request.status == Some(200))
}

/// Returns the events of accepted requests, in the order of acceptance.
pub(crate) fn accepted_events(backend: &Backend) -> Vec<Value> {
    let events = |request: BackendRequest| request.json()["events"].as_array().expect("events").clone();
    accepted_requests(backend).flat_map(events).collect()
}

/// Returns the number, name and reason of each event of a session.
fn events_of_session<'a>(events: &'a [Value], session: &str) -> Vec<(u64, &'a str, &'a str)> {
    let text = |event: &'a Value, field: &str| event[field].as_str().expect("text");
    let of_session = events.iter().filter(|event| event["session"] == session);
    let number = |event: &Value| event["number"].as_u64().expect("a number");
    of_session.map(|event| (number(event), text(event, "event"), text(event, "reason"))).collect()
}

/// Returns the names of the events of a channel.
fn events_of_channel<'a>(events: &'a [Value], channel: &str) -> Vec<&'a Value> {
    events.iter().filter(|event| event["channel"] == channel).map(|event| &event["event"]).collect()
}

/// Waits until exactly these events of a session have been accepted.
#[track_caller]
pub(crate) fn await_session(backend: &Backend, session: &str, expected: &[(u64, &str, &str)]) {
    until(format!("exactly the events {expected:?}"), || {
        events_of_session(&accepted_events(backend), session) == expected
    });
}

/// Waits until exactly these events of a channel have been accepted.
#[track_caller]
fn await_channel(backend: &Backend, channel: &str, expected: &[&str]) {
    until(format!("exactly the events {expected:?}"), || {
        events_of_channel(&accepted_events(backend), channel) == expected
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
