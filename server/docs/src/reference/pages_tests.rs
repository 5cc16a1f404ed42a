//! Tests that the documents contain the reference, and that the reference is complete.

use std::path::Path;

use encke_server::config::{Settings, default_file};

use super::pages;

/// Environment variable that makes the test rewrite the pages.
const REWRITE: &str = "ENCKE_REWRITE";

#[test]
fn documents_contain_the_generated_pages() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("reference");
    for (name, page) in pages() {
        let path = folder.join(name);
        if std::fs::read_to_string(&path).is_ok_and(|found| found == page) {
            continue;
        }
        assert!(
            std::env::var_os(REWRITE).is_some(),
            "server/docs/reference/{name} is out of date: run `{REWRITE}=1 cargo test -p encke-docs`"
        );
        std::fs::write(&path, page).expect("the page can be written");
    }
}

fn page(name: &str) -> String {
    let page = pages().into_iter().find(|(found, _)| *found == name);
    page.expect("there is such a page").1
}

#[test]
fn reference_has_every_section_key() {
    let text = page("configuration.md");
    let defaults: toml::Table = default_file().parse().expect("TOML");
    assert!(defaults.len() > 10, "{defaults:?}");
    for (section, keys) in &defaults {
        for (key, _) in keys.as_table().expect("a section") {
            assert!(text.contains(&format!("`{section}.{key}` = `")), "{section}.{key}");
        }
    }
}

#[test]
fn reference_has_every_list_key() {
    let text = page("configuration.md");
    for list in ["webhook", "namespace"] {
        let settings =
            Settings { flags: vec![format!("{list}=[{{ nonsense = 1 }}]")], ..Settings::default() };
        let errors = settings.resolve().expect_err("there is no such key").to_string();
        let error = errors.lines().next().unwrap_or_default();
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
fn reference_has_codes_and_metrics() {
    let text = pages().map(|(_, page)| page).concat();
    for line in [
        "| 4008 | `moved` | The server process is exiting, and the session continues in the next process; or another server has just taken the session. | reconnects with the resume token, to the [next process](../operations/restarts.md) | suspended in the next process |",
        "| `rate_limited` | The client sends more commands per second than allowed. |",
        "| any other | An error code defined by the backend. |",
        "| 409 | `superseded` | The session has a newer poll or connection. |",
        "| `suspended` | `poll_gap` | The client did not poll again within `session.poll_gap`. |",
        "| `expired` | `reconnect_window` | The client did not reconnect in time. |",
        "| `reminder.due` | A reminder is due. This event is sent only to the webhook that the reminder names. |",
        "| `session_rate` | The address opens sessions too fast. |",
        "| `encke_resumes_total` | counter |  | `outcome`: `new_session`, `recovered` | Attempts to resume a session, by outcome. |",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}");
    }
}
