//! `[engine]`: the storage of channels.

use std::path::{Path, PathBuf};

use encke_broker::engine::{
    RedisAddress, RedisLocation, RedisSettings, RedisTls, Sentinels, max_reply_bytes,
};
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;

use super::channels::{RawChannel, RawNamespace};
use super::types::EngineConfig;
use super::validator::{Refused, Validator};

#[derive(Deserialize)]
pub(super) struct RawEngine {
    pub(super) kind: RawEngineKind,
    url: String,
    master: String,
    sentinel_user: String,
    sentinel_password: SecretString,
    ca: PathBuf,
    certificate: PathBuf,
    key: PathBuf,
    user: String,
    password: SecretString,
    database: u32,
    prefix: String,
    allow_eviction: bool,
    pub(super) share_sessions: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum RawEngineKind {
    Memory,
    Redis,
}

/// Maximum length of the key prefix. Bounded because every Redis key begins with the prefix.
const MAX_PREFIX: usize = 64;

/// Maximum number of Sentinels. Bounded because querying one Sentinel for the master may take a second.
const MAX_SENTINELS: usize = 16;

impl Validator<'_> {
    pub(super) fn engine(
        &self,
        raw: &RawEngine,
        channel: &RawChannel,
        namespaces: &[RawNamespace],
        max_message: usize,
    ) -> Result<EngineConfig, Refused> {
        if raw.kind == RawEngineKind::Memory {
            let strings = [
                ("engine.url", &*raw.url),
                ("engine.user", &raw.user),
                ("engine.password", raw.password.expose_secret()),
            ];
            let strings = strings.into_iter().chain(raw.sentinel_settings());
            let strings = strings.map(|(key, value)| (key, Path::new(value)));
            for (key, value) in strings.chain(raw.tls_files()) {
                self.require(is_unset(value), key, "needs engine.kind = \"redis\"");
            }
            self.require(!raw.share_sessions, "engine.share_sessions", "needs engine.kind = \"redis\"");
            return Ok(EngineConfig::Memory);
        }
        let place = self.place(raw);
        let has_password = raw.user.is_empty() || !raw.password.expose_secret().is_empty();
        self.require(has_password, "engine.user", "needs engine.password");
        let is_prefix = |prefix: &str| {
            prefix.len() <= MAX_PREFIX
                && prefix.bytes().all(|byte| byte.is_ascii_graphic() && !b"{}*?[]\\^".contains(&byte))
        };
        let message = format!(
            "must have at most {MAX_PREFIX} printable ASCII characters, without spaces and {{}}*?[]\\^, which are special in patterns and clusters"
        );
        self.require(is_prefix(&raw.prefix), "engine.prefix", message);
        let message = "must not be 0 (no limit) with engine.kind = \"redis\": nothing else limits the size of a channel there";
        self.require(channel.history_messages > 0, "channel.history_messages", message);
        let place = place?;
        let tls = self.engine_tls(raw, &place)?;
        Ok(EngineConfig::Redis(Box::new(RedisSettings {
            location: place,
            tls,
            user: raw.user.clone(),
            password: raw.password.clone(),
            database: i64::from(raw.database),
            prefix: raw.prefix.clone(),
            allow_eviction: raw.allow_eviction,
            max_reply_bytes: max_reply_bytes(channel.longest_history(namespaces), max_message),
        })))
    }

    fn place(&self, raw: &RawEngine) -> Result<RedisLocation, Refused> {
        if raw.master.is_empty() {
            for (key, value) in raw.sentinel_settings() {
                self.require(value.is_empty(), key, "needs engine.master");
            }
            let is_one = raw.url.starts_with("unix:") || !raw.url.contains(',');
            self.require(is_one, "engine.master", "must be set when engine.url names several Sentinels");
            let address = raw.url.parse().map(RedisLocation::Address);
            return address.or_else(|error: String| self.refuse("engine.url", error));
        }
        let addresses = raw.url.split(',').map(|url| RedisAddress::parse_sentinel(url.trim()));
        let addresses: Vec<_> =
            addresses.collect::<Result<_, _>>().or_else(|error: String| self.refuse("engine.url", error))?;
        let fits = addresses.len() <= MAX_SENTINELS;
        self.require(fits, "engine.url", format!("must name at most {MAX_SENTINELS} Sentinels"));
        let is_alike = addresses.iter().all(|address| address.is_tls() == addresses[0].is_tls());
        self.require(is_alike, "engine.url", "must use TLS for all Sentinels or for none");
        let is_name = raw.master.bytes().all(|byte| byte.is_ascii_graphic());
        self.require(is_name, "engine.master", "must be an ASCII name without spaces");
        let has_password = raw.sentinel_user.is_empty() || !raw.sentinel_password.expose_secret().is_empty();
        self.require(has_password, "engine.sentinel_user", "needs engine.sentinel_password");
        Ok(RedisLocation::Sentinels(Sentinels {
            addresses,
            master: raw.master.clone(),
            user: raw.sentinel_user.clone(),
            password: raw.sentinel_password.clone(),
        }))
    }

    fn engine_tls(&self, raw: &RawEngine, place: &RedisLocation) -> Result<Option<RedisTls>, Refused> {
        let is_tls = match place {
            RedisLocation::Address(address) => address.is_tls(),
            RedisLocation::Sentinels(sentinels) => sentinels.addresses.iter().any(RedisAddress::is_tls),
        };
        if !is_tls {
            for (key, file) in raw.tls_files() {
                self.require(is_unset(file), key, "needs an engine.url that begins with rediss://");
            }
            return Ok(None);
        }
        let [ca, certificate, key] = raw.tls_files().map(|(_, file)| (!is_unset(file)).then_some(file));
        self.require(
            certificate.is_some() || key.is_none(),
            "engine.certificate",
            "must be set when engine.key is",
        );
        self.require(
            key.is_some() || certificate.is_none(),
            "engine.key",
            "must be set when engine.certificate is",
        );
        let tls = RedisTls::load(ca, certificate.zip(key));
        tls.map(Some).or_else(|error| self.refuse(error.setting(), error.to_string()))
    }
}

impl RawEngine {
    fn sentinel_settings(&self) -> [(&'static str, &str); 3] {
        [
            ("engine.master", &self.master),
            ("engine.sentinel_user", &self.sentinel_user),
            ("engine.sentinel_password", self.sentinel_password.expose_secret()),
        ]
    }

    fn tls_files(&self) -> [(&'static str, &Path); 3] {
        [("engine.ca", &self.ca), ("engine.certificate", &self.certificate), ("engine.key", &self.key)]
    }
}

fn is_unset(path: &Path) -> bool {
    path.as_os_str().is_empty()
}
