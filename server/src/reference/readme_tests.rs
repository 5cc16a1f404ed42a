//! The README has the reference, and the reference has all.

use std::path::Path;

use super::reference;
use crate::config::{Settings, default_file};

const BEGIN: &str = "<!-- `encke reference` prints what follows. -->\n\n";
const END: &str = "\n<!-- This was `encke reference`. -->";

/// Set to anything, it has the README rewritten.
const REWRITE: &str = "ENCKE_REWRITE";

#[test]
fn the_readme_has_it() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../README.md");
    let readme = std::fs::read_to_string(&path).expect("a README");
    let (before, rest) = readme.split_once(BEGIN).expect("the README says where the reference begins");
    let (found, after) = rest.split_once(END).expect("and where it ends");
    let expected = reference();
    if of_this_build(found) == expected {
        return;
    }
    assert!(
        std::env::var_os(REWRITE).is_some() && cfg!(feature = "otlp"),
        "README.md, section Reference, is not what `encke reference` prints: run `{REWRITE}=1 cargo test -p encke-server --features otlp reference`"
    );
    std::fs::write(&path, format!("{before}{BEGIN}{expected}{END}{after}"))
        .expect("the README can be written");
}

/// The README is of a build with traces.
fn of_this_build(found: &str) -> String {
    let is_there = |line: &&str| cfg!(feature = "otlp") || !line.contains("`encke_trace_");
    found.split_inclusive('\n').filter(is_there).collect()
}

#[test]
fn every_key_of_the_sections_is_there() {
    let text = reference();
    let defaults: toml::Table = default_file().parse().expect("TOML");
    assert!(defaults.len() > 10, "{defaults:?}");
    for (section, keys) in &defaults {
        for (key, _) in keys.as_table().expect("a section") {
            assert!(text.contains(&format!("`{section}.{key}` = `")), "{section}.{key}");
        }
    }
}

#[test]
fn every_key_of_the_lists_is_there() {
    let text = reference();
    for list in ["webhook", "namespace"] {
        let settings =
            Settings { flags: vec![format!("{list}=[{{ nonsense = 1 }}]")], ..Settings::default() };
        let error = settings.resolve().expect_err("there is no such key").to_string();
        let (_, keys) = error.split_once("expected one of ").expect("the error names all keys");
        let keys: Vec<_> = keys.split('`').skip(1).step_by(2).collect();
        assert!(keys.len() > 6, "{error}");
        let (_, block) = text.split_once(&format!("[[{list}]]\n")).expect("it is explained");
        let block = block.split("```").next().unwrap_or_default();
        for key in keys {
            let is_set = |line: &str| line.trim().starts_with(&format!("{key} = "));
            assert!(block.lines().any(is_set), "{list}.{key}");
        }
    }
}

#[test]
fn it_has_the_codes_and_the_metrics() {
    let text = reference();
    for line in [
        "| 4008 | `moved` | The server process is going away, and the session goes on in the next one. | comes back with the resume token, to the [next process](#restarts) | waits there |",
        "| `rate_limited` | Too many commands a second. |",
        "| any other | A code of the backend's own. |",
        "| 409 | `superseded` | Another poll of the session has come since. |",
        "| `suspended` | `poll_gap` | No poll followed the last within `session.poll_gap`. |",
        "| `expired` | `reconnect_window` | Its client did not come back in time. |",
        "| `reminder.due` | Told to the webhook that the reminder names, and to no other. |",
        "| `session_rate` | One address opens too many sessions. |",
        "| `encke_resumes_total` | counter |  | `outcome`: `new_session`, `recovered` | Resumes asked for, by outcome. |",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}");
    }
}
