//! Fuzzes the query of a request, and the headers that decide whether the request is accepted.

use encke_server::auth::{Hosts, Origins};
use encke_server::testing::fuzzing;

use crate::pages::{is_safe_from_rebinding, may_connect, without_port};

/// Checks a request. The lines of the input are a query, an `Authorization`, an `Origin`, and values of
/// `Host`.
pub(crate) fn run(input: &[u8]) {
    let mut lines = input.split(|byte| *byte == b'\n');
    let mut line = || lines.next().unwrap_or_default();
    let (query_line, authorization, origin) = (line(), line(), line());
    if let Ok(text) = std::str::from_utf8(query_line) {
        drop(fuzzing::upgrade_query(text));
    }
    check_bearer(authorization);
    let hosts: Vec<_> = lines.collect();
    check_host(&hosts);
    if let (Ok(origin), Some(Ok(host))) =
        (std::str::from_utf8(origin), hosts.first().map(|host| std::str::from_utf8(host)))
    {
        check_origin(origin, host);
    }
}

fn check_bearer(authorization: &[u8]) {
    let Some(token) = fuzzing::bearer(authorization) else { return };
    assert!(authorization.to_ascii_lowercase().starts_with(b"bearer "));
    assert_eq!(token, token.trim_ascii());
    assert_eq!(fuzzing::bearer(&[b"Bearer ", token].concat()), Some(token));
}

/// Checks that, without tokens, a request is accepted only if its host is an address, `localhost` or a listed
/// name.
fn check_host(values: &[&[u8]]) {
    let listed = Hosts::new(&["encke.example".to_owned()]);
    let allowed = fuzzing::is_host_allowed(&listed, values, None);
    if allowed == Some(true) {
        let [host] = values else { panic!("{} hosts", values.len()) };
        let host = std::str::from_utf8(host).expect("names and addresses are ASCII");
        assert!(
            is_safe_from_rebinding(host) || without_port(host).eq_ignore_ascii_case("encke.example"),
            "{host}"
        );
    }
    let cross_site = fuzzing::is_host_allowed(&listed, values, Some(b"cross-site"));
    assert_ne!(cross_site, Some(true), "a cross-site request without an origin was accepted");
    // A name that is valid in the list is accepted once it is listed.
    if let [host] = values
        && let Ok(host) = std::str::from_utf8(host)
        && Hosts::check(host).is_ok()
    {
        let listed = Hosts::new(&[host.to_owned()]);
        assert_eq!(fuzzing::is_host_allowed(&listed, values, None), Some(true), "{host}");
        let with_port = format!("{host}:8000");
        assert_eq!(fuzzing::is_host_allowed(&listed, &[with_port.as_bytes()], None), Some(true), "{host}");
    }
}

/// Checks whether a page may connect, with and without its origin in the list.
fn check_origin(origin: &str, host: &str) {
    for unguarded in [false, true] {
        if Origins::default().allows(Some(origin), Some(host), unguarded) {
            assert!(may_connect(origin, host, unguarded), "{origin} to {host}, {unguarded}");
        }
    }
    if Origins::check(origin).is_ok() {
        assert!(Origins::new(&[origin.to_owned()]).allows(Some(origin), Some(host), true), "{origin}");
        let other = "https://another.example";
        let allowed = Origins::new(&[origin.to_owned()]).allows(Some(other), Some("localhost"), true);
        assert_eq!(allowed, origin == "*" || origin.eq_ignore_ascii_case(other), "{origin}");
    }
}
