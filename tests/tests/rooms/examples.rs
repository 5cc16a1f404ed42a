use crate::check::violations;
use crate::order::RoomOrder;
use crate::source::CrateSource;

/// Returns the violations in a crate with these files. By default, the crate has three layers of modules
/// without violations; `low` contains a module below it, `low/inner`.
fn crate_with(files: &[(&str, &str)]) -> Vec<String> {
    let order = r#"
        [[crate]]
        name = "house"
        root = "house/src"
        floors = ["ground", "low/inner", "low", ["left", "right"], "high", "lib", "main"]
    "#;
    let mut all = vec![
        (
            "lib.rs",
            "mod ground; pub mod low; mod left; mod right; mod high; pub use low::Low; pub struct Whole;",
        ),
        ("main.rs", "use house::low::Low;"),
        ("ground.rs", "pub struct Ground;"),
        ("low/mod.rs", "mod cell; pub mod inner; pub struct Low; pub use crate::ground::Ground;"),
        ("low/cell.rs", ""),
        ("low/inner.rs", "pub struct Inner;"),
        ("left.rs", "pub struct Left;"),
        ("right.rs", "pub struct Right;"),
        ("high.rs", "pub struct High; pub fn high() {} pub enum Kind { One }"),
    ];
    all.retain(|(name, _)| files.iter().all(|(other, _)| name != other));
    all.extend(files.iter().filter(|(_, text)| *text != "no such file"));
    found(order, &CrateSource::in_memory(&all))
}

fn found(order: &str, source: &CrateSource) -> Vec<String> {
    RoomOrder::parse(order)
        .iter()
        .flat_map(|order| violations(order, source))
        .map(|violation| violation.to_string())
        .collect()
}

/// Returns the violations when `low/cell.rs` contains `text`.
pub(crate) fn cell_with(text: &str) -> Vec<String> {
    crate_with(&[("low/cell.rs", text)])
}

pub(crate) const CELL_IMPORTS_HIGH: &str =
    "house/src/low/cell.rs:1: module low imports high, which is above it";

#[test]
fn a_crate_in_order_has_no_violations() {
    assert!(crate_with(&[]).is_empty());
}

#[test]
fn rooms_may_import_lower_rooms() {
    assert!(
        crate_with(&[("high.rs", "use crate::{ground::Ground, left::Left, low::{Low, inner::Inner}};")])
            .is_empty()
    );
    assert!(cell_with("use super::{Low, inner::Inner}; use crate::ground::Ground;").is_empty());
}

#[test]
fn upward_import_is_reported_with_its_line() {
    let found = cell_with("//! A cell.\n\nuse std::fmt;\nuse crate::high::High;\n");
    assert_eq!(found, ["house/src/low/cell.rs:4: module low imports high, which is above it"]);
}

#[test]
fn each_import_is_reported_once() {
    let found =
        cell_with("use crate::high::{self, High};\nfn f() -> High { crate::high::high(); high::High }");
    let second = "house/src/low/cell.rs:2: module low imports high, which is above it";
    assert_eq!(found, [CELL_IMPORTS_HIGH, second]);
}

#[test]
fn rooms_on_one_floor_may_not_import_each_other() {
    let found =
        crate_with(&[("left.rs", "use crate::right::Right;"), ("right.rs", "use super::left::Left;")]);
    let left = "house/src/left.rs:1: module left imports right, which is in its layer";
    let right = "house/src/right.rs:1: module right imports left, which is in its layer";
    assert_eq!(found, [left, right]);
}

#[test]
fn a_nested_room_has_a_floor_of_its_own() {
    let found = crate_with(&[("low/inner.rs", "use super::Low;")]);
    assert_eq!(found, ["house/src/low/inner.rs:1: module low/inner imports low, which is above it"]);
}

#[test]
fn the_root_is_a_room_too() {
    let found = cell_with("use crate::Whole;");
    assert_eq!(found, ["house/src/low/cell.rs:1: module low imports lib, which is above it"]);
    let found = cell_with("use crate::*;");
    assert_eq!(found, ["house/src/low/cell.rs:1: module low imports lib, which is above it"]);
}

