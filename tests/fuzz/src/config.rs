//! Fuzzes the configuration from a file, the environment and the command line. It must be accepted, or
//! rejected with an error that names the cause; and the source of a setting must not change its meaning.

use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;
use std::time::Duration;

use encke_server::config::{Config, ConfigError, ConfigErrors, Settings};
use tempfile::TempDir;
use toml::{Table, Value};

use crate::frames;
use crate::memory_socket::MemorySocket;
use crate::simulation::ServerSimulation;

/// Marks secrets in the input. If it occurs only in secrets, no error message may contain it.
const SECRET_MARKER: &str = "S3CR3T";

static TEMP_DIR: LazyLock<TempDir> = LazyLock::new(|| tempfile::tempdir().expect("a temporary directory"));

/// Checks a configuration. Lines that begin with `!` are values of `--set`, those that begin with `$` are
/// environment variables, and all other lines form the file.
pub(crate) fn run(input: &[u8]) {
    let Ok(input) = std::str::from_utf8(input) else { return };
    let mut settings = Settings { insecure: input.len().is_multiple_of(2), ..Settings::default() };
    let mut file = String::new();
    for line in input.split_inclusive('\n') {
        let content = line.trim_end_matches('\n');
        if let Some(flag) = content.strip_prefix('!') {
            settings.flags.push(flag.to_owned());
        } else if let Some((name, value)) = content.strip_prefix('$').and_then(|set| set.split_once('=')) {
            settings.environment.push((name.to_owned(), value.to_owned()));
        } else {
            file.push_str(line);
        }
    }
    let table: Option<Table> = file.parse().ok();
    if reads_files(input) {
        return;
    }
    settings.file = Some(write_file(&file));
    match settings.resolve() {
        Ok(config) => check_accepted(&config, &settings, &table.expect("the configuration was accepted")),
        Err(ConfigErrors(errors)) => {
            assert!(!errors.is_empty());
            errors.iter().for_each(|error| check_rejection(error, input, table.as_ref()));
        }
    }
}

/// Returns whether the configuration may name other files. Keys and certificates in files are out of scope,
/// and some files never end.
fn reads_files(input: &str) -> bool {
    let input = input.to_ascii_lowercase();
    ["certificate", "key_file", "\\u", "tls"].iter().any(|word| input.contains(word))
}

fn write_file(text: &str) -> PathBuf {
    // Use one file per thread, because several tests may run simultaneously.
    let path = TEMP_DIR.path().join(format!("{:?}.toml", std::thread::current().id()));
    fs::write(&path, text).expect("the temporary directory is writable");
    path
}

/// Checks an accepted configuration: given on the command line, the same values must produce the same
/// configuration.
fn check_accepted(config: &Config, settings: &Settings, table: &Table) {
    for warning in config.warnings(1024) {
        assert!(!warning.is_empty());
    }
    serve_with(config.clone());
    let mut flags = Vec::new();
    for (section, values) in table {
        for (key, value) in values.as_table().into_iter().flatten() {
            flags.push(format!("{section}.{key}={}", as_text(value)));
        }
    }
    // Add the original flags last, so that they still take precedence.
    flags.extend(settings.flags.iter().cloned());
    let without_file = Settings { file: None, flags, ..settings.clone() };
    let environment_wins = !settings.environment.is_empty();
    match without_file.resolve() {
        // The file's values are now flags, which override the environment.
        Ok(_) | Err(_) if environment_wins => {}
        Ok(same) => assert_eq!(format!("{same:?}"), format!("{config:?}")),
        Err(error) => panic!("{:?}: {error}", without_file.flags),
    }
}

/// Checks that a server starts with an accepted configuration, and greets its clients.
fn serve_with(config: Config) {
    let needs_token = config.auth.needs_token();
    let mut simulated = ServerSimulation::new(config, None);
    let wire = MemorySocket::default();
    let arrival = simulated.server.number_request();
    let task = simulated.server.serve_websocket(wire.clone(), [127, 0, 0, 1].into(), "", arrival);
    simulated.spawn(task);
    for command in
        [r#"{"id":1,"subscribe":{"channel":"a"}}"#, r#"{"id":2,"publish":{"channel":"a","data":1}}"#]
    {
        let mut frame = Vec::new();
        frames::write(0x81, command.as_bytes(), &mut frame);
        wire.client_sends(&frame);
    }
    simulated.advance(Duration::from_millis(50));
    let (bytes, _) = wire.received();
    let is_greeted = bytes.windows(8).any(|window| window == b"{\"hello\"");
    assert_eq!(is_greeted, !needs_token);
    wire.client_ends();
    simulated.advance(Duration::from_millis(50));
    assert_eq!(simulated.tasks(), 0);
}

/// Formats a value as it is written on a command line.
fn as_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn check_rejection(error: &ConfigError, input: &str, table: Option<&Table>) {
    let message = error.to_string();
    match error {
        ConfigError::Unreadable { .. } => panic!("the file exists: {message}"),
        ConfigError::Syntax { .. } => assert!(table.is_none() && message.contains("line "), "{message}"),
        ConfigError::UnknownKey { key, origin, .. }
        | ConfigError::RenamedKey { key, origin, .. }
        | ConfigError::Invalid { key, origin, .. } => {
            assert!(message.contains(key.as_str()) && message.contains(&origin.to_string()), "{message}");
        }
        ConfigError::MissingSeparator { name, suggestion } => {
            assert!(name != suggestion && message.contains(suggestion.as_str()), "{message}")
        }
        ConfigError::NotAnAssignment(_) => assert!(message.contains("--set"), "{message}"),
    }
    if marker_is_only_in_secrets(input, table) {
        assert!(!message.contains(SECRET_MARKER), "{message}");
    }
}

fn marker_is_only_in_secrets(input: &str, table: Option<&Table>) -> bool {
    let marks = |text: &str| text.matches(SECRET_MARKER).count();
    let auth = table.and_then(|table| table.get("auth")).and_then(Value::as_table);
    let value = |name: &str| auth.and_then(|auth| auth.get(name));
    let of_keys = value("keys").and_then(Value::as_array).into_iter().flatten();
    let of_keys = of_keys.filter_map(|key| key.get("secret"));
    let in_file = [value("secret"), value("api_keys")].into_iter().flatten().chain(of_keys);
    let elsewhere = input.lines().filter_map(|line| {
        let (key, value) = line.strip_prefix(['!', '$'])?.split_once('=')?;
        let is_secret = ["auth.secret", "auth.api_keys", "ENCKE_AUTH__SECRET"].contains(&key);
        is_secret.then(|| marks(value))
    });
    let in_file = in_file.map(|secret| marks(&secret.to_string())).sum::<usize>();
    in_file + elsewhere.sum::<usize>() == marks(input)
}
