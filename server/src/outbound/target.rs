use std::fmt;
use std::str::FromStr;

use hyper::Uri;
use hyper::http::uri::Scheme;

/// Where requests go: an URL with `http` or `https`.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Target(Uri);

/// The text is no URL that requests can go to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadTarget {
    #[error("is not a URL: {0}")]
    NotAUrl(String),
    #[error("must begin with http:// or https://")]
    Scheme,
    #[error("must not have a user or a password")]
    Credentials,
    #[error("must not have a fragment (#)")]
    Fragment,
}

impl Target {
    /// Whether it is reached by TLS.
    pub(crate) fn is_tls(&self) -> bool {
        self.0.scheme() == Some(&Scheme::HTTPS)
    }

    pub(super) fn uri(&self) -> &Uri {
        &self.0
    }
}

impl FromStr for Target {
    type Err = BadTarget;

    fn from_str(text: &str) -> Result<Self, BadTarget> {
        // The parser drops it without a word.
        if text.contains('#') {
            return Err(BadTarget::Fragment);
        }
        let uri: Uri = text.parse().map_err(|error: hyper::http::uri::InvalidUri| {
            // The library's word for "localhost:8080/x" is that of a detail.
            BadTarget::NotAUrl(error.to_string())
        })?;
        if !matches!(uri.scheme_str(), Some("http" | "https")) {
            return Err(BadTarget::Scheme);
        }
        if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
            return Err(BadTarget::Credentials);
        }
        Ok(Self(uri))
    }
}

/// A query may have a secret.
impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let authority = self.0.authority().map_or("", |authority| authority.as_str());
        write!(f, "{}://{authority}{}", self.0.scheme_str().unwrap_or_default(), self.0.path())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_a_target() {
        for text in ["http://localhost", "https://a.example:8443/hooks?key=1", "http://[::1]:80/x"] {
            let target: Target = text.parse().expect(text);
            assert_eq!(target.is_tls(), text.starts_with("https"));
        }
        for (text, expected) in [
            ("ftp://a.example/", BadTarget::Scheme),
            ("/hooks", BadTarget::Scheme),
            ("a.example:80", BadTarget::Scheme),
            ("http://user:word@a.example/", BadTarget::Credentials),
            ("http://a.example/#part", BadTarget::Fragment),
        ] {
            assert_eq!(text.parse::<Target>(), Err(expected), "{text}");
        }
        assert!(matches!("http://a b/".parse::<Target>(), Err(BadTarget::NotAUrl(_))));
        assert!(matches!("".parse::<Target>(), Err(BadTarget::NotAUrl(_))));
    }

    #[test]
    fn a_query_does_not_show() {
        let target: Target = "https://a.example/hooks?key=secret".parse().expect("a URL");
        assert_eq!(format!("{target:?}"), "https://a.example/hooks");
    }
}
