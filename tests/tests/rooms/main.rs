//! Tests the layers of each crate: a module imports only modules in lower layers.
//!
//! A module, in the sense of this test, is a file or a directory of a crate. `tests/rooms.toml` lists the
//! modules of each crate from the lowest to the highest. Every path that refers to the crate itself counts:
//! in `use`, in expressions and types, in macros and attributes. Constructs that could hide a path are
//! rejected. Code compiled only for tests may import anything. Because no import goes up, no import cycle
//! spans two of these modules.

// Tests of the check on small crates in memory, with an example of each violation.
mod examples;
// Tests of name resolution, on the same crates.
mod names;

// Finds the violations in a crate.
mod check;
// Constructs that may hide an import.
mod hidden_imports;
// The Rust modules of a crate, and the names that each brings into scope.
mod modules;
// The list of layers.
mod order;
// The paths in a file.
mod paths;
// Resolves a path to the modules that it passes through.
mod resolve;
// The files of a crate.
mod source;
// Paths among the tokens of macro arguments.
mod tokens;

use std::path::Path;

use check::violations;
use order::RoomOrder;
use source::CrateSource;

#[test]
fn no_room_imports_one_above_it() {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut found = Vec::new();
    for order in RoomOrder::read(&repository.join("tests/rooms.toml")) {
        let source = CrateSource::read(&repository.join(&order.root));
        found.extend(violations(&order, &source).iter().map(ToString::to_string));
    }
    assert!(found.is_empty(), "{} violations of tests/rooms.toml:\n{}", found.len(), found.join("\n"));
}
