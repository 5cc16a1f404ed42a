//! Tests the layers of each crate: a module imports only modules in lower layers.
//!
//! A module, in the sense of this test, is a file or a directory of a crate. `tests/rooms.toml` lists the
//! modules of each crate from the lowest to the highest. Every path that refers to the crate itself counts:
//! in `use`, in expressions and types, in macros and attributes. Constructs that could hide a path are
//! rejected. Code compiled only for tests may import anything. Because no import goes up, no import cycle
//! spans two of these modules.
//!
//! A name that one module re-exports from another counts as an import of the module that re-exports it. Only
//! the re-exports of `lib.rs`, the public interface, count as imports of the module that they name.

// Tests of the check on small crates in memory, with an example of each violation.
mod examples;

// Finds the violations in a crate.
mod check;
// The paths and modules in a file.
mod contents;
// The list of layers.
mod order;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use check::violations;
use order::RoomOrder;

/// Returns the Rust files below `root`: their paths, separated by `/`, and their texts.
fn read_crate(root: &Path) -> BTreeMap<String, String> {
    let mut files = BTreeMap::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
            let path = entry.expect("a readable folder").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let name = path.strip_prefix(root).expect("the file is below the root").to_string_lossy();
                files.insert(name.into_owned(), fs::read_to_string(&path).expect("a readable file"));
            }
        }
    }
    assert!(!files.is_empty(), "{} has no Rust files", root.display());
    files
}

#[test]
fn no_room_imports_one_above_it() {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut found = Vec::new();
    for order in RoomOrder::read(&repository.join("tests/rooms.toml")) {
        found.extend(violations(&order, &read_crate(&repository.join(&order.root))));
    }
    assert!(found.is_empty(), "{} violations of tests/rooms.toml:\n{}", found.len(), found.join("\n"));
}
