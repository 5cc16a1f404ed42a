//! Layers of settings (defaults, file, environment, flags), and the source of each value.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use encke_base::nearest::nearest;
use toml::{Table, Value};

use super::error::{ConfigError, ConfigErrors, SettingSource};

const DEFAULTS: &str = include_str!("default.toml");
const ENV_PREFIX: &str = "ENCKE_";
/// Sections that are lists of tables, such as `[[webhook]]`.
const LIST_SECTIONS: [&str; 2] = ["namespace", "webhook"];
/// Keys that were renamed, each with its new name. Setting an old key is an error that names the new key.
const RENAMED: [(&str, &str); 3] =
    [("rest", "parking"), ("rest.after", "parking.after"), ("auth.longest_token", "auth.max_token_lifetime")];
/// Separator between section and key in the name of an environment variable.
const ENV_SEPARATOR: &str = "__";

/// Returns the default configuration file: every key with its comment.
#[must_use]
pub fn default_file() -> &'static str {
    DEFAULTS
}

/// All values, each from the layer with the highest precedence that sets it.
pub(super) struct Layers {
    table: Table,
    sources: BTreeMap<String, SettingSource>,
    errors: Vec<ConfigError>,
    /// Keys with a value that cannot be read. Each has the value of a lower layer, or its default.
    unreadable: Vec<String>,
}

impl Layers {
    pub(super) fn defaults() -> Self {
        let mut table: Table = DEFAULTS.parse().expect("the built-in defaults are TOML: a test reads them");
        // Add the empty lists of tables separately. They cannot be in the default file, because a copy of it
        // could not be extended with `[[...]]` blocks.
        table.extend(LIST_SECTIONS.map(|list| (list.to_owned(), Value::Array(Vec::new()))));
        Self { table, sources: BTreeMap::new(), errors: Vec::new(), unreadable: Vec::new() }
    }

    /// Returns the errors found so far.
    pub(super) fn errors(&self) -> &[ConfigError] {
        &self.errors
    }

    pub(super) fn unreadable(&self) -> &[String] {
        &self.unreadable
    }

