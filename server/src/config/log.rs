//! `[log]`.

use serde::Deserialize;
use tracing_subscriber::filter::{EnvFilter, LevelFilter};

use super::raw::Validator;
use super::{ConfigError, LogFormat};

#[derive(Deserialize)]
pub(super) struct RawLog {
    pub(super) level: String,
    pub(super) format: LogFormat,
}

impl Validator<'_> {
    pub(super) fn log(&self, log: &RawLog) -> Result<(), ConfigError> {
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
        match log.level.parse::<EnvFilter>() {
            Ok(_) => Ok(()),
            Err(error) => self.refuse("log.level", error.to_string()),
        }
    }
}
