//! `[auth]` and `[tls]`: secrets and files. Whatever is wrong with them is said without saying what they are.

use std::path::PathBuf;
use std::sync::Arc;

use serde::Deserialize;

use super::ConfigError;
use super::raw::Checks;
use super::units::SpanOrOff;
use crate::auth::{Algorithm, ApiKeys, Auth, Hosts, Key, Origins};
use crate::tls::Tls;

#[derive(Deserialize)]
pub(super) struct RawAuth {
    secret: String,
    keys: Vec<RawKey>,
    api_keys: Vec<String>,
    origins: Vec<String>,
    longest_token: SpanOrOff,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawKey {
    kid: String,
    algorithm: Algorithm,
    secret: Option<String>,
    public_key_file: Option<PathBuf>,
}

#[derive(Deserialize)]
pub(super) struct RawTls {
    certificate: PathBuf,
    key: PathBuf,
    pub(super) admin: bool,
}

impl Checks<'_> {
    pub(super) fn auth(&self, raw: &RawAuth, hosts: &[String]) -> Result<Auth, ConfigError> {
        let mut keys = Vec::new();
        if !raw.secret.is_empty() {
            keys.push(self.sound("auth.secret", Key::from_secret(None, &raw.secret))?);
        }
        for (index, key) in raw.keys.iter().enumerate() {
            let name = |field: &str| format!("auth.keys[{index}].{field}");
            self.require(!key.kid.is_empty(), &name("kid"), "must not be empty")?;
            let unused = raw.keys.iter().take(index).all(|other| other.kid != key.kid);
            self.require(unused, &name("kid"), "is the `kid` of another key")?;
            keys.push(self.key(key, name)?);
        }
        for (index, key) in raw.api_keys.iter().enumerate() {
            self.sound(&format!("auth.api_keys[{index}]"), ApiKeys::check(key))?;
        }
        for (index, origin) in raw.origins.iter().enumerate() {
            self.sound(&format!("auth.origins[{index}]"), Origins::check(origin))?;
        }
        for (index, host) in hosts.iter().enumerate() {
            self.sound(&format!("listen.hosts[{index}]"), Hosts::check(host))?;
        }
        let (api_keys, origins) = (ApiKeys::new(&raw.api_keys), Origins::new(&raw.origins));
        let mut auth = Auth::new(keys, api_keys, origins, Hosts::new(hosts));
        auth.longest_token = raw.longest_token.0;
        Ok(auth)
    }

    fn key(&self, key: &RawKey, name: impl Fn(&str) -> String) -> Result<Key, ConfigError> {
        let kid = Some(&*key.kid);
        match (key.algorithm, &key.secret, &key.public_key_file) {
            (Algorithm::Hs256, Some(secret), None) => {
                self.sound(&name("secret"), Key::from_secret(kid, secret))
            }
            (Algorithm::Rs256 | Algorithm::Es256, None, Some(path)) => {
                let name = name("public_key_file");
                let of_file = |problem: String| format!("{}: {problem}", path.display());
                let pem = std::fs::read(path).map_err(|error| of_file(format!("cannot be read: {error}")));
                let pem = self.sound(&name, pem)?;
                let key = Key::from_pem(kid, key.algorithm, &pem);
                self.sound(&name, key.map_err(|error| of_file(error.to_string())))
            }
            (Algorithm::Hs256, ..) => {
                self.refuse(&name("algorithm"), "HS256 takes `secret`, and no `public_key_file`")
            }
            _ => self.refuse(&name("algorithm"), "RS256 and ES256 take `public_key_file`, and no `secret`"),
        }
    }

    pub(super) fn tls(&self, raw: &RawTls) -> Result<Option<Arc<Tls>>, ConfigError> {
        let (certificate, key) = (raw.certificate.as_os_str(), raw.key.as_os_str());
        if certificate.is_empty() && key.is_empty() {
            self.require(!raw.admin, "tls.admin", "needs tls.certificate and tls.key")?;
            return Ok(None);
        }
        self.require(!certificate.is_empty(), "tls.certificate", "must be set when tls.key is")?;
        self.require(!key.is_empty(), "tls.key", "must be set when tls.certificate is")?;
        match Tls::load(raw.certificate.clone(), raw.key.clone()) {
            Ok(tls) => Ok(Some(Arc::new(tls))),
            Err(error) => self.refuse(error.setting(), error.to_string()),
        }
    }
}
