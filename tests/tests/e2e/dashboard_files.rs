use std::io::{Read, Write};

use encke_tests::tls::VERSIONS;
use encke_tests::{Certificate, Launch, RunningServer, tls};

#[test]
fn dashboard_page_has_minimal_permissions() {
    let server = RunningServer::with(&[]);
    for (path, kind) in [
        ("/", "text/html; charset=utf-8"),
        ("/dashboard/main.js", "text/javascript; charset=utf-8"),
        ("/docs", "text/html; charset=utf-8"),
        ("/dashboard/style.css", "text/css; charset=utf-8"),
        ("/dashboard/icon.svg", "image/svg+xml"),
    ] {
        let answer = server.admin.get(path);
        assert_eq!((answer.status, answer.header("content-type")), (200, Some(kind)), "{path}");
        let public = server.public;
        let policy = format!(
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
             connect-src 'self' ws://{public} http://{public}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        );
        assert_eq!(answer.header("content-security-policy"), Some(&*policy), "{path}");
        for (name, value) in [
            ("x-content-type-options", "nosniff"),
            ("referrer-policy", "no-referrer"),
            ("cross-origin-opener-policy", "same-origin"),
            ("cache-control", "public, no-cache"),
        ] {
            assert_eq!(answer.header(name), Some(value), "{path}");
        }
        let tag = answer.header("etag").expect("a tag");
        let host = format!("Host: {}\r\n", server.admin.address());
        let again = server.admin.request_with("GET", path, &format!("{host}If-None-Match: {tag}\r\n"));
        assert_eq!((again.status, &*again.body), (304, ""), "{path}");
        let foreign = server.admin.request_with("GET", path, "Host: evil.example\r\n");
        assert_eq!(foreign.status, 403, "{path}");
    }
    for path in [
        "/dashboard/",
        "/dashboard/nothing.js",
        "/dashboard/index.html",
        "/dashboard/..%2Fencke.js",
        "/dashboard/a/b",
    ] {
        assert_eq!(server.admin.get(path).status, 404, "{path}");
    }
}

/// The page's content security policy permits the playground to connect to `listen.public_url`.
#[test]
fn dashboard_page_may_connect_to_the_public_url() {
    let server = RunningServer::with(&["listen.public_url=https://ws.example"]);
    let policy = server.admin.get("/").header("content-security-policy").map(ToOwned::to_owned);
    assert!(policy.is_some_and(|policy| policy.contains("connect-src 'self' wss://ws.example https://ws.example; ")));
}

/// Sends one request over TLS and returns the start of the status line.
fn status_over_tls(server: &RunningServer, certificate: &Certificate, origin: &str) -> String {
    let mut stream = tls::handshake(server.admin.address(), certificate, VERSIONS[1])
        .expect("a certificate that is trusted");
    let request = format!(
        "GET /api/timers HTTP/1.1\r\nHost: localhost\r\nOrigin: {origin}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).expect("the server reads");
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).expect("the server answers");
    String::from_utf8_lossy(&answer).into_owned()
}

#[test]
fn same_origin_page_may_use_the_api_over_tls() {
    let (certificate, directory) = (Certificate::generate(), tempfile::tempdir().expect("a directory"));
    let (chain, key) = certificate.write(directory.path());
    let server = Launch::with(&["tls.admin=true"])
        .set(&format!("tls.certificate={}", chain.display()))
        .set(&format!("tls.key={}", key.display()))
        .start();
    assert_eq!(status_over_tls(&server, &certificate, "https://localhost"), "HTTP/1.1 200");
    for origin in ["http://localhost", "https://localhost:8001", "https://evil.example", "null"] {
        assert_eq!(status_over_tls(&server, &certificate, origin), "HTTP/1.1 403", "{origin}");
    }
}
