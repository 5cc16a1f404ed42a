use crate::examples::{CELL_IMPORTS_HIGH, cell_with};

/// Each line, alone in `low/cell.rs`, imports the module `high`, which is above it.
#[test]
fn every_way_to_name_a_room_counts() {
    for text in [
        // Imports.
        "use crate::high::High;",
        "use crate::high;",
        "use crate::high as attic;",
        "use crate::high::High as Attic;",
        "use crate::high::High as _;",
        "use crate::high::{self};",
        "use crate::{ground::Ground, high::{High}};",
        "use crate::high::*;",
        "use crate::high::Kind::*;",
        "pub(crate) use crate::high::High;",
        "use house::high::High;",
        "use ::house::high::High;",
        "use super::super::high::High;",
        "use self::super::super::high::High;",
        "use crate::r#high::High;",
        "fn f() { use crate::high::high; }",
        "mod inside { use super::super::super::high::High; }",
        // Expressions, types, patterns, generics.
        "fn f() { crate::high::high() }",
        "fn f() { super::super::high::high() }",
        "fn f(high: crate::high::High) {}",
        "fn f() -> Option<crate::high::High> { None }",
        "type High = dyn Fn(&crate::high::High);",
        "impl From<crate::high::High> for u8 { fn from(_: crate::high::High) -> u8 { 0 } }",
        "fn f(kind: u8) { if let crate::high::Kind::One = kind {} }",
        "struct S<T: crate::high::Trait>(T);",
        "fn f() { <u8 as crate::high::Trait>::f() }",
        "const C: usize = size_of::<crate::high::High>();",
        // Macro calls and definitions, attributes.
        "fn f() { println!(\"{:?}\", crate::high::high()) }",
        "fn f() { vec![vec![super::super::high::High]] }",
        "fn f() { assert!(matches!(1, 0..crate::high::LAST)) }",
        "macro_rules! make { () => { $crate::high::high() } }",
        "items! { use crate::{ground::Ground, high::{High, Kind}}; }",
        "items! { use crate::high::*; }",
        "crate::high::make!();",
        "#[derive(crate::high::Derive)] struct S;",
        "struct S { #[serde(default = \"crate::high::high\")] field: u8 }",
    ] {
        assert_eq!(cell_with(text), [CELL_IMPORTS_HIGH], "{text}");
    }
}

/// Paths that refer to no listed module: names of another crate, local names, words that are not paths, and
/// visibilities.
#[test]
fn other_paths_do_not_count() {
    for text in [
        "use ::high::High;",
        "use high::High;",
        "fn f(high: &[u8]) { high.len(); println!(\"{high:?} crate::high::high\"); }",
        "fn f(s: S) { m!(s.high::<u8>()) }",
        "mod high { pub struct High; } use high::High; use self::high::High as Again;",
        "enum Kind { One } fn f() { Kind::One; }",
        "/// See [`crate::high::High`].\nstruct S;",
        "pub(in crate::low) struct S;",
        "use crate::Low;",
    ] {
        assert!(cell_with(text).is_empty(), "{text}: {:?}", cell_with(text));
    }
}

#[test]
fn re_exports_count_as_imports_from_the_re_exporting_room() {
    use crate::check::violations;
    use crate::order::RoomOrder;
    use crate::source::CrateSource;

    let head = "[[crate]]\nname = \"house\"\nroot = \"house/src\"";
    let order =
        RoomOrder::parse(&format!("{head}\nfloors = [\"ground\", \"low\", \"middle\", \"high\", \"lib\"]"));
    let violations_with = |low: &str, middle: &str, root: &str| -> Vec<String> {
        let source = CrateSource::in_memory(&[
            ("lib.rs", &format!("mod ground; mod low; mod middle; mod high; {root}")),
            ("ground.rs", "pub struct Ground;"),
            ("low.rs", low),
            ("middle.rs", middle),
            ("high.rs", "pub struct High;"),
        ]);
        violations(&order[0], &source)
            .iter()
            .map(|violation| violation.to_string().replace("house/src/", ""))
            .collect()
    };
    let low_imports_middle = "low.rs:1: module low imports middle, which is above it";
    let low_imports_high = "low.rs:1: module low imports high, which is above it";
    let middle_imports_high = "middle.rs:1: module middle imports high, which is above it";

    // An item from a lower module, re-exported by a higher module.
    let found = violations_with("use crate::middle::Ground;", "pub use crate::ground::Ground;", "");
    assert_eq!(found, [low_imports_middle]);
    // The same through a glob, and under another name.
    let found = violations_with("use crate::middle::Ground;", "pub use crate::ground::*;", "");
    assert_eq!(found, [low_imports_middle]);
    let found = violations_with("use crate::middle::G;", "pub use crate::ground::Ground as G;", "");
    assert_eq!(found, [low_imports_middle]);
    // An item from a higher module, re-exported by a module in between.
    let all = [low_imports_high, low_imports_middle, middle_imports_high];
    assert_eq!(violations_with("use crate::middle::High;", "pub use crate::high::High;", ""), all);
    // Re-exports by the root count as imports from the defining room.
    let pass_on = "pub use ground::Ground; pub use high::High;";
    assert!(violations_with("use crate::Ground;", "use crate::Ground;", pass_on).is_empty());
    assert_eq!(violations_with("use crate::High;", "", pass_on), [low_imports_high]);
    assert_eq!(violations_with("use crate::High;", "", "pub use high::*;"), [low_imports_high]);
    // A glob imports the names that its module has imported.
    let inner = "mod inner { use super::*; fn f() { high::High; } } use crate::high;";
    assert_eq!(violations_with(inner, "", "").len(), 1);
}

#[test]
fn circular_imports_terminate() {
    let found = cell_with(
        "use self::a::*; mod a { pub use super::b::*; } mod b { pub use super::a::*; pub use super::*; } fn f() { x::y(); }",
    );
    assert!(found.is_empty());
    let found = cell_with(
        "use run::run; use x::y; use y::x; mod run { pub fn run() {} } fn f() { run::run(); x::y::x(); }",
    );
    assert!(found.is_empty());
    let found = cell_with("use self::x as y; use self::y as x; fn f() { x::f(); y::f(); }");
    assert!(found.is_empty());
}
