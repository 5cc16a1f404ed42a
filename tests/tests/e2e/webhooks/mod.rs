//! The backend is told what happens, by signed requests.

// What may go wrong between server and backend.
mod faults;
// Sessions with cuts, a backend that is down meanwhile: exact.
mod lossless;
// What is told, and how.
mod told;

use encke_tests::waiting::{eventually, until};
use encke_tests::{BackendRequest, Backend, Launch};
use serde_json::Value;

pub(crate) use told::assert_signed;

pub(crate) const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const SESSIONS: &str =
    r#""session.opened","session.suspended","session.resumed","session.expired","session.closed""#;
const CHANNELS: &str = r#""channel.occupied","channel.vacated""#;

/// A server that tells `backend` of these events; `more` as in the configuration, each with a comma before it.
pub(crate) fn telling(backend: &Backend, events: &str, more: &str) -> Launch {
    Launch::default().set(&format!("webhook=[{}]", webhook(backend, events, more)))
}

fn webhook(backend: &Backend, events: &str, more: &str) -> String {
    format!("{{url=\"{}\",events=[{events}],secret=\"{SECRET}\"{more}}}", backend.url("/encke"))
}

/// The events of the requests that were accepted, in the order in which these were.
pub(crate) fn accepted(backend: &Backend) -> Vec<Value> {
    let accepted = backend.requests().into_iter().filter(|asked| asked.status == Some(200));
    accepted.flat_map(|asked| events_of(&asked)).collect()
}

fn events_of(asked: &BackendRequest) -> Vec<Value> {
    asked.json()["events"].as_array().expect("events").clone()
}

/// The events of one session, each as its number, name and reason.
fn of_session(events: &[Value], session: &str) -> Vec<(u64, String, String)> {
    let text = |event: &Value, field: &str| event[field].as_str().expect(field).to_owned();
    let of_it = events.iter().filter(|event| event["session"] == session);
    of_it
        .map(|event| {
            (event["number"].as_u64().expect("a number"), text(event, "event"), text(event, "reason"))
        })
        .collect()
}

/// Waits until these are all the events of a session that were accepted.
#[track_caller]
fn await_session(backend: &Backend, session: &str, expected: &[(u64, &str, &str)]) {
    until(format!("{expected:?}, and no other"), || {
        let events = of_session(&accepted(backend), session);
        let events: Vec<_> =
            events.iter().map(|(number, event, reason)| (*number, &**event, &**reason)).collect();
        events == expected
    });
}

/// Waits for the first request that is such.
#[track_caller]
fn await_asked(backend: &Backend, what: &str, is_such: impl Fn(&BackendRequest) -> bool) -> BackendRequest {
    eventually(what, || backend.requests().into_iter().find(&is_such))
}
