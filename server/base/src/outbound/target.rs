use std::fmt;
use std::str::FromStr;

use hyper::Uri;
use hyper::http::uri::Scheme;

/// An `http` or `https` URL that requests are sent to.
#[derive(Clone, PartialEq, Eq)]
pub struct Target(Uri);

/// Why a string is not a valid target.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadTarget {
    #[error("is not a URL: {0}")]
    NotAUrl(String),
    #[error("must begin with http:// or https://")]
    Scheme,
    #[error("must not contain a user name or a password")]
    Credentials,
    #[error("must not contain a fragment (#)")]
    Fragment,
}

impl Target {
    /// Returns whether the scheme is `https`.
    pub fn is_tls(&self) -> bool {
        self.0.scheme() == Some(&Scheme::HTTPS)
    }

    pub(super) fn uri(&self) -> &Uri {
        &self.0
    }
}

impl FromStr for Target {
    type Err = BadTarget;

    fn from_str(text: &str) -> Result<Self, BadTarget> {
        // Check for a fragment first, because the parser drops it silently.
        if text.contains('#') {
            return Err(BadTarget::Fragment);
        }
        if !text.contains("://") {
            return Err(BadTarget::Scheme);
        }
        let uri: Uri = text
            .parse()
            .map_err(|error: hyper::http::uri::InvalidUri| BadTarget::NotAUrl(error.to_string()))?;
        if !matches!(uri.scheme_str(), Some("http" | "https")) {
            return Err(BadTarget::Scheme);
        }
        if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
            return Err(BadTarget::Credentials);
        }
        Ok(Self(uri))
    }
}

/// Omits the query, which may contain a secret.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let authority = self.0.authority().map_or("", |authority| authority.as_str());
        write!(f, "{}://{authority}{}", self.0.scheme_str().unwrap_or_default(), self.0.path())
    }
}

/// The same as [`Display`](fmt::Display).
impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_validated() {
        for text in ["http://localhost", "https://a.example:8443/hooks?key=1", "http://[::1]:80/x"] {
            let target: Target = text.parse().expect(text);
            assert_eq!(target.is_tls(), text.starts_with("https"));
        }
        for (text, expected) in [
            ("ftp://a.example/", BadTarget::Scheme),
            ("", BadTarget::Scheme),
            ("/hooks", BadTarget::Scheme),
            ("a.example:80", BadTarget::Scheme),
            ("http://user:word@a.example/", BadTarget::Credentials),
            ("http://a.example/#part", BadTarget::Fragment),
        ] {
            assert_eq!(text.parse::<Target>(), Err(expected), "{text}");
        }
        assert!(matches!("http://a b/".parse::<Target>(), Err(BadTarget::NotAUrl(_))));
    }

    #[test]
    fn output_omits_the_query() {
        let target: Target = "https://a.example/hooks?key=secret".parse().expect("a URL");
        assert_eq!(format!("{target} {target:?}"), "https://a.example/hooks https://a.example/hooks");
    }
}
