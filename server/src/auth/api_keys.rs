use std::fmt;

use subtle::{Choice, ConstantTimeEq};

use super::bearer::bearer;

/// A shorter one could be guessed.
const SHORTEST_KEY: usize = 16;

/// The keys of the admin API, of which each is as good as the others: two make a rotation.
#[derive(Clone, Default)]
pub struct ApiKeys(Box<[Box<[u8]>]>);

/// Why something is no key of the admin API. Its messages do not contain it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadApiKey {
    /// It can be guessed.
    #[error("must be at least {SHORTEST_KEY} characters long: try `openssl rand -hex 16`")]
    Short,
    /// It does not fit in a header.
    #[error("must be of printable ASCII characters without spaces, to fit in a header")]
    Unprintable,
}

impl ApiKeys {
    /// Whether a key is fit to be one.
    ///
    /// # Errors
    /// [`BadApiKey`].
    pub fn check(key: &str) -> Result<(), BadApiKey> {
        if key.len() < SHORTEST_KEY {
            return Err(BadApiKey::Short);
        }
        if key.bytes().all(|byte| byte.is_ascii_graphic()) { Ok(()) } else { Err(BadApiKey::Unprintable) }
    }

    /// Takes keys that were checked.
    #[must_use]
    pub fn new(keys: &[String]) -> Self {
        Self(keys.iter().map(|key| key.as_bytes().into()).collect())
    }

    /// No keys: everyone may use the API.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the value of an `Authorization` header opens the API.
    #[must_use]
    pub fn admit(&self, authorization: Option<&[u8]>) -> bool {
        if self.is_empty() {
            return true;
        }
        let Some(offered) = authorization.and_then(bearer) else { return false };
        // Every key is compared to its end, whatever came of the others: the time tells at most a key's length.
        let matches = self.0.iter().map(|key| key.ct_eq(offered));
        matches.fold(Choice::from(0), |any, matches| any | matches).into()
    }
}

impl fmt::Debug for ApiKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ApiKeys({})", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: &str = "old-0123456789abcdef";
    const NEW: &str = "new-0123456789abcdef";

    #[test]
    fn each_key_opens_and_nothing_else_does() {
        let keys = ApiKeys::new(&[OLD.to_owned(), NEW.to_owned()]);
        for (authorization, opens) in [
            (format!("Bearer {OLD}"), true),
            (format!("Bearer {NEW}"), true),
            (format!("bearer  {NEW} "), true),
            (format!("BEARER {NEW}"), true),
            (format!("Bearer {NEW}x"), false),
            (format!("Bearer {}", &NEW[1..]), false),
            (format!("Bearer {}", NEW.to_uppercase()), false),
            (format!("Basic {NEW}"), false),
            (format!("Bearer{NEW}"), false),
            (NEW.to_owned(), false),
            ("Bearer ".to_owned(), false),
            ("Bearer".to_owned(), false),
            (String::new(), false),
        ] {
            assert_eq!(keys.admit(Some(authorization.as_bytes())), opens, "{authorization}");
        }
        assert!(!keys.admit(None));
        assert!(!keys.admit(Some(&[0xff; 40])));
    }

    #[test]
    fn without_keys_it_is_open() {
        assert!(ApiKeys::default().admit(None));
        assert!(ApiKeys::default().admit(Some(b"Bearer whatever")));
    }

    #[test]
    fn keys_must_be_long_and_fit_a_header() {
        for (key, result) in [
            ("0123456789abcdef", Ok(())),
            ("0123456789abcde", Err(BadApiKey::Short)),
            ("", Err(BadApiKey::Short)),
            ("0123456789 abcdef", Err(BadApiKey::Unprintable)),
            ("0123456789\u{e4}abcdef", Err(BadApiKey::Unprintable)),
        ] {
            assert_eq!(ApiKeys::check(key), result, "{key}");
        }
    }

    #[test]
    fn keys_do_not_show() {
        let shown = format!("{:?}", ApiKeys::new(&[OLD.to_owned()]));
        assert_eq!(shown, "ApiKeys(1)");
    }
}
