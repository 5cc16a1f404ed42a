//! Fuzz targets: functions that take bytes, and panic if the server violates an invariant. `README.md` lists
//! them.

mod bayeux;
mod config;
mod expected;
mod frames;
mod headers;
mod http;
mod json;
mod jwt;
mod memory_socket;
mod pages;
mod pieces;
mod proxies;
mod simulation;
mod snapshot;
mod tokens;

/// Checks the server with this input. Panics if an invariant is violated.
pub type Target = fn(&[u8]);

/// All targets, by name.
pub const TARGETS: [(&str, Target); 10] = [
    ("bayeux", bayeux::run),
    ("config", config::run),
    ("frames", frames::run),
    ("headers", headers::run),
    ("http", http::run),
    ("json", json::run),
    ("jwt", jwt::run),
    ("proxies", proxies::run),
    ("snapshot", snapshot::run),
    ("tokens", tokens::run),
];

/// Returns the target with this name.
///
/// # Panics
/// If no target has this name.
#[must_use]
pub fn target(name: &str) -> Target {
    let found = TARGETS.iter().find(|(known, _)| *known == name);
    found.unwrap_or_else(|| panic!("unknown target {name:?}")).1
}
