//! Identifies the browser that sends a request. All pages of a browser share one cookie, which grants no
//! access.

use encke_base::entropy::Entropy;
use hyper::HeaderMap;
use hyper::header::{HeaderValue, ORIGIN};

use crate::admission::BrowserId;
use crate::http::request::cookies;

const NAME: &str = "BAYEUX_BROWSER";

/// Returns the id in the browser's cookie.
pub(super) fn id(headers: &HeaderMap) -> Option<BrowserId> {
    let (_, value) = cookies(headers).find(|(name, _)| name.trim() == NAME)?;
    let value = value.trim();
    let number = u128::from_str_radix(value, 16).ok().filter(|_| value.len() == 32)?;
    Some(number.to_be_bytes())
}

/// Returns a new cookie for a browser without one. Pages of other sites can send the cookie only over TLS.
pub(super) fn set_cookie(headers: &HeaderMap, entropy: &Entropy, tls: bool) -> HeaderValue {
    let number = u128::from_be_bytes(entropy.bytes());
    let scope = if tls && headers.contains_key(ORIGIN) { "SameSite=None; Secure" } else { "SameSite=Lax" };
    HeaderValue::try_from(format!("{NAME}={number:032x}; Path=/; HttpOnly; {scope}"))
        .expect("letters and digits are valid")
}

#[cfg(test)]
mod tests {
    use hyper::header::COOKIE;

    use super::*;

    #[test]
    fn cookie_round_trips() {
        let entropy = Entropy::system();
        let set = set_cookie(&HeaderMap::new(), &entropy, false);
        let (cookie, attributes) = set.to_str().expect("text").split_once("; ").expect("attributes");
        assert_eq!(attributes, "Path=/; HttpOnly; SameSite=Lax");
        let cookies = format!("a=b; {cookie}; c=d");
        let headers =
            HeaderMap::from_iter([(COOKIE, HeaderValue::try_from(cookies).expect("a header's value"))]);
        assert!(id(&headers).is_some());
        for bad in ["BAYEUX_BROWSER=", "BAYEUX_BROWSER=xyz", "BAYEUX_BROWSER=00", "BAYEUX_BROWSER", "b=1"] {
            assert_eq!(id(&HeaderMap::from_iter([(COOKIE, HeaderValue::from_static(bad))])), None, "{bad}");
        }
    }
}
