//! URL of the admin listener.

use std::str::FromStr;

use hyper::Uri;

use super::host_port::HostPort;

/// `http://` URL of the admin listener.
#[derive(Clone, Debug)]
pub struct AdminUrl {
    authority: String,
    /// Path that precedes the path of every call.
    base: String,
}

impl FromStr for AdminUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let uri: Uri = text.parse().map_err(|error| format!("not a URL: {error}"))?;
        if uri.scheme_str() != Some("http") {
            return Err("must begin with http://".to_owned());
        }
        let authority = HostPort::of(&uri)?.to_string();
        Ok(Self { authority, base: uri.path().trim_end_matches('/').to_owned() })
    }
}

impl AdminUrl {
    pub(crate) fn authority(&self) -> &str {
        &self.authority
    }

    /// Returns the request target for a call.
    pub(crate) fn path(&self, call: &str) -> String {
        format!("{}{call}", self.base)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_relative_to_the_url() {
        for (url, authority, path) in [
            ("http://127.0.0.1:8001", "127.0.0.1:8001", "/api/publish"),
            ("http://example.test/", "example.test:80", "/api/publish"),
            ("http://[::1]:8001/encke/", "[::1]:8001", "/encke/api/publish"),
        ] {
            let url: AdminUrl = url.parse().expect("the URL is valid");
            assert_eq!((url.authority.as_str(), url.path("/api/publish").as_str()), (authority, path));
        }
        for bad in ["https://127.0.0.1:8001", "127.0.0.1:8001", "/api", "http://"] {
            assert!(bad.parse::<AdminUrl>().is_err(), "{bad}");
        }
    }
}
