use std::collections::{BTreeMap, BTreeSet};

use crate::contents::{FileContents, NamedPath};
use crate::order::{RoomOrder, room_of};

/// A Rust module with a file of its own.
#[derive(Debug)]
struct Module {
    file: String,
    contents: FileContents,
}

/// The modules of a crate by their paths: `a/b` for `crate::a::b`, `lib` for the root.
type Modules = BTreeMap<String, Module>;

/// Returns a description of each violation in a crate with these files.
pub(crate) fn violations(order: &RoomOrder, files: &BTreeMap<String, String>) -> Vec<String> {
    let modules: Modules = files
        .iter()
        .map(|(file, text)| {
            let path = file.trim_end_matches(".rs").trim_end_matches("/mod").to_owned();
            let names: Vec<String> = match &*path {
                "lib" | "main" => Vec::new(),
                path => path.split('/').map(str::to_owned).collect(),
            };
            (path, Module { file: file.clone(), contents: FileContents::read(&names, text) })
        })
        .collect();
    let rooms = order.rooms();
    let mut found = wrong_imports(order, &rooms, &modules);
    found.extend(wrong_files(&rooms, &modules));
    found.iter().map(|(file, what)| format!("{}/{file}{what}", order.root)).collect()
}

/// Whether the file of a module is compiled only for tests. `None` if no `mod` declares it.
fn only_for_tests(modules: &Modules, path: &str) -> Option<bool> {
    if path == "lib" || path == "main" {
        return Some(false);
    }
    let parent =
        path.rsplit_once('/').map(|(parent, _)| parent).filter(|parent| modules.contains_key(*parent));
    let is_declared = |parent: &str| {
        let declared = modules.get(parent).into_iter().flat_map(|parent| &parent.contents.modules);
        declared.filter(|(name, _)| name == path).map(|(_, only_for_tests)| *only_for_tests).min()
    };
    let by_parent = match parent {
        Some(parent) => is_declared(parent)? || only_for_tests(modules, parent)?,
        None => [is_declared("lib"), is_declared("main")].into_iter().flatten().min()?,
    };
    Some(by_parent || modules[path].contents.only_for_tests)
}

/// Returns the file and the description of each violation.
fn wrong_imports(
    order: &RoomOrder,
    rooms: &BTreeMap<&str, usize>,
    modules: &Modules,
) -> BTreeSet<(String, String)> {
    let mut found = BTreeSet::new();
    for (path, module) in modules {
        if only_for_tests(modules, path) != Some(false) {
            continue;
        }
        let contents = &module.contents;
        for (line, way) in &contents.hidden {
            found.insert((module.file.clone(), format!(":{line}: {way} may hide an import")));
        }
        let Some(room) = room_of(rooms, path) else { continue };
        for path in &contents.paths {
            let target = imported(&order.name, modules, path);
            let Some(imported) = target.and_then(|target| room_of(rooms, &target)) else { continue };
            if imported != room && rooms[imported] >= rooms[room] {
                let place = if rooms[imported] > rooms[room] { "above it" } else { "in its layer" };
                let line = path.line;
                found.insert((
                    module.file.clone(),
                    format!(":{line}: module {room} imports {imported}, which is {place}"),
                ));
            }
        }
    }
    found
}

/// Returns the module of this crate that a path imports or imports from.
fn imported(name: &str, modules: &Modules, path: &NamedPath) -> Option<String> {
    let mut at = path.module.clone();
    let mut segments = path.segments.iter();
    let first = segments.next()?;
    match first.as_str() {
        _ if path.from_outside && first != name => return None,
        "crate" => at.clear(),
        "self" => {}
        "super" => _ = at.pop(),
        first if modules.contains_key(&[&at[..], &[first.to_owned()]].concat().join("/")) => {
            at.push(first.to_owned());
        }
        first if first == name => at.clear(),
        // The path refers to another crate, or to a name that was imported.
        _ => return None,
    }
    let rest: Vec<&String> = segments.collect();
    let supers = rest.iter().take_while(|segment| **segment == "super").count();
    at.truncate(at.len().saturating_sub(supers));
    at.extend(rest[supers..].iter().copied().cloned());
    let longest = (1..=at.len()).rev().map(|length| at[..length].join("/"));
    let known = longest.into_iter().find(|path| modules.contains_key(path));
    known.or_else(|| {
        let re_exported = at.first().and_then(|name| re_export(modules, name));
        re_exported.and_then(|path| imported(name, modules, path)).or_else(|| Some("lib".to_owned()))
    })
}

/// Returns the path that `lib.rs` imports under this name.
fn re_export<'a>(modules: &'a Modules, name: &str) -> Option<&'a NamedPath> {
    let is_named = |path: &&NamedPath| {
        let first = path.segments.iter().find(|segment| !["crate", "self"].contains(&segment.as_str()));
        let own = path.alias.as_ref().or_else(|| path.segments.last());
        path.module.is_empty()
            && first.is_some_and(|first| modules.contains_key(first))
            && own.is_some_and(|own| own == name)
    };
    modules.get("lib")?.contents.paths.iter().find(is_named)
}

/// Compares the list of modules with the files. Files compiled only for tests need no entry in the list.
fn wrong_files(rooms: &BTreeMap<&str, usize>, modules: &Modules) -> BTreeSet<(String, String)> {
    let mut found = BTreeSet::new();
    let mut missing: BTreeSet<&str> = rooms.keys().copied().collect();
    for (path, module) in modules {
        let room = room_of(rooms, path);
        room.inspect(|room| _ = missing.remove(room));
        let problem = match only_for_tests(modules, path) {
            None => ": is not declared by any mod",
            Some(false) if room.is_none() => ": belongs to no listed module",
            Some(_) => continue,
        };
        found.insert((module.file.clone(), problem.to_owned()));
    }
    found.extend(
        missing.iter().map(|room| ((*room).to_owned(), ": the listed module has no files".to_owned())),
    );
    found
}
