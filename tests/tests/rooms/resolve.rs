use std::collections::BTreeSet;

use crate::modules::{ModuleId, Modules};
use crate::paths::NamedPath;

/// Finds which modules a path imports from.
///
/// That is the module where the last name is defined, and each one on the way whose own imports pass the name on: a room that takes a
/// thing from another room's imports depends on that room too. Modules that a path only passes (`a` in `crate::a::b::C`) do not count,
/// and neither do names that a crate's root passes on: they are what the crate shows to others.
#[derive(Debug)]
pub(crate) struct Resolver<'a> {
    modules: &'a Modules,
    /// The crate as others write it.
    name: &'a str,
    /// For each module, the modules whose contents its globs bring in.
    globs: Vec<BTreeSet<ModuleId>>,
}

/// One path being followed.
#[derive(Debug)]
struct Walk<'a> {
    resolver: &'a Resolver<'a>,
    /// What was looked up where, so that imports in a circle end.
    followed: BTreeSet<(ModuleId, Vec<String>)>,
    /// The imports that are being followed. `use run::run` may look like one that begins with itself.
    within: Vec<(ModuleId, &'a NamedPath)>,
    imported: BTreeSet<ModuleId>,
    /// Modules that the path itself is the name of.
    ends: BTreeSet<ModuleId>,
}

impl<'a> Resolver<'a> {
    pub(crate) fn new(modules: &'a Modules, name: &'a str) -> Self {
        let mut resolver = Self { modules, name, globs: vec![BTreeSet::new(); modules.all.len()] };
        // What one glob brings in may be where another begins: as often as that finds something new, which ends with all modules found.
        loop {
            let globs = modules.all.iter().enumerate().map(|(id, module)| {
                module.globs.iter().flat_map(|path| resolver.follow(id, path).ends).collect()
            });
            let globs: Vec<BTreeSet<ModuleId>> = globs.collect();
            if globs == resolver.globs {
                return resolver;
            }
            resolver.globs = globs;
        }
    }

    /// The modules that `path`, written in `module`, imports from.
    pub(crate) fn imported(&self, module: ModuleId, path: &NamedPath) -> BTreeSet<ModuleId> {
        self.follow(module, path).imported
    }

    fn follow(&self, module: ModuleId, path: &NamedPath) -> Walk<'_> {
        let (followed, imported, ends) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        let mut walk = Walk { resolver: self, followed, within: Vec::new(), imported, ends };
        walk.resolve(module, path, &[]);
        walk
    }

    /// Whether `name` means something of this crate in `module`.
    fn has(&self, module: ModuleId, name: &str, asked: &mut BTreeSet<ModuleId>) -> bool {
        let here = &self.modules.all[module];
        here.children.contains_key(name)
            || here.names.contains_key(name)
            || here.items.contains(name)
            || (asked.insert(module)
                && self.globs[module].iter().any(|target| self.has(*target, name, asked)))
    }
}

impl Walk<'_> {
    /// Follows `path`, written in `module`, and then `rest`.
    fn resolve(&mut self, module: ModuleId, path: &NamedPath, rest: &[String]) {
        let modules = self.resolver.modules;
        let segments: Vec<String> = path.segments.iter().chain(rest).cloned().collect();
        let mut at = module;
        let mut walked = 0;
        for segment in &segments {
            at = match segment.as_str() {
                "self" => at,
                "crate" => modules.root_of(at),
                "super" => modules.all[at].parent.unwrap_or(at),
                _ => break,
            };
            walked += 1;
        }
        if walked > 0 {
            return self.walk(at, &segments[walked..]);
        }
        let Some(first) = segments.first() else { return };
        if !path.from_outside && self.resolver.has(module, first, &mut BTreeSet::new()) {
            self.walk(module, &segments);
        } else if let (true, Some(library)) = (first == self.resolver.name, modules.library) {
            self.walk(library, &segments[1..]);
        }
        // Anything else is of another crate.
    }

    /// Looks the first of `segments` up in `module`, and the rest in what it finds.
    fn walk(&mut self, module: ModuleId, segments: &[String]) {
        if !self.followed.insert((module, segments.to_vec())) {
            return;
        }
        let Some((first, rest)) = segments.split_first() else {
            self.imported.insert(module);
            self.ends.insert(module);
            return;
        };
        let here = &self.resolver.modules.all[module];
        if here.items.contains(first) {
            self.imported.insert(module);
        }
        // A module, a function and a macro may have one name: all are followed.
        if let Some(child) = here.children.get(first) {
            self.walk(*child, rest);
        }
        for path in here.names.get(first).into_iter().flatten() {
            if !self.within.contains(&(module, path)) {
                self.within.push((module, path));
                self.passed_on_by(module);
                self.resolve(module, path, rest);
                self.within.pop();
            }
        }
        let is_named =
            here.items.contains(first) || here.children.contains_key(first) || here.names.contains_key(first);
        if !is_named {
            self.walk_globs(module, first, segments);
        }
    }

    fn walk_globs(&mut self, module: ModuleId, first: &str, segments: &[String]) {
        let resolver = self.resolver;
        let has = |target: &&ModuleId| resolver.has(**target, first, &mut BTreeSet::new());
        let targets: Vec<ModuleId> = resolver.globs[module].iter().filter(has).copied().collect();
        if targets.is_empty() {
            // Made by a macro, or by a crate's glob.
            self.imported.insert(module);
        }
        for target in targets {
            self.passed_on_by(module);
            self.walk(target, segments);
        }
    }

    fn passed_on_by(&mut self, module: ModuleId) {
        if self.resolver.modules.all[module].parent.is_some() {
            self.imported.insert(module);
        }
    }
}
