//! The npm package, and its module alone.

use encke_tests::{RunningServer, Script};
use serde_json::json;

/// Maximum size of the module as served, compressed.
const MAX_GZIPPED_BYTES: u64 = 7 * 1024 + 512;

/// The package is installed in a new project. TypeScript accepts correct programs that use it and rejects an
/// incorrect one, and a compiled program reaches the server.
#[test]
fn the_package_is_small_and_works_in_a_new_project() {
    let server = RunningServer::with(&[]);
    let script = Script::start("package.mjs", &[&format!("http://{}", server.public)]);
    let size = script.await_value("gzipped", 1);
    println!("server/client/encke.js: {size} bytes, gzipped; {MAX_GZIPPED_BYTES} at most");
    assert!(size.as_u64().is_some_and(|size| size <= MAX_GZIPPED_BYTES), "{size}");
    let files = ["LICENSE-APACHE", "LICENSE-MIT", "README.md", "encke.d.ts", "encke.js", "package.json"];
    assert_eq!(script.await_value("packed", 1), json!(files));
    let package = script.await_value("package", 1);
    assert_eq!((&package["name"], &package["version"]), (&json!("encke"), &json!(env!("CARGO_PKG_VERSION"))));
    assert_eq!(package.get("dependencies"), None);
    assert_eq!(script.await_value("complaints", 1), json!([]));
    assert_eq!(script.await_value("received", 1), json!("hello"));
}

/// The client runs with a fake WebSocket to test rules for which a real server could not be made to act at
/// the right moment.
#[test]
fn client_rules_hold_with_a_fake_websocket() {
    let script = Script::start("client_alone.mjs", &[]);
    let rules = script.await_value("rules", 1).as_u64().expect("a number");
    for nth in 1..=rules {
        script.await_object("holds", usize::try_from(nth).expect("a small number"));
    }
}

#[test]
fn node_exits_when_the_client_is_closed() {
    let server = RunningServer::with(&[]);
    let base = format!("http://{}", server.public);
    for transport in ["websocket", "events", "poll"] {
        let script = Script::start("client_ends.mjs", &[&base, &json!([transport]).to_string()]);
        // The script prints this when nothing keeps node running.
        script.await_object("ends", 1);
        assert!(script.stderr_text().is_empty(), "{}", script.stderr_text());
    }
}
