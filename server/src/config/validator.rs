use std::cell::RefCell;
use std::time::Duration;

use super::error::{ConfigError, ConfigErrors, SettingSource};
use super::layers::Layers;

/// Minimum timeout of an outbound request. A shorter timeout is certainly a mistake.
const MIN_REQUEST_TIMEOUT: Duration = Duration::from_millis(100);

/// Checks of individual settings and of combinations of settings. They record all errors, so that an operator
/// sees them at once.
pub(super) struct Validator<'a> {
    layers: &'a Layers,
    errors: RefCell<Vec<ConfigError>>,
}

/// A check has failed, and its error is recorded.
pub(super) struct Refused;

impl<'a> Validator<'a> {
    pub(super) fn new(layers: &'a Layers) -> Self {
        Self { layers, errors: RefCell::default() }
    }

    /// Returns the errors of the layers and of the checks.
    pub(super) fn finish(self) -> Result<(), ConfigErrors> {
        let errors: Vec<_> = self.layers.errors().iter().cloned().chain(self.errors.into_inner()).collect();
        if errors.is_empty() { Ok(()) } else { Err(ConfigErrors(errors)) }
    }

    pub(super) fn require(&self, holds: bool, key: &str, message: impl Into<String>) {
        self.report(key, (!holds).then(|| message.into()));
    }

    /// Records the problem, if there is one.
    pub(super) fn report(&self, key: &str, problem: Option<String>) {
        if let Some(message) = problem {
            let _: Result<(), _> = self.refuse(key, message);
        }
    }

    /// Records an error. Skips it if this key, or a key that `message` names, already has an error or an
    /// unreadable value: then this error may be a consequence of that one.
    pub(super) fn refuse<T>(&self, key: &str, message: impl Into<String>) -> Result<T, Refused> {
        let (message, mut errors) = (message.into(), self.errors.borrow_mut());
        let is_involved = |other: &str| other == key || message.contains(other);
        let mut wrong = self.layers.unreadable().iter().map(String::as_str);
        if !wrong.any(is_involved) && !errors.iter().filter_map(ConfigError::key).any(is_involved) {
            let origin = self.layers.source(key);
            errors.push(ConfigError::Invalid { key: key.into(), origin, message });
        }
        Err(Refused)
    }

    /// Records the error of a check for this key.
    pub(super) fn require_ok<T, E: ToString>(&self, key: &str, result: Result<T, E>) -> Result<T, Refused> {
        result.or_else(|error| self.refuse(key, error.to_string()))
    }

    /// Checks the timeout of an outbound request.
    pub(super) fn request_timeout(&self, key: &str, timeout: Duration) {
        self.require(timeout >= MIN_REQUEST_TIMEOUT, key, "must be at least 100ms");
    }

    pub(super) fn is_default(&self, key: &str) -> bool {
        self.layers.source(key) == SettingSource::Default
    }

    pub(super) fn source(&self, key: &str) -> SettingSource {
        self.layers.source(key)
    }
}
