//! The order of rooms: a room imports only rooms below it.
//!
//! A room is a file or a folder of a crate. `tests/rooms.toml` lists the rooms of each crate from the ground up. Every path that names
//! something of the crate itself counts: in `use`, in expressions and types, in macros and attributes. What could hide one is refused. What is compiled for tests alone
//! may import anything. Since no import goes up, no circle of imports spans two rooms.

// The rules of the order, shown on small crates in memory: what each offence looks like.
mod examples;
// How names lead to files, shown the same way.
mod names;

// Which offences a crate has.
mod check;
// Ways to other rooms that cannot be followed.
mod hidden;
// The modules of a crate, and what each brings into scope.
mod modules;
// The list of rooms.
mod order;
// The paths that a file names.
mod paths;
// From a path to the modules that it leads through.
mod resolve;
// The files of a crate.
mod source;
// The paths in what macros are given.
mod tokens;

use std::path::Path;

use check::offences;
use order::Order;
use source::Source;

#[test]
fn no_room_imports_one_above_it() {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut found = Vec::new();
    for order in Order::read(&repository.join("tests/rooms.toml")) {
        let source = Source::read(&repository.join(&order.root));
        found.extend(offences(&order, &source).iter().map(ToString::to_string));
    }
    assert!(found.is_empty(), "{} offences against tests/rooms.toml:\n{}", found.len(), found.join("\n"));
}
