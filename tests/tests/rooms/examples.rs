use std::collections::BTreeMap;

use crate::check::violations;
use crate::order::RoomOrder;

/// Returns the violations in a crate with these files. By default, the crate has three layers of modules
/// without violations; `low` contains a module below it, `low/inner`.
fn crate_with(files: &[(&str, &str)]) -> Vec<String> {
    let order = r#"
        [[crate]]
        name = "house"
        root = "src"
        floors = ["ground", "low/inner", "low", ["left", "right"], "high", "lib", "main"]
    "#;
    let root = "mod ground; pub mod low; mod left; mod right; mod high; pub use low::Low; pub struct Whole; \
                pub use {ground::Ground as Earth, high::High};";
    let mut all = BTreeMap::from([
        ("lib.rs", root),
        ("main.rs", "use house::low::Low;"),
        ("ground.rs", "pub struct Ground;"),
        ("low/mod.rs", "mod cell; pub mod inner; pub struct Low; pub use crate::ground::Ground;"),
        ("low/cell.rs", ""),
        ("low/inner.rs", "pub struct Inner;"),
        ("left.rs", "pub struct Left;"),
        ("right.rs", "pub struct Right;"),
        ("high.rs", "pub struct High; pub fn high() {} pub enum Kind { One }"),
    ]);
    all.extend(files.iter().copied());
    all.retain(|_, text| *text != "no such file");
    let all = all.into_iter().map(|(name, text)| (name.to_owned(), text.to_owned())).collect();
    violations(&RoomOrder::parse(order)[0], &all)
}

/// Returns the violations when `low/cell.rs` contains `text`.
fn cell_with(text: &str) -> Vec<String> {
    crate_with(&[("low/cell.rs", text)])
}

const CELL_IMPORTS_HIGH: &str = "src/low/cell.rs:1: module low imports high, which is above it";

/// Each line, alone in `low/cell.rs`, imports the module `high`, which is above it.
#[test]
fn every_way_to_name_a_room_counts() {
    for text in [
        // Imports.
        "use crate::high::High;",
        "use crate::high;",
        "use crate::high as attic;",
        "use crate::high::High as _;",
        "use crate::high::{self};",
        "use crate::{ground::Ground, high::{High}};",
        "use crate::high::*;",
        "pub(crate) use crate::high::High;",
        "use house::high::High;",
        "use ::house::high::High;",
        "use super::super::high::High;",
        "use self::super::super::high::High;",
        "use crate::r#high::High;",
        "use crate::High;",
        "mod inside { use super::super::super::high::High; }",
        // Expressions, types, patterns, generics.
        "fn f() { crate::high::high() }",
        "fn f() -> Option<crate::high::High> { None }",
        "fn f(kind: u8) { if let crate::high::Kind::One = kind {} }",
        "fn f() { <u8 as crate::high::Trait>::f() }",
        // Macro calls and definitions, attributes.
        "fn f() { vec![vec![super::super::high::High]] }",
        "fn f() { assert!(matches!(1, 0..crate::high::LAST)) }",
        "macro_rules! make { () => { $crate::high::high() } }",
        "items! { use crate::{ground::Ground, high::{High, Kind}}; }",
        "crate::high::make!();",
        "#[derive(crate::high::Derive)] struct S;",
        // Code that is not only for tests.
        "#[cfg(any(test, unix))] use crate::high::High;",
        "#[cfg(not(test))] use crate::high::High;",
        "#[cfg(test)] use std::fmt; use crate::high::High;",
        "struct S { #[cfg(test)] first: u8, second: crate::high::High }",
    ] {
        assert_eq!(cell_with(text), [CELL_IMPORTS_HIGH], "{text}");
    }
}

/// Lower modules, names of another crate, local names, words that are not paths, visibilities, and code
/// compiled only for tests.
#[test]
fn other_paths_do_not_count() {
    for text in [
        "use crate::{Earth, Low, ground::Ground}; use super::{Low, inner::Inner};",
        "use ::high::High;",
        "use high::High;",
        "fn f(high: &[u8]) { high.len(); println!(\"{high:?} crate::high::high\"); }",
        "fn f(s: S) { m!(s.high::<u8>()) }",
        "mod high { pub struct High; } use high::High; use self::high::High as Again;",
        "/// See [`crate::high::High`].\nstruct S;",
        "pub(in crate::high) struct S;",
        "#[cfg(test)] use crate::high::High;",
        "#[cfg(test)] mod tests { use crate::high::High; }",
        "#[cfg(all(test, unix))] mod tests { mod deeper { use crate::high::High; } }",
        "struct Cell; impl Cell { #[cfg(test)] fn of(_: crate::high::High) {} }",
        "#![cfg(test)] use crate::high::High;",
    ] {
        assert_eq!(cell_with(text), [""; 0], "{text}");
    }
    for declares in ["#[cfg(test)] mod tests;", "#[cfg(test)]\npub(crate) mod tests;"] {
        let files = [("low/cell.rs", declares), ("low/cell/tests.rs", "use crate::high::High;")];
        assert_eq!(crate_with(&files), [""; 0]);
    }
}

#[test]
fn violations_are_reported_once_with_their_lines() {
    let root = "src/low/cell.rs:1: module low imports lib, which is above it";
    assert_eq!(cell_with("use crate::Whole;"), [root]);
    assert_eq!(cell_with("use crate::*;"), [root]);
    let found =
        cell_with("use crate::high::{self, High};\nfn f() -> High { crate::high::high(); high::High }");
    assert_eq!(found, [CELL_IMPORTS_HIGH, "src/low/cell.rs:2: module low imports high, which is above it"]);
    let beside = [("left.rs", "use crate::right::Right;"), ("right.rs", "use super::left::Left;")];
    let left = "src/left.rs:1: module left imports right, which is in its layer";
    assert_eq!(
        crate_with(&beside),
        [left, "src/right.rs:1: module right imports left, which is in its layer"]
    );
    let nested = "src/low/inner.rs:1: module low/inner imports low, which is above it";
    assert_eq!(crate_with(&[("low/inner.rs", "use super::Low;")]), [nested]);
}

#[test]
fn constructs_that_may_hide_an_import_are_rejected() {
    for (text, way) in [
        ("extern crate self as house;", "extern crate self"),
        ("mod a { include!(\"../high.rs\"); }", "include!"),
        ("#[macro_use] mod a {}", "#[macro_use]"),
        ("macro_rules! up { ($r:ident) => { type Up = crate::$r::High; } }", "a path with a macro variable"),
    ] {
        assert_eq!(cell_with(text), [format!("src/low/cell.rs:1: {way} may hide an import")]);
    }
    assert_eq!(cell_with("macro_rules! down { ($r:ident) => { crate::ground::Ground } }"), [""; 0]);
}

#[test]
fn the_list_and_the_files_agree() {
    let root = "mod ground; pub mod low; mod left; mod right; mod attic; #[cfg(test)] mod tests;";
    let files = [("lib.rs", root), ("attic/mod.rs", ""), ("tests.rs", ""), ("high.rs", "no such file")];
    let attic = "src/attic/mod.rs: belongs to no listed module";
    assert_eq!(crate_with(&files), [attic, "src/high: the listed module has no files"]);
    assert_eq!(crate_with(&[("low/lost.rs", "")]), ["src/low/lost.rs: is not declared by any mod"]);
}

#[test]
#[should_panic(expected = "lists the module low twice")]
fn listing_a_room_twice_is_an_error() {
    RoomOrder::parse("[[crate]]\nname = \"house\"\nroot = \"\"\nfloors = [\"low\", [\"low\"]]")[0].rooms();
}
