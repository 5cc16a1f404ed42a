use hyper::header::{HOST, HeaderMap, HeaderValue};

use crate::admin::context::PublicListener;
use crate::http::public_url::{origins, plain_host};

/// Returns the content security policy of the dashboard's pages: they may run their own scripts, and connect
/// to their own origin and to the public listener.
pub(super) fn content_security_policy(headers: &HeaderMap, public: &PublicListener) -> HeaderValue {
    let clients = match &public.url {
        Some(url) => Some(url.origins().to_owned()),
        None => request_host(headers).map(|host| origins(&format!("{host}:{}", public.port), public.has_tls)),
    };
    let policy = format!(
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self' {}; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        clients.unwrap_or_default()
    );
    HeaderValue::try_from(policy).expect("a host that may stand there is visible ASCII")
}

/// Returns the host name with which the page was requested, if the name is safe in a policy.
fn request_host(headers: &HeaderMap) -> Option<&str> {
    headers.get(HOST)?.to_str().ok().and_then(plain_host)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connect_src(host: &'static str, url: Option<&str>, has_tls: bool) -> String {
        let headers = HeaderMap::from_iter([(HOST, HeaderValue::from_static(host))]);
        let url = url.map(|url| url.parse().expect("a URL"));
        let policy = content_security_policy(&headers, &PublicListener { url, port: 8000, has_tls });
        let policy = policy.to_str().expect("ASCII").to_owned();
        let directives: Vec<_> = policy.split("; ").collect();
        assert_eq!(directives.len(), 8, "{policy}");
        directives.iter().find_map(|one| one.strip_prefix("connect-src ")).expect("one of them").to_owned()
    }

    #[test]
    fn the_page_may_connect_to_its_server_and_to_the_listener_of_clients() {
        for (host, url, has_tls, sources) in [
            ("127.0.0.1:8001", None, false, "'self' ws://127.0.0.1:8000 http://127.0.0.1:8000"),
            ("encke:8001", None, true, "'self' wss://encke:8000 https://encke:8000"),
            ("[::1]:8001", None, false, "'self' ws://[::1]:8000 http://[::1]:8000"),
            ("encke", Some("wss://ws.example/"), false, "'self' wss://ws.example https://ws.example"),
            ("encke", Some("http://ws.example:80"), true, "'self' ws://ws.example:80 http://ws.example:80"),
            // Hosts that would inject directives or match any host.
            ("a;script-src", None, false, "'self' "),
            ("*", None, false, "'self' "),
        ] {
            assert_eq!(connect_src(host, url, has_tls), sources, "{host}");
        }
    }
}
