//! Who may do what: JSON Web Tokens of clients, keys of the admin API, origins of browsers.
//!
//! ```text
//!   token ──▶ keys (signature) ──▶ claims (exp, nbf, sub, channels) ──▶ Identity, held by a session
//! ```
//!
//! Nothing here reads a clock: times come in as arguments. No secret shows in `Debug` or in an error.

mod api_keys;
mod bearer;
mod claims;
mod error;
mod host_port;
mod hosts;
mod identity;
mod key_set;
#[cfg(test)]
mod key_set_tests;
mod keys;
mod origins;
mod permissions;
mod revocations;
mod sign;
#[cfg(test)]
mod tests;

pub use api_keys::{ApiKey, ApiKeys, BadApiKey, Operator, Scope};
pub(crate) use bearer::bearer;
pub use error::AuthError;
pub(crate) use host_port::HostPort;
pub(crate) use hosts::BadHost;
pub use hosts::{Hosts, NotAHost};
pub use identity::Identity;
pub(crate) use identity::IdentityRecord;
pub use key_set::KeySet;
pub(crate) use key_set::{BadKeySet, parse_key_set};
pub use keys::{Algorithm, BadKey, Key};
pub use origins::{BadOrigin, Origins};
pub use permissions::{Permission, Permissions};
pub(crate) use revocations::{RevocationRecord, Revocations, TooManyRevoked};
pub use sign::{Grant, SignError};

use std::sync::Arc;
use std::time::Duration;

use crate::clock::UnixTime;
use claims::Claims;
pub(crate) use claims::{Claimed, LONGEST_USER};

/// Everything that decides about access. The default allows everything, except from browsers: see [`Origins`].
#[derive(Clone, Debug, Default)]
pub struct Auth {
    keys: Vec<Key>,
    /// More keys, which may change.
    pub key_set: Option<Arc<KeySet>>,
    /// Whom tokens must be for, by their `aud`; without a name they must be for no one in particular.
    pub audience: Option<Box<str>>,
    /// Who may use the admin API.
    pub api_keys: ApiKeys,
    /// Which web pages may connect.
    pub origins: Origins,
    /// By which names requests may come where nothing else guards.
    pub hosts: Hosts,
    /// How long a token may be good from its issue on; nothing: for ever.
    pub longest_token: Option<Duration>,
}

impl Auth {
    /// With at least one key, every client needs a token.
    #[must_use]
    pub fn new(keys: Vec<Key>, api_keys: ApiKeys, origins: Origins, hosts: Hosts) -> Self {
        Self { keys, api_keys, origins, hosts, ..Self::default() }
    }

    /// Whether clients need a token.
    #[must_use]
    pub fn needs_token(&self) -> bool {
        !self.keys.is_empty() || self.key_set.is_some()
    }

    /// Whether the key is there that a token is signed with, by its word.
    pub(crate) fn has_key_of(&self, token: &str) -> bool {
        let fetched = self.fetched_keys();
        keys::has_signer(self.keys.iter().chain(&*fetched), token)
    }

    fn fetched_keys(&self) -> Arc<[Key]> {
        self.key_set.as_ref().map(|set| set.keys()).unwrap_or_default()
    }

    /// Who a client is, by its token. Where no token is needed, everyone is [`Identity::ANONYMOUS`], and a token that
    /// comes all the same is not looked at.
    ///
    /// # Errors
    /// [`AuthError`], when a token is needed and this is not a valid one.
    pub fn identify(&self, token: Option<&str>, now: UnixTime) -> Result<Identity, AuthError> {
        if !self.needs_token() {
            return Ok(Identity::ANONYMOUS);
        }
        let token = token.filter(|token| !token.is_empty()).ok_or(AuthError::Missing)?;
        let fetched = self.fetched_keys();
        let raw = keys::verify(self.keys.iter().chain(&*fetched), token)?;
        let claims = Claims::parse(raw, self.audience.as_deref())?;
        claims.check_time(now)?;
        if let Some(longest) = self.longest_token {
            claims.check_length(longest, now)?;
        }
        Ok(Identity::new(claims.sub, claims.iat, claims.exp, claims.permissions, claims.join))
    }

    /// Signs a token with the HS256 key of this `kid`, or with the one that has none.
    ///
    /// # Errors
    /// [`SignError`], when there is no such key.
    pub fn sign(&self, grant: &Grant, kid: Option<&str>) -> Result<String, SignError> {
        sign::sign(&self.keys, grant, self.audience.as_deref(), kid)
    }
}
