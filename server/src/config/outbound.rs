//! What `[backend]` and `[[webhook]]` share.

use std::time::Duration;

use super::ConfigError;
use super::raw::Checks;

/// A shorter one is a mistake.
const SHORTEST_TIMEOUT: Duration = Duration::from_millis(100);

impl Checks<'_> {
    /// How long a request that the server makes may take.
    pub(super) fn request_timeout(&self, key: &str, timeout: Duration) -> Result<(), ConfigError> {
        self.require(timeout >= SHORTEST_TIMEOUT, key, "must be at least 100ms")
    }
}
