//! Defaults, file, environment and flags, laid over each other; and where each value came from.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use toml::{Table, Value};

use super::ConfigError;

const DEFAULTS: &str = include_str!("default.toml");
const ENV_PREFIX: &str = "ENCKE_";
/// The sections whose values are not shown.
pub(super) const SECRETS: [&str; 5] = ["auth", "backend", "engine", "trace", "webhook"];
/// Lists of tables beside the sections: `[[webhook]]`.
const LISTS: [&str; 2] = ["namespace", "webhook"];
/// Between the levels of a key in the environment.
const ENV_SEPARATOR: &str = "__";

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// Built in.
    Default,
    /// The configuration file.
    File(PathBuf),
    /// A variable of the environment.
    Environment(String),
    /// The command line.
    Flag(String),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("the default"),
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Environment(name) => f.write_str(name),
            Self::Flag(flag) => f.write_str(flag),
        }
    }
}

/// The default file, every key with its comment.
#[must_use]
pub fn default_file() -> &'static str {
    DEFAULTS
}

/// All values, each from the strongest layer that has it.
pub(super) struct Layers {
    table: Table,
    sources: BTreeMap<String, Source>,
}

impl Layers {
    pub(super) fn defaults() -> Self {
        let mut table: Table = DEFAULTS.parse().expect("the built-in defaults are TOML: a test reads them");
        // Written into the default file, they could not be added to.
        table.extend(LISTS.map(|list| (list.to_owned(), Value::Array(Vec::new()))));
        Self { table, sources: BTreeMap::new() }
    }

