use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::hidden_imports::hidden_imports;
use crate::modules::Modules;
use crate::order::{RoomOrder, room_of};
use crate::resolve::Resolver;
use crate::source::CrateSource;

/// A violation of the order of modules.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum RoomViolation {
    Import {
        file: String,
        line: usize,
        room: String,
        imported: String,
        is_above: bool,
    },
    /// A construct that may import another module and that this check cannot follow.
    Hidden {
        file: String,
        line: usize,
        way: &'static str,
    },
    /// A file that belongs to no listed module.
    Unlisted {
        file: String,
    },
    /// A file that no `mod` declares.
    Undeclared {
        file: String,
    },
    /// A listed module without files.
    Missing {
        root: String,
        room: String,
    },
}

impl fmt::Display for RoomViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Import { file, line, room, imported, is_above } => {
                let place = if *is_above { "above it" } else { "in its layer" };
                write!(f, "{file}:{line}: module {room} imports {imported}, which is {place}")
            }
            Self::Hidden { file, line, way } => write!(f, "{file}:{line}: {way} may hide an import"),
            Self::Unlisted { file } => write!(f, "{file}: belongs to no listed module"),
            Self::Undeclared { file } => write!(f, "{file}: is not declared by any mod"),
            Self::Missing { root, room } => write!(f, "{root}: the listed module {room} has no files"),
        }
    }
}

/// Returns all violations in a crate, sorted by kind, file and line.
pub(crate) fn violations(order: &RoomOrder, source: &CrateSource) -> Vec<RoomViolation> {
    let rooms = order.rooms();
    let modules = Modules::of(source);
    let mut found = imports(order, &rooms, &modules);
    found.extend(hidden(order, &modules, source));
    found.extend(files(order, &rooms, &modules, source));
    found.into_iter().collect()
}

fn imports(order: &RoomOrder, rooms: &BTreeMap<&str, usize>, modules: &Modules) -> BTreeSet<RoomViolation> {
    let resolver = Resolver::new(modules, &order.name);
    let mut found = BTreeSet::new();
    for (id, module) in modules.all.iter().enumerate().filter(|(_, module)| !module.only_for_tests) {
        let Some(room) = room_of(rooms, &module.file) else { continue };
        for path in &module.paths {
            for target in resolver.imported(id, path) {
                let Some(imported) = room_of(rooms, &modules.all[target].file) else { continue };
                if imported != room && rooms[imported] >= rooms[room] {
                    found.insert(RoomViolation::Import {
                        file: format!("{}/{}", order.root, module.file),
                        line: path.line,
                        room: room.to_owned(),
                        imported: imported.to_owned(),
                        is_above: rooms[imported] > rooms[room],
                    });
                }
            }
        }
    }
    found
}

fn hidden(order: &RoomOrder, modules: &Modules, source: &CrateSource) -> BTreeSet<RoomViolation> {
    let mut found = BTreeSet::new();
    for module in modules.all.iter().filter(|module| !module.only_for_tests) {
        let tokens = source.text(&module.file).and_then(|text| text.parse().ok()).unwrap_or_default();
        let file = format!("{}/{}", order.root, module.file);
        found.extend(hidden_imports(&tokens).into_iter().map(|(line, way)| RoomViolation::Hidden {
            file: file.clone(),
            line,
            way,
        }));
    }
    found
}

/// Compares the list of modules with the files. Files compiled only for tests need no entry in the list.
fn files(
    order: &RoomOrder,
    rooms: &BTreeMap<&str, usize>,
    modules: &Modules,
    source: &CrateSource,
) -> BTreeSet<RoomViolation> {
    let declared: BTreeMap<&str, bool> = modules.all.iter().fold(BTreeMap::new(), |mut declared, module| {
        *declared.entry(module.file.as_str()).or_insert(true) &= module.only_for_tests;
        declared
    });
    let mut found = BTreeSet::new();
    let mut missing: BTreeSet<&str> = rooms.keys().copied().collect();
    for name in source.names() {
        let room = room_of(rooms, name);
        let file = format!("{}/{name}", order.root);
        match declared.get(name) {
            None => drop(found.insert(RoomViolation::Undeclared { file })),
            Some(true) => {}
            Some(false) if room.is_none() => drop(found.insert(RoomViolation::Unlisted { file })),
            Some(false) => {}
        }
        if let Some(room) = room {
            missing.remove(room);
        }
    }
    let root = &order.root;
    found.extend(
        missing.iter().map(|room| RoomViolation::Missing { root: root.clone(), room: (*room).to_owned() }),
    );
    found
}
