//! `[log]`.

use serde::Deserialize;
use tracing_subscriber::filter::{EnvFilter, LevelFilter};

use super::raw::Checks;
use super::{ConfigError, LogFormat};

#[derive(Deserialize)]
pub(super) struct RawLog {
    pub(super) level: String,
    pub(super) format: LogFormat,
}

impl Checks<'_> {
    pub(super) fn log(&self, log: &RawLog) -> Result<(), ConfigError> {
        // A word that is no level is taken for a module by the filter, which would then log nothing else.
        let stray =
            log.level.split(',').map(str::trim).find(|directive| {
                !directive.contains(['=', '[']) && directive.parse::<LevelFilter>().is_err()
            });
        if let Some(stray) = stray {
            let message =
                format!("`{stray}` is none of error, warn, info, debug, trace, off or module=level");
            return self.refuse("log.level", message);
        }
        match log.level.parse::<EnvFilter>() {
            Ok(_) => Ok(()),
            Err(error) => self.refuse("log.level", error.to_string()),
        }
    }
}
