//! Access control of the admin listener: checks of the host name, the origin and the API key.

use hyper::header::{AUTHORIZATION, HOST, ORIGIN};
use hyper::{Request, Version};

use crate::auth::{ApiKeys, Auth, ClientText, Operator, Scope};
use crate::http::ApiError;

/// Returns the segments of the path. Guards and routes use the same segments, so that no spelling of a path
/// bypasses a guard.
pub(super) fn segments<B>(request: &Request<B>) -> impl Iterator<Item = &str> {
    let path = request.uri().path();
    path.strip_prefix('/').unwrap_or(path).split('/')
}

/// Refuses requests that a web page sends through its visitor's browser: cross-origin requests to the API,
/// and requests with a host name that the page's owner has pointed at this server. Programs send no `Origin`.
///
/// Health checks reveal nothing worth protecting, and supervisors may use any host name for them, or none if
/// they use HTTP/1.0.
fn check_browser<B>(request: &Request<B>, auth: &Auth, scheme: &str) -> Result<(), ApiError> {
    let headers = request.headers();
    let first = segments(request).next();
    let is_public = matches!(first, Some("healthz" | "readyz"));
    let may_lack_host = is_public && request.version() == Version::HTTP_10;
    if !may_lack_host || headers.contains_key(HOST) {
        auth.hosts.allow(headers, is_public || !auth.api_keys.is_empty())?;
    }
    if first != Some("api") {
        return Ok(());
    }
    let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or_default());
    match (text(ORIGIN), text(HOST)) {
        (None, _) => Ok(()),
        (Some(origin), Some(host)) if is_same_origin(origin, scheme, host) => Ok(()),
        (Some(origin), _) => {
            let origin = ClientText::new(origin.as_bytes());
            let message =
                format!("the origin `{origin}` is not this server's: the admin API refuses other pages");
            Err(ApiError::forbidden(message))
        }
    }
}

/// Returns whether a page of this origin was loaded from this listener, using this host name.
fn is_same_origin(origin: &str, scheme: &str, host: &str) -> bool {
    origin.split_once("://") == Some((scheme, host))
}

/// Returns the operator who sent the request, or an error if access is denied.
pub(super) fn authorize<B>(request: &Request<B>, auth: &Auth, scheme: &str) -> Result<Operator, ApiError> {
    check_browser(request, auth, scheme)?;
    check_key(request, &auth.api_keys)
}

/// Requires an API key for the API and the metrics, if keys are configured. Health checks need no key,
/// because load balancers send none.
fn check_key<B>(request: &Request<B>, keys: &ApiKeys) -> Result<Operator, ApiError> {
    if !matches!(segments(request).next(), Some("api" | "metrics")) {
        return Ok(Operator::Anyone);
    }
    let authorization = request.headers().get(AUTHORIZATION).map(|value| value.as_bytes());
    keys.admit(authorization).ok_or_else(|| {
        ApiError::unauthorized(match authorization {
            Some(_) => "the header `Authorization` is not `Bearer <key>` with one of auth.api_keys",
            None => "send `Authorization: Bearer <key>` with one of auth.api_keys",
        })
    })
}

