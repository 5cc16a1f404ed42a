//! `GET /encke.js`, which requires no authentication.

use std::fs;
use std::io::Read;
use std::net::SocketAddr;

use encke_tests::poll::PollClient;
use encke_tests::tokens::SECRET;
use encke_tests::{HttpResponse, Launch, RunningServer};

use super::folder;

/// Sends one request on a separate connection. Not for HEAD, whose response has a content length but no body.
fn request(address: SocketAddr, method: &str, headers: &str) -> HttpResponse {
    let mut requests = PollClient::connect(address);
    requests.send(&format!(
        "{method} /encke.js HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n{headers}\r\n"
    ));
    requests.response()
}

#[test]
fn the_module_is_served_to_every_origin() {
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
}

#[test]
fn a_cached_module_is_not_sent_again() {
    let server = RunningServer::with(&[]);
    let tag = request(server.public, "GET", "").header("etag").expect("the response has a tag").to_owned();
    for tags in [tag.clone(), format!("W/{tag}"), format!("\"other\", {tag}"), "*".to_owned()] {
        let answer = request(server.public, "GET", &format!("If-None-Match: {tags}\r\n"));
        assert_eq!((answer.status, &*answer.body), (304, ""), "{tags}");
        assert_eq!(answer.header("etag"), Some(&*tag));
        assert_eq!(answer.header("access-control-allow-origin"), Some("*"));
    }
    assert_eq!(request(server.public, "GET", "If-None-Match: \"other\"\r\n").status, 200);
    let again = RunningServer::with(&[]);
    assert_eq!(
        request(again.public, "GET", "").header("etag"),
        Some(&*tag),
        "another process of the same version"
    );
}

#[test]
fn head_matches_get() {
    let server = RunningServer::with(&[]);
    let length = request(server.public, "GET", "").header("content-length").expect("a length").to_owned();
    let mut requests = PollClient::connect(server.public);
    requests.send("HEAD /encke.js HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n");
    let mut head = String::new();
    requests.stream().read_to_string(&mut head).expect("the response ends with the connection");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && head.ends_with("\r\n\r\n"), "{head}");
    assert!(head.contains(&format!("\r\ncontent-length: {length}\r\n")), "{head}");
}

#[test]
fn other_methods_and_host_names_are_rejected() {
    let server = RunningServer::with(&[]);
    for method in ["POST", "OPTIONS", "DELETE"] {
        let answer = request(server.public, method, "");
        assert_eq!((answer.status, answer.header("allow")), (405, Some("GET, HEAD")), "{method}");
    }
    let mut requests = PollClient::connect(server.public);
    requests.send("GET /encke.js HTTP/1.1\r\nHost: rebound.example\r\n\r\n");
    assert_eq!(requests.response().status, 403);
    // With authentication configured, any host name is accepted, and the module needs no token.
    let server = Launch::default().environment("ENCKE_AUTH__SECRET", SECRET).start();
    let mut requests = PollClient::connect(server.public);
    requests.send("GET /encke.js HTTP/1.1\r\nHost: rebound.example\r\n\r\n");
    assert_eq!(requests.response().status, 200);
}
