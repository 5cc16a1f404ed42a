//! `GET /encke.js`, which requires no authentication.

use std::fs;
use std::net::SocketAddr;

use encke_tests::poll::PollClient;
use encke_tests::{HttpResponse, RunningServer};

use super::folder;

/// Sends one request on a separate connection. Not for HEAD, whose response has a content length but no body.
fn request(address: SocketAddr, method: &str, headers: &str) -> HttpResponse {
    PollClient::connect(address).exchange(format!(
        "{method} /encke.js HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n{headers}\r\n"
    ))
}

#[test]
fn the_module_is_served_to_every_origin_and_may_be_cached() {
    let module = fs::read_to_string(folder().join("encke.js")).expect("the module exists");
    let server = RunningServer::with(&[]);
    let foreign = "Origin: https://elsewhere.example\r\nSec-Fetch-Site: cross-site\r\n";
    for headers in ["", foreign] {
        let answer = request(server.public, "GET", headers);
        assert_eq!((answer.status, &*answer.body), (200, &*module));
        for (name, value) in [
            ("content-type", "text/javascript; charset=utf-8"),
            ("cache-control", "public, no-cache"),
            ("access-control-allow-origin", "*"),
            ("cross-origin-resource-policy", "cross-origin"),
        ] {
            assert_eq!(answer.header(name), Some(value), "{name}");
        }
    }
    let answer = request(server.public, "GET", "");
    let [tag, length] = ["etag", "content-length"].map(|name| answer.header(name).expect(name));
    let cached = request(server.public, "GET", &format!("If-None-Match: \"other\", W/{tag}\r\n"));
    assert_eq!((cached.status, &*cached.body, cached.header("etag")), (304, "", Some(tag)));
    assert_eq!(cached.header("access-control-allow-origin"), Some("*"));
    let again = RunningServer::with(&[]);
    let again = request(again.public, "GET", "");
    assert_eq!(again.header("etag"), Some(tag), "another process of the same version");

    let mut requests = PollClient::connect(server.public);
    requests.send("HEAD /encke.js HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n");
    let head = String::from_utf8(requests.read_to_end()).expect("heads are text");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && head.ends_with("\r\n\r\n"), "{head}");
    assert!(head.contains(&format!("\r\ncontent-length: {length}\r\n")), "{head}");
}

#[test]
fn other_methods_and_host_names_are_rejected() {
    const REBOUND: &str = "GET /encke.js HTTP/1.1\r\nHost: rebound.example\r\n\r\n";
    let server = RunningServer::with(&[]);
    for method in ["POST", "OPTIONS", "DELETE"] {
        let answer = request(server.public, method, "");
        assert_eq!((answer.status, answer.header("allow")), (405, Some("GET, HEAD")), "{method}");
    }
    assert_eq!(PollClient::connect(server.public).exchange(REBOUND).status, 403);
    // With authentication configured, any host name is accepted, and the module needs no token.
    let server = RunningServer::with_tokens(&[]);
    assert_eq!(PollClient::connect(server.public).exchange(REBOUND).status, 200);
}
