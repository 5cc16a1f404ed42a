//! `[log]`.

use tracing_subscriber::filter::{EnvFilter, LevelFilter};

use super::error::ConfigError;
use super::types::LogConfig;
use super::validator::Validator;

impl Validator<'_> {
    pub(super) fn log(&self, log: &LogConfig) -> Result<(), ConfigError> {
        // Detect misspelt levels: the filter would treat such a level as a module name and log only that
        // module.
        let stray =
            log.level.split(',').map(str::trim).find(|directive| {
                !directive.contains(['=', '[']) && directive.parse::<LevelFilter>().is_err()
            });
        if let Some(stray) = stray {
            let message = format!("`{stray}` is not error, warn, info, debug, trace, off or module=level");
            return self.refuse("log.level", message);
        }
        self.require_ok("log.level", log.level.parse::<EnvFilter>()).map(drop)
    }
}