    /// Adds the settings of a file.
    ///
    /// # Errors
    /// If the file cannot be read or is not valid TOML. The other settings cannot be checked without it.
    pub(super) fn add_file(&mut self, path: &Path) -> Result<(), ConfigError> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| ConfigError::Unreadable { path: path.to_owned(), error: Arc::new(error) })?;
        let table: Table = text.parse().map_err(|error: toml::de::Error| ConfigError::Syntax {
            path: path.to_owned(),
            message: syntax_error(&text, &error),
        })?;
        self.add_table("", table, &SettingSource::File(path.to_owned()));
        Ok(())
    }

    fn add_table(&mut self, prefix: &str, table: Table, source: &SettingSource) {
        for (name, value) in table {
            let key = if prefix.is_empty() { name } else { format!("{prefix}.{name}") };
            match value {
                Value::Table(_) if LIST_SECTIONS.contains(&&*key) => {
                    let message = format!("is a list of tables: [[{key}]]");
                    self.refuse(key, source.clone(), &message);
                }
                Value::Array(_) if matches!(self.table.get(&key), Some(Value::Table(_))) => {
                    let message = format!("is a section: [{key}]");
                    self.refuse(key, source.clone(), &message);
                }
                Value::Table(inner) if !key.contains('.') => {
                    if !self.table.contains_key(&key) {
                        let mut set = inner.keys().map(|name| format!("{key}.{name}"));
                        let old = set.find(|key| new_name(key).is_some());
                        let key = old.unwrap_or(key);
                        self.errors.push(self.unknown_key(key, source.clone()));
                    } else {
                        self.add_table(&key, inner, source);
                    }
                }
                value => self.set(key, value, source.clone()),
            }
        }
    }

    /// Adds settings from environment variables.
    ///
    /// Variables without the separator are ignored, since `ENCKE_HOME`, for example, may belong to another
    /// program. However, a variable that names a key without its section, or that would name a key if it had the
    /// separator, is an error.
    pub(super) fn add_environment(&mut self, variables: impl IntoIterator<Item = (String, String)>) {
        for (name, text) in variables {
            let Some(rest) = name.strip_prefix(ENV_PREFIX) else { continue };
            let Some((section, key)) = rest.split_once(ENV_SEPARATOR) else {
                let list = rest.to_lowercase();
                if self.get(&list).is_some() {
                    self.set_text(list, &text, SettingSource::Environment(name));
                    continue;
                }
                if let Some(suggestion) = self.intended_variable(rest) {
                    self.errors.push(ConfigError::MissingSeparator { name, suggestion });
                }
                continue;
            };
            let key = format!("{}.{}", section.to_lowercase(), key.to_lowercase());
            self.set_text(key, &text, SettingSource::Environment(name));
        }
    }

    /// Adds a setting from the command line.
    pub(super) fn add_flag(&mut self, flag: &str) {
        // Keep only the key for messages: the rest of the flag may be a secret.
        let flag = flag.trim_start();
        let is_key = |c: char| c.is_ascii_alphanumeric() || ".-_[]".contains(c);
        let (key, rest) = flag.split_at(flag.find(|c| !is_key(c)).unwrap_or(flag.len()));
        match rest.trim_start().strip_prefix('=') {
            Some(value) => {
                let source = SettingSource::Flag(format!("--set {key}"));
                self.set_text(key.to_owned(), value.trim(), source);
            }
            None => self.errors.push(ConfigError::NotAnAssignment(key.to_owned())),
        }
    }

    /// Returns the variables that were probably intended by a variable without the separator.
    fn intended_variable(&self, rest: &str) -> Option<String> {
        let name = rest.to_lowercase();
        let variable = |section: &str, key: &str| {
            format!("{ENV_PREFIX}{}{ENV_SEPARATOR}{}", section.to_uppercase(), key.to_uppercase())
        };
        let sections = || self.table.iter().filter_map(|(section, keys)| Some((section, keys.as_table()?)));
        let without_section = sections().filter(|(_, keys)| keys.contains_key(&name));
        let without_section = without_section.map(|(section, _)| variable(section, &name));
        let without_key = sections().filter(|(section, _)| **section == name);
        let without_key =
            without_key.filter_map(|(section, keys)| Some(variable(section, keys.keys().next()?)));
        let intended: Vec<_> = without_section.chain(without_key).collect();
        if !intended.is_empty() {
            return Some(intended.join(" or "));
        }
        rest.match_indices('_').find_map(|(at, _)| {
            let (section, key) = (&rest[..at], &rest[at + 1..]);
            let keys = self.table.get(&section.to_lowercase())?.as_table()?;
            let is_key = keys.contains_key(&key.to_lowercase());
            is_key.then(|| format!("{ENV_PREFIX}{section}{ENV_SEPARATOR}{key}"))
        })
    }

    /// Sets a key from text, converted to the type of its default.
    fn set_text(&mut self, key: String, text: &str, source: SettingSource) {
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
                    self.unreadable.push(key.clone());
                    return self.refuse(key, source, "expected a list such as [\"a\", \"b\"]");
                }
            },
            _ => Value::String(text.into()),
        };
        self.set(key, value, source);
    }

    fn set(&mut self, key: String, value: Value, source: SettingSource) {
        let Some(slot) = self.get(&key) else {
            return self.errors.push(self.unknown_key(key, source));
        };
        *slot = value;
        self.sources.insert(key, source);
    }

    fn unknown_key(&self, key: String, origin: SettingSource) -> ConfigError {
        match new_name(&key) {
            Some(new) => ConfigError::RenamedKey { key, new, origin },
            None => ConfigError::UnknownKey { nearest: self.nearest_key(&key), key, origin },
        }
    }

    /// Returns the section or the key that is nearest to an unknown one.
    fn nearest_key(&self, unknown: &str) -> Option<String> {
        fn nearest_of<'a>(name: &str, table: &'a Table) -> Option<&'a str> {
            let known: Vec<_> = table.keys().map(String::as_str).collect();
            nearest(name, &known)
        }

        let (section, name) = unknown.split_once('.').map_or((unknown, None), |(it, name)| (it, Some(name)));
        let section = nearest_of(section, &self.table)?;
        let Some(name) = name else { return Some(section.to_owned()) };
        match nearest_of(name, self.table.get(section)?.as_table()?) {
            Some(name) => Some(format!("{section}.{name}")),
            None => (!unknown.starts_with(&format!("{section}."))).then(|| format!("[{section}]")),
        }
    }

    fn refuse(&mut self, key: String, origin: SettingSource, message: impl Into<String>) {
        self.errors.push(ConfigError::Invalid { key, origin, message: message.into() });
    }

    /// Records all errors in the elements of a list, by reading each element alone, without the fields that were
    /// found to be wrong.
    fn refuse_elements<T: serde::de::DeserializeOwned>(&mut self, list: &str) {
        let Some(elements) = self.get(list).and_then(|list| list.as_array().cloned()) else { return };
        let beginning = format!("{list}[0]");
        for (index, mut element) in elements.into_iter().enumerate() {
            let mut removed = Vec::new();
            loop {
                let mut alone = Self::defaults();
                if let Some(slot) = alone.get(list) {
                    *slot = Value::Array(vec![element.clone()]);
                }
                let Err(error) = serde_path_to_error::deserialize::<_, T>(alone.table) else { break };
                let (path, message) = (error.path().to_string(), error.inner().message());
                let Some(inside) = path.strip_prefix(&beginning) else { break };
                // A required field that was wrong is now missing. All other fields have been read by then.
                if removed.iter().any(|name| message == format!("missing field `{name}`")) {
                    break;
                }
                let key = format!("{list}[{index}]{inside}");
                self.refuse(key, self.source(list), without_mistyped_value(message));
                let name =
                    inside.trim_start_matches('.').split(['.', '[']).next().unwrap_or_default().to_owned();
                if element.as_table_mut().and_then(|fields| fields.remove(&name)).is_none() {
                    break;
                }
                removed.push(name);
            }
        }
    }

    fn get(&mut self, key: &str) -> Option<&mut Value> {
        match key.split_once('.') {
            Some((section, name)) => self.table.get_mut(section)?.as_table_mut()?.get_mut(name),
            None => self.table.get_mut(key).filter(|_| LIST_SECTIONS.contains(&key)),
        }
    }

    /// Returns where a key was set. For a key inside a list, such as `auth.keys[1].kid`, this is where the
    /// list (`auth.keys`) was set.
    pub(super) fn source(&self, key: &str) -> SettingSource {
        self.sources.get(list_of(key)).cloned().unwrap_or(SettingSource::Default)
    }

    /// Deserializes all values as `T`. Gives values that cannot be read their defaults, after recording their
    /// errors, so that the other values are read as well.
    ///
    /// # Errors
    /// All errors so far, if a value cannot be replaced by its default.
    pub(super) fn read<T: serde::de::DeserializeOwned>(&mut self) -> Result<T, ConfigErrors> {
        loop {
            let error = match serde_path_to_error::deserialize(self.table.clone()) {
                Ok(values) => return Ok(values),
                Err(error) => error,
            };
            let key = error.path().to_string();
            let before = self.errors.len();
            if key.contains('[') {
                self.refuse_elements::<T>(list_of(&key));
            }
            if self.errors.len() == before {
                self.refuse(key.clone(), self.source(&key), without_mistyped_value(error.inner().message()));
            }
            let (set, mut defaults) = (list_of(&key), Self::defaults());
            let (Some(_), Some(slot), Some(default)) =
                (self.sources.remove(set), self.get(set), defaults.get(set))
            else {
                return Err(ConfigErrors(std::mem::take(&mut self.errors)));
            };
            *slot = default.clone();
            self.unreadable.push(set.to_owned());
        }
    }
}

