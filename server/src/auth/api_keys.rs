use std::fmt;
use std::sync::Arc;

use serde::Deserialize;
use subtle::ConstantTimeEq;

use super::bearer::bearer;

/// A shorter one could be guessed.
const SHORTEST_KEY: usize = 16;

/// What a key of the admin API is good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, strum::Display)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Scope {
    /// To look at everything, metrics included.
    Read,
    /// To publish, and to say something to a session or a user.
    Publish,
    /// To end sessions and connections, to revoke users, and to have sessions follow channels.
    Sessions,
    /// All of this.
    All,
}

/// One key of the admin API.
#[derive(Clone)]
pub struct ApiKey {
    /// In the log.
    pub name: Arc<str>,
    key: Box<[u8]>,
    scopes: Vec<Scope>,
}

/// The keys of the admin API. Several make a rotation, or are good for different things.
#[derive(Clone, Default)]
pub struct ApiKeys(Box<[ApiKey]>);

/// Who uses the admin API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operator {
    /// Anyone: there are no keys.
    Anyone,
    /// Whoever has this key.
    Named {
        /// The key's.
        name: Arc<str>,
        /// The key's.
        scopes: Vec<Scope>,
    },
}

impl Operator {
    /// Whether this is allowed.
    #[must_use]
    pub fn may(&self, scope: Scope) -> bool {
        match self {
            Self::Anyone => true,
            Self::Named { scopes, .. } => scopes.contains(&scope) || scopes.contains(&Scope::All),
        }
    }

    /// The name of the key.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::Anyone => None,
            Self::Named { name, .. } => Some(name),
        }
    }
}

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

impl ApiKey {
    /// A key that is good for these.
    ///
    /// # Errors
    /// [`BadApiKey`].
    pub fn new(name: &str, key: &str, scopes: Vec<Scope>) -> Result<Self, BadApiKey> {
        if key.len() < SHORTEST_KEY {
            return Err(BadApiKey::Short);
        }
        if !key.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(BadApiKey::Unprintable);
        }
        Ok(Self { name: name.into(), key: key.as_bytes().into(), scopes })
    }

    /// Whether both are the same text: nobody could tell who uses it.
    pub(crate) fn is_same_key(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl ApiKeys {
    /// These keys.
    #[must_use]
    pub fn new(keys: Vec<ApiKey>) -> Self {
        Self(keys.into())
    }

    /// No keys: everyone may use the API.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whom the value of an `Authorization` header lets use the API.
    #[must_use]
    pub fn admit(&self, authorization: Option<&[u8]>) -> Option<Operator> {
        if self.is_empty() {
            return Some(Operator::Anyone);
        }
        let offered = authorization.and_then(bearer)?;
        // Every key is compared to its end, whatever came of the others: the time tells at most a key's length.
        let mut found = None;
        for key in &self.0 {
            if bool::from(key.key.ct_eq(offered)) {
                found = Some(key);
            }
        }
        found.map(|key| Operator::Named { name: Arc::clone(&key.name), scopes: key.scopes.clone() })
    }
}

impl fmt::Debug for ApiKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ApiKeys({})", self.0.len())
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ApiKey({:?})", self.name)
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
    fn a_key_is_good_for_its_scopes() {
        let operator = |key: &str| keys().admit(Some(format!("Bearer {key}").as_bytes())).expect("a key");
        let (old, new) = (operator(OLD), operator(NEW));
        assert_eq!((old.name(), new.name()), (Some("old"), Some("new")));
        for (scope, of_new) in [(Scope::Read, true), (Scope::Publish, true), (Scope::Sessions, false)] {
            assert!(old.may(scope), "{scope}");
            assert_eq!(new.may(scope), of_new, "{scope}");
        }
    }

    #[test]
    fn each_key_opens_and_nothing_else_does() {
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
    fn without_keys_it_is_open() {
        for authorization in [None, Some(&b"Bearer whatever"[..])] {
            let operator = ApiKeys::default().admit(authorization);
            assert_eq!(operator, Some(Operator::Anyone));
            assert!(Operator::Anyone.may(Scope::Sessions));
        }
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
            assert_eq!(ApiKey::new("a", key, vec![Scope::All]).map(|_| ()), result, "{key}");
        }
    }

    #[test]
    fn keys_do_not_show() {
        assert_eq!(format!("{:?}", keys()), "ApiKeys(2)");
        assert_eq!(format!("{:?}", keys().0[0]), "ApiKey(\"old\")");
    }
}