#[test]
fn imports_of_the_library_by_the_binary_are_checked() {
    let floors = r#"floors = ["main", "lib"]"#;
    let order = format!("[[crate]]\nname = \"house\"\nroot = \"house/src\"\n{floors}");
    let source = CrateSource::in_memory(&[("lib.rs", "pub struct Whole;"), ("main.rs", "use house::Whole;")]);
    assert_eq!(found(&order, &source), ["house/src/main.rs:1: module main imports lib, which is above it"]);
}

#[test]
fn test_code_may_import_anything() {
    for text in [
        "#[cfg(test)] use crate::high::High;",
        "#[cfg(test)] mod tests { use crate::high::High; }",
        "#[cfg(all(test, unix))] mod tests { mod deeper { use crate::high::High; } }",
        "struct Cell; impl Cell { #[cfg(test)] fn of(_: crate::high::High) {} }",
        "#![cfg(test)] use crate::high::High;",
    ] {
        assert!(cell_with(text).is_empty(), "{text}");
    }
    let declares = ("low/cell.rs", "#[cfg(test)] mod tests;");
    assert!(crate_with(&[declares, ("low/cell/tests.rs", "use crate::high::High;")]).is_empty());
}

#[test]
fn code_not_only_for_tests_is_checked() {
    for text in ["#[cfg(any(test, unix))] use crate::high::High;", "#[cfg(not(test))] use crate::high::High;"]
    {
        assert_eq!(cell_with(text), [CELL_IMPORTS_HIGH], "{text}");
    }
}

#[test]
fn constructs_that_may_hide_an_import_are_rejected() {
    for (text, way) in [
        ("extern crate self as house;", "extern crate self"),
        ("mod a { include!(\"../high.rs\"); }", "include!"),
        ("#[macro_use] mod a {}", "#[macro_use]"),
        ("macro_rules! up { ($r:ident) => { type Up = crate::$r::High; } }", "a path with a macro variable"),
    ] {
        assert_eq!(cell_with(text), [format!("house/src/low/cell.rs:1: {way} may hide an import")]);
    }
    assert!(cell_with("macro_rules! down { ($r:ident) => { crate::ground::Ground } }").is_empty());
}

#[test]
fn a_file_in_no_room_is_reported() {
    let root = (
        "lib.rs",
        "mod ground; pub mod low; mod left; mod right; mod high; mod attic; #[cfg(test)] mod tests;",
    );
    let files = [root, ("attic/mod.rs", ""), ("tests.rs", ""), ("main.rs", "")];
    assert_eq!(crate_with(&files), ["house/src/attic/mod.rs: belongs to no listed module"]);
}

#[test]
fn an_undeclared_file_is_reported() {
    assert_eq!(crate_with(&[("low/lost.rs", "")]), ["house/src/low/lost.rs: is not declared by any mod"]);
}

#[test]
fn a_room_without_files_is_reported() {
    let root = ("lib.rs", "mod ground; pub mod low; mod left; mod right;");
    let found = crate_with(&[root, ("high.rs", "no such file"), ("main.rs", "")]);
    assert_eq!(found, ["house/src: the listed module high has no files"]);
}

#[test]
fn an_import_cycle_violates_every_order() {
    let files = [("lib.rs", "mod a; mod b; mod c;"), ("a.rs", "use crate::b::B; pub struct A;")];
    let files = [
        &files[..],
        &[("b.rs", "use crate::c::C; pub struct B;"), ("c.rs", "use crate::a::A; pub struct C;")],
    ];
    let source = CrateSource::in_memory(&files.concat());
    for floors in ["abc", "acb", "bac", "bca", "cab", "cba"] {
        let rooms: Vec<String> = floors.chars().map(|room| format!("\"{room}\"")).collect();
        let head = "[[crate]]\nname = \"house\"\nroot = \"house/src\"";
        let found = found(&format!("{head}\nfloors = [{}, \"lib\"]", rooms.join(", ")), &source);
        assert!(!found.is_empty(), "{floors}");
    }
}

#[test]
#[should_panic(expected = "lists the module low twice")]
fn listing_a_room_twice_is_an_error() {
    found(
        "[[crate]]\nname = \"house\"\nroot = \"\"\nfloors = [\"low\", [\"low\"]]",
        &CrateSource::in_memory(&[]),
    );
}
