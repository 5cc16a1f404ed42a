use std::collections::BTreeSet;

use crate::modules::{ModuleId, Modules};
use crate::paths::NamedPath;

/// Finds the modules from which a path imports.
///
/// These are the module that defines the last name, and each module whose imports pass the name on: a module
/// that uses an item through another module's re-export depends on that module, too. Modules that a path only
/// passes through (`a` in `crate::a::b::C`) do not count, and neither does a re-export by the crate's root,
/// which is the crate's public interface.
#[derive(Debug)]
pub(crate) struct Resolver<'a> {
    modules: &'a Modules,
    /// Name of the crate in paths of other crates.
    name: &'a str,
    /// For each module, the modules whose contents its globs bring in.
    globs: Vec<BTreeSet<ModuleId>>,
}

/// State of following one path.
#[derive(Debug)]
struct PathWalk<'a> {
    resolver: &'a Resolver<'a>,
    /// Names looked up so far, by module. Ensures that circular imports terminate.
    followed: BTreeSet<(ModuleId, Vec<String>)>,
    /// Imports that are currently being followed. `use run::run` may look like an import that begins with
    /// itself.
    within: Vec<(ModuleId, &'a NamedPath)>,
    imported: BTreeSet<ModuleId>,
    /// Modules named by the whole path.
    ends: BTreeSet<ModuleId>,
}

impl<'a> Resolver<'a> {
    pub(crate) fn new(modules: &'a Modules, name: &'a str) -> Self {
        let mut resolver = Self { modules, name, globs: vec![BTreeSet::new(); modules.all.len()] };
        // Repeat until no new module is found, because a glob may begin in a module that another glob brings
        // in.
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

    /// Returns the modules from which `path`, written in `module`, imports.
    pub(crate) fn imported(&self, module: ModuleId, path: &NamedPath) -> BTreeSet<ModuleId> {
        self.follow(module, path).imported
    }

    fn follow(&self, module: ModuleId, path: &NamedPath) -> PathWalk<'_> {
        let (followed, imported, ends) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        let mut walk = PathWalk { resolver: self, followed, within: Vec::new(), imported, ends };
        walk.resolve(module, path, &[]);
        walk
    }

    /// Returns whether `name` refers to an item of this crate in `module`.
    fn has(&self, module: ModuleId, name: &str, visited: &mut BTreeSet<ModuleId>) -> bool {
        let here = &self.modules.all[module];
        here.children.contains_key(name)
            || here.names.contains_key(name)
            || here.items.contains(name)
            || (visited.insert(module)
                && self.globs[module].iter().any(|target| self.has(*target, name, visited)))
    }
}

impl PathWalk<'_> {
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
        // Any other path refers to another crate.
    }

    /// Looks up the first of `segments` in `module`, and the others in the module to which it refers.
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
        // Follow all of them, because a module, a function and a macro can have the same name.
        if let Some(child) = here.children.get(first) {
            self.walk(*child, rest);
        }
        for path in here.names.get(first).into_iter().flatten() {
            if !self.within.contains(&(module, path)) {
                self.within.push((module, path));
                self.add_reexporter(module);
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
            // The name is generated by a macro, or imported by a glob from another crate.
            self.imported.insert(module);
        }
        for target in targets {
            self.add_reexporter(module);
            self.walk(target, segments);
        }
    }

    fn add_reexporter(&mut self, module: ModuleId) {
        if self.resolver.modules.all[module].parent.is_some() {
            self.imported.insert(module);
        }
    }
}
