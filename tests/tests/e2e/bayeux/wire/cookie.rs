use encke_tests::admin::HttpResponse;
use encke_tests::bayeux::{JSON, assert_refused, client_id, connect_now, handshake, messages, post};
use encke_tests::{PollClient, RunningServer, tls};
use serde_json::Value;

use crate::poll::over_tls;

const NAME: &str = "BAYEUX_BROWSER";

/// Returns the cookie as `name=value`, and its attributes in lower case and sorted.
#[track_caller]
fn cookie(answer: &HttpResponse) -> (String, Vec<String>) {
    let set_cookie = answer.header("set-cookie").expect("a cookie");
    let mut parts = set_cookie.split(';').map(str::trim);
    let pair = parts.next().expect("a cookie").to_owned();
    assert!(pair.starts_with(&format!("{NAME}=")), "{set_cookie}");
    assert!(pair.len() >= NAME.len() + 1 + 16, "the cookie cannot be guessed: {set_cookie}");
    let mut attributes: Vec<_> = parts.map(str::to_lowercase).collect();
    attributes.sort();
    (pair, attributes)
}

/// A browser sends the cookie from a page of another site only with `SameSite=None`, which requires `Secure`.
#[test]
fn a_browser_gets_a_cookie_that_scripts_cannot_read() {
    const ALLOWED_ORIGIN: &str = "https://app.example";
    let (server, certificate) = over_tls(&[&format!(r#"auth.origins=["{ALLOWED_ORIGIN}"]"#)]);
    let get = |headers: &str| {
        let stream = tls::handshake(server.public, &certificate, tls::VERSIONS[1]).expect("trusted");
        cookie(&PollClient::over(stream).exchange(post("/bayeux", headers, &handshake().to_string())))
    };
    let (one, two) = (get(JSON), get(JSON));
    assert_ne!(one.0, two.0);
    // The cookie does not outlive the browser session.
    assert_eq!(one.1, ["httponly", "path=/", "samesite=lax"]);
    let (_, attributes) = get(&format!("{JSON}Origin: {ALLOWED_ORIGIN}\r\n"));
    assert_eq!(attributes, ["httponly", "path=/", "samesite=none", "secure"]);
}

/// The cookie identifies a browser, not a session. A made-up cookie does no harm.
#[test]
fn the_cookie_authorizes_nothing() {
    let server = RunningServer::with(&[]);
    let mut requests = PollClient::connect(server.public);
    let mut answer = |cookie: &str, message: &Value| {
        // Put the cookie among others, as browsers do.
        let headers = format!("{JSON}Cookie: theme=dark; {cookie}; a=b\r\n");
        requests.exchange(post("/bayeux", &headers, &message.to_string()))
    };
    let first = answer("c=d", &handshake());
    let (known, _) = cookie(&first);
    let id = client_id(&messages(&first)[0]);
    let second = answer(&known, &handshake());
    assert_eq!(second.header("set-cookie"), None, "the browser has a cookie");
    let reply = messages(&answer(&known, &connect_now("s_unknown.unknown"))).remove(0);
    assert_refused(&reply, "402");
    for made_up in ["", "x", &"x".repeat(4000), "\"quoted\"", "a=b"] {
        let reply = messages(&answer(&format!("{NAME}={made_up}"), &connect_now(&id))).remove(0);
        assert_eq!(reply["successful"], true, "{made_up:.10}");
    }
}
