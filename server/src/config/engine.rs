//! `[engine]`: where channels live.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;

use super::raw::Checks;
use super::{ConfigError, EngineConfig, RedisAddress, RedisSettings, RedisTls};

#[derive(Deserialize)]
pub(super) struct RawEngine {
    kind: Kind,
    url: String,
    ca: PathBuf,
    certificate: PathBuf,
    key: PathBuf,
    user: String,
    password: String,
    database: u32,
    prefix: String,
    allow_eviction: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Memory,
    Redis,
}

/// It stands in every key.
const LONGEST_PREFIX: usize = 64;

impl Checks<'_> {
    pub(super) fn engine(
        &self,
        raw: &RawEngine,
        history_messages: usize,
        history_age: Option<Duration>,
    ) -> Result<EngineConfig, ConfigError> {
        if raw.kind == Kind::Memory {
            let strings =
                [("engine.url", &raw.url), ("engine.user", &raw.user), ("engine.password", &raw.password)];
            let strings = strings.map(|(key, value)| (key, Path::new(value)));
            for (key, value) in strings.into_iter().chain(raw.files()) {
                self.require(is_unset(value), key, "needs engine.kind = \"redis\"")?;
            }
            return Ok(EngineConfig::Memory);
        }
        let address = raw.url.parse().or_else(|error: String| self.refuse("engine.url", error))?;
        let tls = self.engine_tls(raw, &address)?;
        let has_password = raw.user.is_empty() || !raw.password.is_empty();
        self.require(has_password, "engine.user", "needs engine.password")?;
        let is_prefix = |prefix: &str| {
            prefix.len() <= LONGEST_PREFIX
                && prefix.bytes().all(|byte| byte.is_ascii_graphic() && !b"{}*?[]\\^".contains(&byte))
        };
        let message = format!(
            "must have at most {LONGEST_PREFIX} characters of ASCII, and none that has a meaning in patterns or clusters"
        );
        self.require(is_prefix(&raw.prefix), "engine.prefix", message)?;
        let message = "0, no limit, does not go with engine.kind = \"redis\": nothing else bounds what a channel takes there";
        self.require(history_messages > 0, "channel.history_messages", message)?;
        Ok(EngineConfig::Redis(RedisSettings {
            address,
            tls,
            user: raw.user.clone(),
            password: raw.password.clone(),
            database: i64::from(raw.database),
            prefix: raw.prefix.clone(),
            allow_eviction: raw.allow_eviction,
            history_messages,
            history_age,
        }))
    }

    fn engine_tls(&self, raw: &RawEngine, address: &RedisAddress) -> Result<Option<RedisTls>, ConfigError> {
        if !matches!(address, RedisAddress::Tls(..)) {
            for (key, file) in raw.files() {
                self.require(is_unset(file), key, "needs an engine.url that begins with rediss://")?;
            }
            return Ok(None);
        }
        let [ca, certificate, key] = raw.files().map(|(_, file)| (!is_unset(file)).then_some(file));
        self.require(
            certificate.is_some() || key.is_none(),
            "engine.certificate",
            "must be set when engine.key is",
        )?;
        self.require(
            key.is_some() || certificate.is_none(),
            "engine.key",
            "must be set when engine.certificate is",
        )?;
        let tls = RedisTls::load(ca, certificate.zip(key));
        tls.map(Some).or_else(|error| self.refuse(error.setting(), error.to_string()))
    }
}

impl RawEngine {
    fn files(&self) -> [(&'static str, &Path); 3] {
        [("engine.ca", &self.ca), ("engine.certificate", &self.certificate), ("engine.key", &self.key)]
    }
}

fn is_unset(path: &Path) -> bool {
    path.as_os_str().is_empty()
}