/// Returns the key of the list that contains a key such as `auth.keys[1].kid`, or else the key itself.
fn list_of(key: &str) -> &str {
    key.split_once('[').map_or(key, |(list, _)| list)
}

/// Returns the new name of a key that was renamed.
fn new_name(key: &str) -> Option<&'static str> {
    RENAMED.iter().find(|(old, _)| *old == key).map(|(_, new)| *new)
}

/// Parses a list, written as TOML or JSON.
fn parse_list(text: &str) -> Option<Value> {
    let toml = format!("list = {text}").parse::<Table>().ok().and_then(|mut table| table.remove("list"));
    toml.or_else(|| serde_json::from_str(text).ok()).filter(Value::is_array)
}

/// Describes a syntax error and its position, without quoting the line, which may contain a secret.
fn syntax_error(text: &str, error: &toml::de::Error) -> String {
    let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
    let line = before.matches('\n').count() + 1;
    let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
    format!("TOML parse error at line {line}, column {column}: {}", error.message())
}

/// Names that serde has for types, and those that a reader of the configuration knows.
const TYPE_NAMES: [(&str, &str); 6] = [
    ("usize", "an integer of at least 0"),
    ("u32", "an integer of at least 0"),
    ("u16", "an integer from 0 to 65535"),
    ("f64", "a number"),
    ("a boolean", "true or false"),
    ("a sequence", "a list"),
];

/// Describes a serde error without a value of the wrong type: it may be a secret where a list of secrets belongs.
/// Only types that hold no secret, such as durations, reject values of the right type here.
fn without_mistyped_value(message: &str) -> String {
    let Some((before, expected)) = message.rsplit_once("expected ") else { return message.to_owned() };
    let before = if message.starts_with("invalid type: ") { "" } else { before };
    let name = TYPE_NAMES.iter().find(|(name, _)| *name == expected).map_or(expected, |(_, plain)| plain);
    format!("{before}expected {name}")
}
