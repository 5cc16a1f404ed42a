use std::path::PathBuf;

use super::layers::Source;

/// What is wrong with a configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read {}: {error}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's word.
        error: std::io::Error,
    },
    /// The file is not TOML.
    #[error("{}: {message}", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// Where and what.
        message: String,
    },
    /// There is no such key.
    #[error("unknown key `{key}` (set by {origin})")]
    UnknownKey {
        /// The key.
        key: String,
        /// Who set it.
        origin: Source,
    },
    /// A variable of the environment that is nearly a key's.
    #[error("{name} is no setting; {meant} is (two underscores)")]
    NearlyAKey {
        /// The variable.
        name: String,
        /// What was meant, presumably.
        meant: String,
    },
    /// A value does not fit its key.
    #[error("`{key}` (set by {origin}): {message}")]
    Invalid {
        /// The key.
        key: String,
        /// Who set it.
        origin: Source,
        /// What is wrong.
        message: String,
    },
    /// `--set` without a `=`.
    #[error("--set {0}: expected KEY=VALUE")]
    NotAnAssignment(String),
}