pub(super) fn check_scope(operator: &Operator, scope: Scope) -> Result<(), ApiError> {
    if operator.may(scope) {
        return Ok(());
    }
    Err(ApiError::forbidden(format!("this API key lacks the scope {scope} (auth.api_keys)")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::ApiKey;

    fn keys() -> ApiKeys {
        let key = ApiKey::new("a", "0123456789abcdef", vec![Scope::All]);
        ApiKeys::new(vec![key.expect("a key")])
    }

    fn check(host: &str, origin: Option<&str>) -> bool {
        check_path("/api/sessions", host, origin)
    }

    fn check_path(path: &str, host: &str, origin: Option<&str>) -> bool {
        let mut request = Request::get(path).header(HOST, host);
        if let Some(origin) = origin {
            request = request.header(ORIGIN, origin);
        }
        check_browser(&request.body(()).expect("a request"), &Auth::default(), "http").is_ok()
    }

    #[test]
    fn the_api_and_the_metrics_need_a_key_where_there_is_one() {
        let keys = keys();
        for (path, guarded) in [
            ("/api/sessions", true),
            ("/api", true),
            ("/api/", true),
            ("/metrics", true),
            ("/healthz", false),
            ("/readyz", false),
        ] {
            let request = |key: &str| {
                let request = Request::get(path).header(AUTHORIZATION, format!("Bearer {key}"));
                request.body(()).expect("a request")
            };
            assert!(check_key(&request("0123456789abcdef"), &keys).is_ok(), "{path}");
            assert_eq!(check_key(&request("fedcba9876543210"), &keys).is_err(), guarded, "{path}");
            let without = Request::get(path).body(()).expect("a request");
            assert_eq!(check_key(&without, &keys).is_err(), guarded, "{path}");
            assert!(check_key(&without, &ApiKeys::default()).is_ok(), "{path}");
        }
    }

    /// If they differed, the routes could treat `//api/sessions` as the API while the guards treat it as
    /// another path.
    #[test]
    fn guards_and_routes_see_the_same_path() {
        for (path, parts) in [
            ("/api/sessions", &["api", "sessions"][..]),
            ("//api/sessions", &["", "api", "sessions"]),
            ("/api//sessions", &["api", "", "sessions"]),
            ("/", &[""]),
            ("http://host/api/sessions", &["api", "sessions"]),
        ] {
            let request = Request::get(path).body(()).expect("a request");
            assert_eq!(segments(&request).collect::<Vec<_>>(), parts, "{path}");
        }
    }

    #[test]
    fn health_is_for_machines_that_use_any_name() {
        assert!(check_path("/healthz", "encke:8001", None));
        for path in ["/metrics", "/api/timers", "/"] {
            assert!(!check_path(path, "encke:8001", None), "{path}");
        }
    }

    #[test]
    fn only_health_checks_of_http_1_0_may_lack_a_host() {
        for (path, version, allowed) in [
            ("/healthz", Version::HTTP_10, true),
            ("/readyz", Version::HTTP_10, true),
            ("/readyz", Version::HTTP_11, false),
            ("/metrics", Version::HTTP_10, false),
        ] {
            let request = Request::get(path).version(version).body(()).expect("a request");
            assert_eq!(check_browser(&request, &Auth::default(), "http").is_ok(), allowed, "{path}");
        }
    }

    #[test]
    fn with_api_keys_any_host_name_is_allowed() {
        let mut auth = Auth::default();
        auth.api_keys = keys();
        let request = Request::get("/metrics").header(HOST, "encke:8001").body(()).expect("a request");
        assert!(check_browser(&request, &auth, "http").is_ok());
    }

    #[test]
    fn programs_and_pages_of_the_same_origin_are_allowed() {
        for host in [
            "127.0.0.1:8001",
            "localhost:8001",
            "LOCALHOST",
            "localhost:",
            "[::1]:",
            "[::1]:8001",
            "10.0.0.7:80",
        ] {
            assert!(check(host, None), "{host}");
        }
        assert!(check("127.0.0.1:8001", Some("http://127.0.0.1:8001")));
    }

    #[test]
    fn other_pages_are_refused() {
        assert!(!check("evil.example:8001", None), "a name that points here");
        assert!(!check("127.0.0.1.evil.example", None));
        assert!(!check("", None));
        for origin in ["http://evil.example", "null", "http://127.0.0.1:80010", "https://127.0.0.1:8001"] {
            assert!(!check("127.0.0.1:8001", Some(origin)), "{origin}");
        }
    }

    /// Pages loaded without TLS are not trusted, because they may have been modified on the way.
    #[test]
    fn with_tls_only_https_pages_are_of_the_same_origin() {
        for (origin, allowed) in [
            ("https://127.0.0.1:8001", true),
            ("http://127.0.0.1:8001", false),
            ("https://127.0.0.1", false),
            ("https://evil.example", false),
            ("null", false),
        ] {
            let request = Request::get("/api/sessions").header(HOST, "127.0.0.1:8001").header(ORIGIN, origin);
            let request = request.body(()).expect("a request");
            assert_eq!(check_browser(&request, &Auth::default(), "https").is_ok(), allowed, "{origin}");
        }
    }
}
