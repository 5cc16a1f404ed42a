//! `[auth]` and `[tls]`: secrets and files. Errors never show the secrets.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use encke_base::tls::Tls;
use secrecy::{ExposeSecret, SecretString};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::units::{DurationOrOff, DurationSetting, optional};
use super::validator::{Refused, Validator};
use crate::auth::{Algorithm, ApiKey, ApiKeys, Auth, Hosts, Key, Origins, Scope};

/// Minimum of `auth.max_token_lifetime`, because the times in tokens are in whole seconds.
const MIN_TOKEN_LIFETIME: Duration = Duration::from_secs(1);

#[derive(Deserialize)]
pub(super) struct RawAuth {
    secret: SecretString,
    keys: Vec<RawKey>,
    api_keys: Vec<RawApiKey>,
    origins: Vec<String>,
    max_token_lifetime: DurationOrOff,
    pub(super) jwks: String,
    pub(super) jwks_refresh: DurationSetting,
    #[serde(deserialize_with = "optional")]
    pub(super) jwks_ca: Option<PathBuf>,
    #[serde(deserialize_with = "optional")]
    audience: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawKey {
    kid: String,
    algorithm: Algorithm,
    secret: Option<SecretString>,
    public_key_file: Option<PathBuf>,
}

/// An API key: a plain string with all scopes, or a table with a name and scopes.
enum RawApiKey {
    Plain(SecretString),
    Named(NamedApiKey),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NamedApiKey {
    name: String,
    key: SecretString,
    scopes: Vec<Scope>,
}

impl<'de> Deserialize<'de> for RawApiKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ApiKeyVisitor)
    }
}

/// Deserializer for [`RawApiKey`], written by hand because the errors of an untagged enum would not name the
/// invalid field.
struct ApiKeyVisitor;

impl<'de> Visitor<'de> for ApiKeyVisitor {
    type Value = RawApiKey;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string, or a table with name, key and scopes")
    }

    fn visit_str<E: Error>(self, key: &str) -> Result<RawApiKey, E> {
        Ok(RawApiKey::Plain(key.into()))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<RawApiKey, A::Error> {
        NamedApiKey::deserialize(MapAccessDeserializer::new(map)).map(RawApiKey::Named)
    }
}

#[derive(Deserialize)]
pub(super) struct RawTls {
    #[serde(deserialize_with = "optional")]
    certificate: Option<PathBuf>,
    #[serde(deserialize_with = "optional")]
    key: Option<PathBuf>,
    pub(super) admin: bool,
}

impl Validator<'_> {
    pub(super) fn auth(&self, raw: &RawAuth, hosts: &[String]) -> Result<Auth, Refused> {
        let secret = Some(raw.secret.expose_secret()).filter(|secret| !secret.is_empty());
        let secret = secret.map(|secret| self.require_ok("auth.secret", Key::from_secret(None, secret)));
        let listed = raw.keys.iter().enumerate().map(|(index, key)| {
            let name = |field: &str| format!("auth.keys[{index}].{field}");
            self.require(!key.kid.is_empty(), &name("kid"), "must not be empty");
            let unused = raw.keys.iter().take(index).all(|other| other.kid != key.kid);
            self.require(unused, &name("kid"), "is the `kid` of another key");
            self.key(key, name)
        });
        let keys: Vec<_> = secret.into_iter().chain(listed).collect();
        let api_keys = self.api_keys(&raw.api_keys);
        for (index, origin) in raw.origins.iter().enumerate() {
            let _ = self.require_ok(&format!("auth.origins[{index}]"), Origins::check(origin));
        }
        for (index, host) in hosts.iter().enumerate() {
            let _ = self.require_ok(&format!("listen.hosts[{index}]"), Hosts::check(host));
        }
        let fits = raw.max_token_lifetime.0.is_none_or(|longest| longest >= MIN_TOKEN_LIFETIME);
        self.require(fits, "auth.max_token_lifetime", "must be at least 1s, or off");
        let keys = keys.into_iter().collect::<Result<_, _>>()?;
        let mut auth = Auth::new(keys, api_keys?, Origins::new(&raw.origins), Hosts::new(hosts));
        auth.max_token_lifetime = raw.max_token_lifetime.0;
        auth.audience = raw.audience.as_deref().map(Into::into);
        Ok(auth)
    }

    fn api_keys(&self, raw: &[RawApiKey]) -> Result<ApiKeys, Refused> {
        let mut keys: Vec<ApiKey> = Vec::new();
        for (index, key) in raw.iter().enumerate() {
            let of = |field: &str| format!("auth.api_keys[{index}]{field}");
            let key = match key {
                RawApiKey::Plain(key) => {
                    self.require_ok(&of(""), ApiKey::new(&index.to_string(), key.clone(), vec![Scope::All]))
                }
                RawApiKey::Named(NamedApiKey { name, key, scopes }) => {
                    self.require(!name.is_empty(), &of(".name"), "must not be empty");
                    self.require(!scopes.is_empty(), &of(".scopes"), "must not be empty");
                    self.require_ok(&of(".key"), ApiKey::new(name, key.clone(), scopes.clone()))
                }
            };
            let Ok(key) = key else { continue };
            let is_new = keys.iter().all(|other| other.name != key.name);
            self.require(is_new, &of(".name"), "is the name of another key");
            let other = keys.iter().find(|other| other.is_same_key(&key));
            let problem = other.map(|other| format!("is the same key as that of {:?}", other.name));
            self.report(&of(""), problem);
            keys.push(key);
        }
        let are_valid = keys.len() == raw.len();
        are_valid.then(|| ApiKeys::new(keys)).ok_or(Refused)
    }

    fn key(&self, key: &RawKey, name: impl Fn(&str) -> String) -> Result<Key, Refused> {
        let kid = Some(&*key.kid);
        match (key.algorithm, &key.secret, &key.public_key_file) {
            (Algorithm::Hs256, Some(secret), None) => {
                self.require_ok(&name("secret"), Key::from_secret(kid, secret.expose_secret()))
            }
            (Algorithm::Rs256 | Algorithm::Es256, None, Some(path)) => {
                let name = name("public_key_file");
                let of_file = |problem: String| format!("{}: {problem}", path.display());
                let pem = std::fs::read(path).map_err(|error| of_file(format!("cannot be read: {error}")));
                let pem = self.require_ok(&name, pem)?;
                let key = Key::from_pem(kid, key.algorithm, &pem);
                self.require_ok(&name, key.map_err(|error| of_file(error.to_string())))
            }
            (Algorithm::Hs256, ..) => {
                self.refuse(&name("algorithm"), "HS256 takes `secret`, not `public_key_file`")
            }
            _ => self.refuse(&name("algorithm"), "RS256 and ES256 take `public_key_file`, not `secret`"),
        }
    }

    pub(super) fn tls(&self, raw: &RawTls) -> Result<Option<Arc<Tls>>, Refused> {
        let (certificate, key) = match (&raw.certificate, &raw.key) {
            (Some(certificate), Some(key)) => (certificate.clone(), key.clone()),
            (None, Some(_)) => return self.refuse("tls.certificate", "must be set when tls.key is"),
            (Some(_), None) => return self.refuse("tls.key", "must be set when tls.certificate is"),
            (None, None) => {
                self.require(!raw.admin, "tls.admin", "needs tls.certificate and tls.key");
                return Ok(None);
            }
        };
        match Tls::load(certificate, key) {
            Ok(tls) => Ok(Some(Arc::new(tls))),
            Err(error) => self.refuse(error.setting(), error.to_string()),
        }
    }
}
