use std::time::Duration;

use super::error::{ConfigError, SettingSource};
use super::layers::Layers;

/// Minimum timeout of an outbound request. A shorter timeout is certainly a mistake.
const MIN_REQUEST_TIMEOUT: Duration = Duration::from_millis(100);

/// Checks of individual settings and of combinations of settings.
pub(super) struct Validator<'a>(pub(super) &'a Layers);

impl Validator<'_> {
    pub(super) fn require(
        &self,
        holds: bool,
        key: &str,
        message: impl Into<String>,
    ) -> Result<(), ConfigError> {
        if holds { Ok(()) } else { self.refuse(key, message) }
    }

    pub(super) fn refuse<T>(&self, key: &str, message: impl Into<String>) -> Result<T, ConfigError> {
        Err(ConfigError::Invalid { key: key.into(), origin: self.0.source(key), message: message.into() })
    }

    /// Converts the error of a check to a [`ConfigError`] for this key.
    pub(super) fn require_ok<T, E: ToString>(
        &self,
        key: &str,
        result: Result<T, E>,
    ) -> Result<T, ConfigError> {
        result.or_else(|error| self.refuse(key, error.to_string()))
    }

    /// Checks the timeout of an outbound request.
    pub(super) fn request_timeout(&self, key: &str, timeout: Duration) -> Result<(), ConfigError> {
        self.require(timeout >= MIN_REQUEST_TIMEOUT, key, "must be at least 100ms")
    }

    pub(super) fn is_default(&self, key: &str) -> bool {
        self.0.source(key) == SettingSource::Default
    }
}
