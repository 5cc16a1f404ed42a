//! Checks shared by several kinds of outbound requests.

use std::time::Duration;

use super::ConfigError;
use super::raw::Validator;

/// Minimum timeout. A shorter timeout is certainly a mistake.
const MIN_TIMEOUT: Duration = Duration::from_millis(100);

impl Validator<'_> {
    /// Checks the timeout of an outbound request.
    pub(super) fn request_timeout(&self, key: &str, timeout: Duration) -> Result<(), ConfigError> {
        self.require(timeout >= MIN_TIMEOUT, key, "must be at least 100ms")
    }
}
