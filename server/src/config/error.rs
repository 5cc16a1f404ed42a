use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

/// All errors in a configuration.
#[derive(Debug)]
pub struct ConfigErrors(pub Vec<ConfigError>);

impl std::error::Error for ConfigErrors {}

impl fmt::Display for ConfigErrors {
    /// Writes one error per line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.0.iter().enumerate() {
            write!(f, "{}{error}", if index == 0 { "" } else { "\n" })?;
        }
        Ok(())
    }
}

/// An error in the configuration.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("cannot read {}: {error}", path.display())]
    Unreadable { path: PathBuf, error: Arc<std::io::Error> },
    /// The file is not valid TOML.
    #[error("{}: {message}", path.display())]
    Syntax {
        path: PathBuf,
        /// Position and description of the syntax error.
        message: String,
    },
    #[error("unknown key `{key}` (set by {origin}){}", did_you_mean(nearest.as_deref()))]
    UnknownKey {
        key: String,
        /// Where the value was set.
        origin: SettingSource,
        /// The key that was probably meant.
        nearest: Option<String>,
    },
    #[error("`{key}` (set by {origin}) was renamed: use `{new}`")]
    RenamedKey {
        /// The old name.
        key: String,
        /// The new name.
        new: &'static str,
        /// Where the old name was set.
        origin: SettingSource,
    },
    /// An environment variable that would name a key if it had two underscores after the section.
    #[error("{name} is not a setting; did you mean {suggestion} (two underscores)?")]
    MissingSeparator {
        /// Name of the variable.
        name: String,
        /// The variable that was probably intended.
        suggestion: String,
    },
    #[error("`{key}` (set by {origin}): {message}")]
    Invalid {
        key: String,
        /// Where the value was set.
        origin: SettingSource,
        /// Description of the problem.
        message: String,
    },
    /// `--set` with an argument that has no `=`.
    #[error("--set {0}: expected KEY=VALUE")]
    NotAnAssignment(String),
}

fn did_you_mean(key: Option<&str>) -> String {
    key.map(|key| format!("; did you mean `{key}`?")).unwrap_or_default()
}

impl ConfigError {
    /// Key of the setting that is wrong.
    pub(super) fn key(&self) -> Option<&str> {
        match self {
            Self::UnknownKey { key, .. } | Self::RenamedKey { key, .. } | Self::Invalid { key, .. } => {
                Some(key)
            }
            _ => None,
        }
    }
}

/// Where a value was set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettingSource {
    /// Built-in default.
    Default,
    /// Configuration file.
    File(PathBuf),
    /// Environment variable.
    Environment(String),
    /// Command-line flag.
    Flag(String),
}

impl fmt::Display for SettingSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("the default"),
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Environment(name) => f.write_str(name),
            Self::Flag(flag) => f.write_str(flag),
        }
    }
}
