use encke_tests::RunningServer;

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
