//! Authentication and authorization: JSON Web Tokens of clients, keys of the admin API, origins of browsers.
//!
//! ```text
//!   token ──▶ keys (signature) ──▶ claims (exp, nbf, sub, channels) ──▶ Identity, stored in a session
//! ```
//!
//! This module reads no clock: times are passed as arguments. No secret appears in `Debug` output or in an
//! error.

mod api_keys;
mod bearer;
mod claims;
mod client_text;
mod credentials;
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
pub(crate) use client_text::ClientText;
pub(crate) use credentials::CredentialsDigest;
pub use error::AuthError;
pub(crate) use host_port::HostPort;
pub(crate) use hosts::BadHost;
pub use hosts::{Hosts, NotAHost};
pub use identity::Identity;
pub(crate) use identity::{BackendClaims, IdentityRecord};
pub use key_set::KeySet;
pub(crate) use key_set::{BadKeySet, parse_key_set};
pub use keys::{Algorithm, BadKey, Key};
pub(crate) use origins::RefusedOrigin;
pub use origins::{BadOrigin, Origins};
pub use permissions::{Permission, Permissions};
pub(crate) use revocations::{RevocationRecord, Revocations, TooManyRevoked};
pub use sign::{Grant, SignError};

use std::sync::Arc;
use std::time::Duration;

use claims::Claims;
pub(crate) use claims::MAX_USER_BYTES;
use encke_timeouts::clock::UnixTime;

/// Access control settings. By default, everything is allowed, except for browsers: see [`Origins`].
#[derive(Clone, Debug, Default)]
pub struct Auth {
    keys: Vec<Key>,
    /// Additional keys, which may change while the server runs.
    pub key_set: Option<Arc<KeySet>>,
    /// Audience that the `aud` of tokens must contain. If `None`, tokens must not have an `aud`.
    pub audience: Option<Box<str>>,
    /// Keys of the admin API.
    pub api_keys: ApiKeys,
    /// Web pages that may connect.
    pub origins: Origins,
    /// Host names accepted in requests to listeners without other protection.
    pub hosts: Hosts,
    /// Maximum lifetime of a token, counted from its `iat`. `None`: unlimited.
    pub max_token_lifetime: Option<Duration>,
}

impl Auth {
    /// Creates the settings. With at least one key, every client needs a token.
    #[must_use]
    pub fn new(keys: Vec<Key>, api_keys: ApiKeys, origins: Origins, hosts: Hosts) -> Self {
        Self { keys, api_keys, origins, hosts, ..Self::default() }
    }

    #[must_use]
    pub fn needs_token(&self) -> bool {
        !self.keys.is_empty() || self.key_set.is_some()
    }

    /// Whether the key that the token claims to be signed with is known.
    pub(crate) fn has_key_for(&self, token: &str) -> bool {
        let fetched = self.fetched_keys();
        keys::has_signer(self.keys.iter().chain(&*fetched), token)
    }

    fn fetched_keys(&self) -> Arc<[Key]> {
        self.key_set.as_ref().map(|set| set.keys()).unwrap_or_default()
    }

    /// Identifies a client by its token. If no token is needed, returns [`Identity::ANONYMOUS`] without
    /// looking at the token.
    ///
    /// # Errors
    /// [`AuthError`] if a token is needed and this one is missing or invalid.
    pub fn identify(&self, token: Option<&str>, now: UnixTime) -> Result<Identity, AuthError> {
        if !self.needs_token() {
            return Ok(Identity::ANONYMOUS);
        }
        let token = token.filter(|token| !token.is_empty()).ok_or(AuthError::Missing)?;
        let fetched = self.fetched_keys();
        let raw = keys::verify(self.keys.iter().chain(&*fetched), token)?;
        let claims = Claims::parse(raw, false, self.audience.as_deref(), now)?;
        if let Some(longest) = self.max_token_lifetime {
            claims.check_lifetime(longest)?;
        }
        Ok(claims.into())
    }

    /// Signs a token with the HS256 key of this `kid`, or with the key that has no `kid`.
    ///
    /// # Errors
    /// [`SignError`] if there is no such key.
    pub fn sign(&self, grant: &Grant, kid: Option<&str>) -> Result<String, SignError> {
        sign::sign(&self.keys, grant, self.audience.as_deref(), kid)
    }
}
