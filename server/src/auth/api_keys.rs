use std::sync::Arc;

use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use subtle::ConstantTimeEq;

use super::bearer::bearer;

/// Minimum length of a key in bytes: a shorter key could be guessed.
const MIN_KEY_BYTES: usize = 16;

/// Scope of an admin API key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, strum::Display)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Scope {
    /// Read access to everything, including metrics.
    Read,
    /// Publish, and send messages to a session or a user.
    Publish,
    /// Close sessions and connections, revoke users, and subscribe sessions to channels.
    Sessions,
    /// All scopes.
    All,
}

#[derive(Clone, Debug)]
pub struct ApiKey {
    /// Name that identifies the key in the log.
    pub name: Arc<str>,
    key: SecretString,
    scopes: Vec<Scope>,
}

/// Keys of the admin API. Several keys allow for rotation, or for different scopes.
#[derive(Clone, Debug, Default)]
pub struct ApiKeys(Box<[ApiKey]>);

/// Authenticated user of the admin API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operator {
    /// Anyone, because no keys are configured.
    Anyone,
    /// Holder of a key.
    Named {
        /// Name of the key.
        name: Arc<str>,
        scopes: Vec<Scope>,
    },
}

impl Operator {
    /// Whether the operator has this scope.
    #[must_use]
    pub fn may(&self, scope: Scope) -> bool {
        match self {
            Self::Anyone => true,
            Self::Named { scopes, .. } => scopes.contains(&scope) || scopes.contains(&Scope::All),
        }
    }

    /// Name of the key.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::Anyone => None,
            Self::Named { name, .. } => Some(name),
        }
    }
}

/// Why an admin API key is rejected. The messages do not contain the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadApiKey {
    /// The key is short enough to be guessed.
    #[error("must be at least {MIN_KEY_BYTES} characters long, such as the output of `openssl rand -hex 16`")]
    Short,
    /// The key cannot be sent in a header.
    #[error("must consist of printable ASCII characters without spaces")]
    Unprintable,
}

impl ApiKey {
    /// Creates a key with these scopes.
    ///
    /// # Errors
    /// [`BadApiKey`].
    pub fn new(name: &str, key: impl Into<SecretString>, scopes: Vec<Scope>) -> Result<Self, BadApiKey> {
        let key = key.into();
        let text = key.expose_secret();
        if text.len() < MIN_KEY_BYTES {
            return Err(BadApiKey::Short);
        }
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(BadApiKey::Unprintable);
        }
        Ok(Self { name: name.into(), key, scopes })
    }

    /// Whether both keys have the same text, so that their users could not be distinguished.
    pub(crate) fn is_same_key(&self, other: &Self) -> bool {
        self.key.expose_secret() == other.key.expose_secret()
    }
}

impl ApiKeys {
    #[must_use]
    pub fn new(keys: Vec<ApiKey>) -> Self {
        Self(keys.into())
    }

    /// Whether no keys are configured, so that anyone may use the API.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Authenticates a request by the value of its `Authorization` header.
    #[must_use]
    pub fn admit(&self, authorization: Option<&[u8]>) -> Option<Operator> {
        if self.is_empty() {
            return Some(Operator::Anyone);
        }
        let offered = authorization.and_then(bearer)?;
        // Compare every key in constant time and do not stop at a match: the time reveals at most the length
        // of a key.
        let mut found = None;
        for key in &self.0 {
            if bool::from(key.key.expose_secret().as_bytes().ct_eq(offered)) {
                found = Some(key);
            }
        }
        found.map(|key| Operator::Named { name: Arc::clone(&key.name), scopes: key.scopes.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: &str = "old-0123456789abcdef";
    const NEW: &str = "new-0123456789abcdef";

    fn keys() -> ApiKeys {
        let key = |name, key, scopes| ApiKey::new(name, key, scopes).expect("a key");
        ApiKeys::new(vec![
            key("old", OLD, vec![Scope::All]),
            key("new", NEW, vec![Scope::Read, Scope::Publish]),
        ])
    }

    #[test]
    fn a_key_has_its_scopes() {
        let operator = |key: &str| keys().admit(Some(format!("Bearer {key}").as_bytes())).expect("a key");
        let (old, new) = (operator(OLD), operator(NEW));
        assert_eq!((old.name(), new.name()), (Some("old"), Some("new")));
        for (scope, of_new) in [(Scope::Read, true), (Scope::Publish, true), (Scope::Sessions, false)] {
            assert!(old.may(scope), "{scope}");
            assert_eq!(new.may(scope), of_new, "{scope}");
        }
    }

    #[test]
    fn only_configured_keys_are_accepted() {
        let keys = keys();
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
            assert_eq!(keys.admit(Some(authorization.as_bytes())).is_some(), opens, "{authorization}");
        }
        assert_eq!(keys.admit(None), None);
        assert_eq!(keys.admit(Some(&[0xff; 40])), None);
    }

    #[test]
    fn without_keys_anyone_is_admitted() {
        for authorization in [None, Some(&b"Bearer whatever"[..])] {
            let operator = ApiKeys::default().admit(authorization);
            assert_eq!(operator, Some(Operator::Anyone));
            assert!(Operator::Anyone.may(Scope::Sessions));
        }
    }

    #[test]
    fn keys_must_be_long_and_printable() {
        for (key, result) in [
            ("0123456789abcdef", Ok(())),
            ("0123456789abcde", Err(BadApiKey::Short)),
            ("", Err(BadApiKey::Short)),
            ("0123456789 abcdef", Err(BadApiKey::Unprintable)),
            ("0123456789\u{e4}abcdef", Err(BadApiKey::Unprintable)),
        ] {
            assert_eq!(ApiKey::new("a", key, vec![Scope::All]).map(|_| ()), result, "{key}");
        }
    }
}
