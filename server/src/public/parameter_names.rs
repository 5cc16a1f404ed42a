//! Names of the query parameters that each path accepts. An unknown name is an error, because a misspelt
//! parameter would otherwise have no effect.

use hyper::{Method, Request};

use crate::http::ApiError;
use crate::http::request::{check_names, parameters};

const WEBSOCKET: &[&str] = &["resume", "seq", "token", "heartbeat", "positions"];

/// `heartbeat` has no effect, so a client may use the same parameters as for `/ws`.
const EVENTS: &[&str] = &["channels", "last", "resume", "seq", "token", "heartbeat", "lastEventId"];

/// Also applies to `POST /poll`: clients send commands with the parameters of their polls.
const POLL: &[&str] = &["channels", "last", "resume", "seq", "token", "heartbeat"];

const BAYEUX: &[&str] = &["token", "jsonp", "message"];

/// Parameters that libraries add by themselves, to bypass caches or to instruct servers that were written for
/// them. They have no effect.
const ADDED_BY_LIBRARIES: &[&str] = &[
    // jQuery.
    "_",
    // Ext JS.
    "_dc",
    // Dojo, before and since 1.8.
    "dojo.preventCache",
    "request.preventCache",
    // The EventSource of older versions of the npm package event-source-polyfill.
    "r",
    // The EventSource of the npm package eventsource-polyfill.
    "evs_buffer_size_limit",
    "evs_last_event_id",
    "evs_preamble",
];

/// Checks the names of the query parameters, if the path has a query.
///
/// # Errors
/// A name is unknown.
pub(super) fn check<B>(request: &Request<B>, is_bayeux: bool) -> Result<(), ApiError> {
    let is_post = request.method() == Method::POST;
    if !is_post && request.method() != Method::GET {
        return Ok(());
    }
    let known = match request.uri().path() {
        _ if is_bayeux => BAYEUX,
        "/ws" if !is_post => WEBSOCKET,
        "/events" if !is_post => EVENTS,
        "/poll" => POLL,
        _ => return Ok(()),
    };
    let names = parameters(request.uri()).map(|(name, _)| name);
    check_names(names.filter(|name| !ADDED_BY_LIBRARIES.contains(&&**name)), known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_path_accepts_its_parameters_and_those_of_libraries() {
        for (method, target, error) in [
            ("GET", "/ws?resume=a&seq=1&token=a&heartbeat=frame&positions=1", None),
            (
                "GET",
                "/ws?channels=a",
                Some("channels; this path has resume, seq, token, heartbeat, positions"),
            ),
            ("GET", "/ws?_=1&heartbeats=frame", Some("heartbeats; did you mean heartbeat?")),
            ("POST", "/ws?x", None),
            (
                "GET",
                "/events?channels=a&last=1&resume=a&seq=1&token=a&heartbeat=frame&lastEventId=a&r=1",
                None,
            ),
            ("GET", "/events?channels=a&evs_preamble=1&evs_buffer_size_limit=1&evs_last_event_id=a", None),
            ("GET", "/events?Last-Event-ID=a", Some("Last-Event-ID; did you mean lastEventId?")),
            ("GET", "/poll?channels=a&last=1&resume=a&seq=1&token=a&heartbeat=frame&_=1", None),
            ("GET", "/poll?chanels=a", Some("chanels; did you mean channels?")),
            ("POST", "/poll?resume=a&seq=1&token=a&_dc=1", None),
            ("POST", "/poll?resum=a", Some("resum; did you mean resume?")),
            ("OPTIONS", "/poll?chanels=a", None),
            ("GET", "/encke.js?v=1", None),
            (
                "GET",
                "/bayeux?jsonp=f&message=%5B%5D&token=a&dojo.preventCache=1&request.preventCache=1",
                None,
            ),
            ("GET", "/bayeux?tokne=a", Some("tokne; did you mean token?")),
            ("POST", "/bayeux?resume=a", Some("resume; this path has token, jsonp, message")),
            ("OPTIONS", "/bayeux?tokne=a", None),
        ] {
            let request = Request::builder().method(method).uri(target).body(()).expect("a request");
            let error = error.map(|error| format!("unknown parameter: {error}"));
            let checked = check(&request, target.starts_with("/bayeux"));
            assert_eq!(checked.err().map(|error| error.to_string()), error, "{method} {target}");
        }
    }
}
