//! Configuration: raw settings in layers, resolved into a validated [`Config`].

mod auth;
mod backend;
mod channels;
mod descriptors;
mod engine;
mod error;
mod issuer;
mod layers;
mod limits;
mod listen;
mod log;
mod memory;
mod raw;
#[cfg(test)]
mod secrets_tests;
#[cfg(test)]
mod tests;
mod trace;
mod types;
mod units;
mod validator;
mod warnings;
mod webhook;
#[cfg(test)]
mod webhook_tests;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use layers::Layers;
use validator::Validator;

pub use descriptors::MIN_DESCRIPTORS;
pub use encke_broker::channel::{ChannelRules, LogLimits, Namespace};
pub use encke_broker::engine::{RedisAddress, RedisLocation, RedisSettings, RedisTls, Sentinels};
pub use error::{ConfigError, ConfigErrors, SettingSource};
pub use layers::default_file;
pub use limits::{ClientDescriptors, Limits};
pub(crate) use log::parse_filter;
pub use types::{
    BayeuxConfig, ChannelConfig, Config, EngineConfig, ListenerKind, LogConfig, LogFormat, TimersConfig,
};

/// Sources of the configuration, in addition to the defaults.
#[derive(Clone, Default)]
#[expect(missing_debug_implementations, reason = "the variables and flags may contain secrets")]
pub struct Settings {
    /// Configuration file.
    pub file: Option<PathBuf>,
    /// Environment variables, usually [`std::env::vars`].
    pub environment: Vec<(String, String)>,
    /// `key=value` pairs from the command line.
    pub flags: Vec<String>,
    /// Whether to allow listening beyond loopback without authentication.
    pub insecure: bool,
}

/// How to reach the admin listener of a configured server.
#[derive(Clone, Copy, Debug)]
pub struct AdminListener {
    pub address: SocketAddr,
    /// Whether the listener uses TLS.
    pub has_tls: bool,
}

impl Settings {
    /// Creates settings from a file alone.
    #[must_use]
    pub fn from_file(file: &Path) -> Self {
        Self { file: Some(file.to_owned()), ..Self::default() }
    }

    /// Resolves and validates the settings.
    ///
    /// # Errors
    /// Returns all errors, except consequences of others, each with the key and where it was set. If the file
    /// cannot be read or is not valid TOML, this is the only error.
    pub fn resolve(&self) -> Result<Config, ConfigErrors> {
        raw::resolve(self.layers()?, self.insecure)
    }

    /// Returns how to reach the admin listener, for use by another process. Files that the settings refer to
    /// are not read: the running server may have read an earlier version of them, or may have read them as
    /// another user.
    ///
    /// # Errors
    /// Returns all unknown keys and unreadable values, and where they were set.
    pub fn admin_listener(&self) -> Result<AdminListener, ConfigErrors> {
        let mut layers = self.layers()?;
        let raw: raw::RawConfig = layers.read()?;
        Validator::new(&layers).finish()?;
        Ok(AdminListener { address: raw.listen.admin, has_tls: raw.tls.admin })
    }

    fn layers(&self) -> Result<Layers, ConfigErrors> {
        let mut layers = Layers::defaults();
        if let Some(file) = &self.file {
            layers.add_file(file).map_err(|error| ConfigErrors(vec![error]))?;
        }
        layers.add_environment(self.environment.iter().cloned());
        self.flags.iter().for_each(|flag| layers.add_flag(flag));
        Ok(layers)
    }
}
