//! `[log]`.

use tracing_subscriber::filter::{LevelFilter, ParseError, Targets};

use super::types::LogConfig;
use super::validator::Validator;

impl Validator<'_> {
    pub(super) fn log(&self, log: &LogConfig) {
        // Detect misspelt levels: the filter would treat such a level as a module name and log only that
        // module.
        let stray = directives(&log.level).find(|directive| {
            directive.contains('[') || !directive.contains('=') && directive.parse::<LevelFilter>().is_err()
        });
        let message =
            |stray| format!("`{stray}` is not error, warn, info, debug, trace, off or module=level");
        self.report("log.level", stray.map(message));
        let _ = self.require_ok("log.level", parse_filter(&log.level));
    }
}

/// Parses a level, or a list of levels of modules.
pub(crate) fn parse_filter(text: &str) -> Result<Targets, ParseError> {
    directives(text).collect::<Vec<_>>().join(",").parse()
}

fn directives(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|directive| !directive.is_empty())
}