    pub(super) fn add_file(&mut self, path: &Path) -> Result<(), ConfigError> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| ConfigError::Unreadable { path: path.to_owned(), error })?;
        let table: Table = text.parse().map_err(|error: toml::de::Error| ConfigError::Syntax {
            path: path.to_owned(),
            message: syntax_error(&text, &error),
        })?;
        self.add_table("", table, &Source::File(path.to_owned()))
    }

    fn add_table(&mut self, prefix: &str, table: Table, source: &Source) -> Result<(), ConfigError> {
        for (name, value) in table {
            let key = if prefix.is_empty() { name } else { format!("{prefix}.{name}") };
            match value {
                Value::Table(_) if LISTS.contains(&&*key) => {
                    let message = format!("is a list of tables: [[{key}]]");
                    return Err(ConfigError::Invalid { key, origin: source.clone(), message });
                }
                Value::Array(_) if matches!(self.table.get(&key), Some(Value::Table(_))) => {
                    let message = format!("is a section: [{key}]");
                    return Err(ConfigError::Invalid { key, origin: source.clone(), message });
                }
                Value::Table(inner) if !key.contains('.') => {
                    if !self.table.contains_key(&key) {
                        return Err(ConfigError::UnknownKey { key, origin: source.clone() });
                    }
                    self.add_table(&key, inner, source)?;
                }
                value => self.set(key, value, source.clone())?,
            }
        }
        Ok(())
    }

    /// Variables without the separator are not ours: `ENCKE_HOME` may mean something to someone else. But one that would name a
    /// key if it had the separator is a mistake.
    pub(super) fn add_environment(
        &mut self,
        variables: impl IntoIterator<Item = (String, String)>,
    ) -> Result<(), ConfigError> {
        for (name, text) in variables {
            let Some(rest) = name.strip_prefix(ENV_PREFIX) else { continue };
            let Some((section, key)) = rest.split_once(ENV_SEPARATOR) else {
                let list = rest.to_lowercase();
                if self.get(&list).is_some() {
                    self.set_text(list, &text, Source::Environment(name))?;
                    continue;
                }
                match self.meant_by(rest) {
                    Some(meant) => return Err(ConfigError::NearlyAKey { name, meant }),
                    None => continue,
                }
            };
            let key = format!("{}.{}", section.to_lowercase(), key.to_lowercase());
            self.set_text(key, &text, Source::Environment(name))?;
        }
        Ok(())
    }

    /// The variable that this one, whose name has no separator, would be with it.
    fn meant_by(&self, rest: &str) -> Option<String> {
        rest.match_indices('_').find_map(|(at, _)| {
            let (section, key) = (&rest[..at], &rest[at + 1..]);
            let keys = self.table.get(&section.to_lowercase())?.as_table()?;
            let is_key = keys.contains_key(&key.to_lowercase());
            is_key.then(|| format!("{ENV_PREFIX}{section}{ENV_SEPARATOR}{key}"))
        })
    }

    /// Sets a key from text, which is taken for the type that its default has.
    pub(super) fn set_text(&mut self, key: String, text: &str, source: Source) -> Result<(), ConfigError> {
        let value = match self.get(&key) {
            Some(Value::Integer(_)) => {
                text.parse().map_or_else(|_| Value::String(text.into()), Value::Integer)
            }
            Some(Value::Float(_)) => text.parse().map_or_else(|_| Value::String(text.into()), Value::Float),
            Some(Value::Boolean(_)) => {
                text.parse().map_or_else(|_| Value::String(text.into()), Value::Boolean)
            }
            Some(Value::Array(_)) => match parse_list(text) {
                Some(list) => list,
                None => {
                    let message = "expected a list such as [\"a\", \"b\"]".to_owned();
                    return Err(ConfigError::Invalid { key, origin: source, message });
                }
            },
            _ => Value::String(text.into()),
        };
        self.set(key, value, source)
    }

    fn set(&mut self, key: String, value: Value, source: Source) -> Result<(), ConfigError> {
        let Some(slot) = self.get(&key) else {
            return Err(ConfigError::UnknownKey { key, origin: source });
        };
        *slot = value;
        self.sources.insert(key, source);
        Ok(())
    }

    fn get(&mut self, key: &str) -> Option<&mut Value> {
        match key.split_once('.') {
            Some((section, name)) => self.table.get_mut(section)?.as_table_mut()?.get_mut(name),
            None => self.table.get_mut(key).filter(|_| LISTS.contains(&key)),
        }
    }

    /// Who set a key, or what a key in a list belongs to: of `auth.keys[1].kid`, that is `auth.keys`.
    pub(super) fn source(&self, key: &str) -> Source {
        let set = key.split_once('[').map_or(key, |(list, _)| list);
        self.sources.get(set).cloned().unwrap_or(Source::Default)
    }

    /// Reads all values as `T`.
    pub(super) fn read<T: serde::de::DeserializeOwned>(&self) -> Result<T, ConfigError> {
        serde_path_to_error::deserialize(self.table.clone()).map_err(|error| {
            let key = error.path().to_string();
            let origin = self.source(&key);
            let error = error.into_inner();
            let message = if is_secret(&key) { without_value(error.message()) } else { error.message() };
            ConfigError::Invalid { key, origin, message: message.to_owned() }
        })
    }
}

/// Whether a key is in a section whose values are not shown.
fn is_secret(key: &str) -> bool {
    key.split(['.', '[']).next().is_some_and(|section| SECRETS.contains(&section))
}

/// A list, as TOML or JSON.
fn parse_list(text: &str) -> Option<Value> {
    let toml = format!("list = {text}").parse::<Table>().ok().and_then(|mut table| table.remove("list"));
    toml.or_else(|| serde_json::from_str(text).ok()).filter(Value::is_array)
}

/// Where and what, without the line itself: it may be one with a secret.
fn syntax_error(text: &str, error: &toml::de::Error) -> String {
    let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
    let line = before.matches('\n').count() + 1;
    let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
    format!("TOML parse error at line {line}, column {column}: {}", error.message())
}

/// An error of serde without the value that it is about.
fn without_value(message: &str) -> &str {
    let about_value = ["invalid type: ", "invalid value: "].iter().any(|start| message.starts_with(start));
    match message.rfind("expected ") {
        Some(expected) if about_value => &message[expected..],
        _ => message,
    }
}
