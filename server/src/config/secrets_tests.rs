//! Secrets of the configuration: hidden by `Debug`, and never in an error. The secrets are all settings that
//! take text, except for those in a list, so a new secret is tested unless it is added there.

use toml::{Table, Value};

use super::*;

/// Text that every secret accepts.
const SECRET: &str = "whsec_aHVudGVyMi1odW50ZXIyLWh1bnRlcjItaHVudGVyMg";

/// Settings that take text but are not secrets.
const NOT_SECRETS: [&str; 36] = [
    "listen.public_url",
    "listen.hosts",
    "listen.trusted_proxies",
    "engine.url",
    "engine.master",
    "engine.sentinel_user",
    "engine.ca",
    "engine.certificate",
    "engine.key",
    "engine.user",
    "engine.prefix",
    "bayeux.path",
    "shutdown.snapshot",
    "auth.keys.kid",
    "auth.keys.public_key_file",
    "auth.api_keys.name",
    "auth.origins",
    "auth.jwks",
    "auth.jwks_ca",
    "auth.audience",
    "backend.connect",
    "backend.subscribe",
    "backend.publish",
    "backend.call",
    "backend.headers",
    "backend.cookies",
    "backend.ca",
    "tls.certificate",
    "tls.key",
    "webhook.name",
    "webhook.url",
    "webhook.ca",
    "trace.otlp",
    "trace.ca",
    "log.level",
    "namespace.prefix",
];

/// A valid table for each list of tables.
const TABLES: [(&str, &str); 4] = [
    ("auth.keys", "{ kid = 'a', algorithm = 'HS256', secret = '' }"),
    ("auth.api_keys", "{ name = 'a', key = '', scopes = ['all'] }"),
    ("webhook", "{ url = 'http://a', events = ['session.closed'], secret = '' }"),
    ("namespace", "{ prefix = 'a' }"),
];

/// Settings that the secrets need.
const CONTEXT: [&str; 4] =
    ["engine.kind=redis", "engine.url=redis://a", "engine.master=main", "backend.call=http://a"];

fn with(flags: &[String]) -> Settings {
    Settings { flags: flags.to_vec(), ..Settings::default() }
}

/// Returns whether the types of the settings allow these values.
fn has_right_types(flag: &str) -> bool {
    with(&[flag.to_owned()]).admin_listener().is_ok()
}

/// Returns every key in the default file, with its default.
fn keys() -> impl Iterator<Item = (String, Value)> {
    let sections: Table = default_file().parse().expect("the default file is TOML");
    sections.into_iter().flat_map(|(section, keys)| {
        let Value::Table(keys) = keys else { panic!("{section} is a section") };
        keys.into_iter().map(move |(key, default)| (format!("{section}.{key}"), default))
    })
}

/// Returns every field that a table in this list may have.
fn fields(list: &str) -> Vec<String> {
    let error =
        with(&[format!("{list}=[{{ nonsense = 1 }}]")]).resolve().expect_err("no such field").to_string();
    let (_, fields) = error.split_once("expected one of ").expect("the error names all fields");
    fields.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// Returns flags that set every secret to [`SECRET`].
fn all_secrets() -> Vec<String> {
    let is_secret = |key: &str| !NOT_SECRETS.contains(&key);
    let mut flags: Vec<String> = Vec::new();
    for (key, default) in keys().filter(|(key, _)| is_secret(key)) {
        let flag = match default {
            Value::String(_) => format!("{key}={SECRET}"),
            Value::Array(_) if key == "trace.headers" => format!("{key}=['a: {SECRET}']"),
            Value::Array(_) if TABLES.iter().all(|(list, _)| *list != key) => format!("{key}=['{SECRET}']"),
            _ => continue,
        };
        flags.extend(has_right_types(&flag).then_some(flag));
    }
    for (list, table) in TABLES {
        let mut tables: Table = format!("table = {table}").parse().expect("the table is TOML");
        for field in fields(list).into_iter().filter(|field| is_secret(&format!("{list}.{field}"))) {
            let mut changed = tables.clone();
            changed["table"].as_table_mut().expect("it is a table").insert(field, SECRET.into());
            if has_right_types(&format!("{list}=[{}]", changed["table"])) {
                tables = changed;
            }
        }
        flags.push(format!("{list}=[{}]", tables["table"]));
    }
    flags
}

#[test]
fn debug_output_shows_no_secret() {
    let secrets = all_secrets();
    let occurrences = secrets.iter().filter(|flag| flag.contains(SECRET)).count();
    assert!(occurrences >= 8, "{secrets:?}");
    let mut flags = [CONTEXT.map(str::to_owned).to_vec(), secrets].concat();
    if cfg!(feature = "otlp") {
        flags.push("trace.otlp=http://a".to_owned());
    }
    let shown = format!("{:?}", with(&flags).resolve().expect("these settings are valid"));
    let bytes = format!("{:?}", SECRET.as_bytes());
    assert!(!shown.contains(SECRET) && !shown.contains(bytes.trim_matches(['[', ']'])), "{shown}");
}

#[test]
fn errors_quote_no_value_of_the_wrong_type() {
    let file = tempfile::NamedTempFile::new().expect("a temporary file can be created");
    let lists = TABLES.map(|(list, _)| (list.to_owned(), Value::Array(Vec::new())));
    for (key, default) in keys().chain(lists) {
        let value = if default.is_str() { format!("['{SECRET}']") } else { format!("'{SECRET}'") };
        std::fs::write(file.path(), format!("{key} = {value}")).expect("the file is writable");
        let error = Settings::from_file(file.path()).resolve().expect_err("the type is wrong").to_string();
        assert!(error.contains(&key) && !error.contains(SECRET), "{error}");
    }
}

#[test]
fn flags_that_are_no_assignments_are_cut_after_the_key() {
    for flag in
        ["auth.secret:hunter2", "auth.secret hunter2", "auth.secret:hunter2=", " auth.secret\t\"hunter2="]
    {
        let error = with(&[flag.to_owned()]).resolve().expect_err("not an assignment").to_string();
        assert_eq!(error, "--set auth.secret: expected KEY=VALUE", "{flag}");
    }
}
