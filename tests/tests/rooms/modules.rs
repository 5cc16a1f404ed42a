use std::collections::{BTreeMap, BTreeSet};

use syn::Item;
use syn::ext::IdentExt;

use crate::paths::{Import, ModuleContents, NamedPath, only_for_tests};
use crate::source::CrateSource;

pub(crate) type ModuleId = usize;

#[derive(Debug)]
pub(crate) struct Module {
    pub(crate) file: String,
    pub(crate) parent: Option<ModuleId>,
    /// Whether the module or one of its ancestors is declared under `cfg(test)`.
    pub(crate) only_for_tests: bool,
    pub(crate) children: BTreeMap<String, ModuleId>,
    /// Imported names. Each function can have its own imports, so a name may stand for several paths.
    pub(crate) names: BTreeMap<String, Vec<NamedPath>>,
    pub(crate) globs: Vec<NamedPath>,
    pub(crate) items: BTreeSet<String>,
    pub(crate) paths: Vec<NamedPath>,
}

/// The modules of a crate's library and binary, as declared by `mod`.
#[derive(Debug, Default)]
pub(crate) struct Modules {
    pub(crate) all: Vec<Module>,
    /// The module of `lib.rs`, if it exists.
    pub(crate) library: Option<ModuleId>,
}

/// Location of a module to be read, and the directory of its child modules.
struct ModuleLocation<'a> {
    file: &'a str,
    folder: String,
    parent: Option<ModuleId>,
    only_for_tests: bool,
}

impl Modules {
    pub(crate) fn of(source: &CrateSource) -> Self {
        let mut modules = Self::default();
        for root in ["lib.rs", "main.rs"] {
            let Some(text) = source.text(root) else { continue };
            let place =
                ModuleLocation { file: root, folder: String::new(), parent: None, only_for_tests: false };
            let id = modules.read_file(source, &place, text);
            if root == "lib.rs" {
                modules.library = Some(id);
            }
        }
        modules
    }

    pub(crate) fn root_of(&self, mut module: ModuleId) -> ModuleId {
        while let Some(parent) = self.all[module].parent {
            module = parent;
        }
        module
    }

    fn read_file(&mut self, source: &CrateSource, place: &ModuleLocation<'_>, text: &str) -> ModuleId {
        let file = syn::parse_file(text).unwrap_or_else(|error| {
            panic!("{}:{}: {error}", place.file, error.span().start().line);
        });
        let only_for_tests = place.only_for_tests || file.attrs.iter().any(only_for_tests);
        let place = ModuleLocation { folder: place.folder.clone(), only_for_tests, ..*place };
        self.read_items(source, &place, &file.items)
    }

    fn read_items(&mut self, source: &CrateSource, place: &ModuleLocation<'_>, items: &[Item]) -> ModuleId {
        let contents = ModuleContents::of(items);
        let id = self.all.len();
        let mut module = Module {
            file: place.file.to_owned(),
            parent: place.parent,
            only_for_tests: place.only_for_tests,
            children: BTreeMap::new(),
            names: BTreeMap::new(),
            globs: Vec::new(),
            items: contents.items.into_iter().collect(),
            paths: contents.paths,
        };
        for import in contents.imports {
            match import {
                Import::Name(name, path) => module.names.entry(name).or_default().push(path),
                Import::Glob(path) => module.globs.push(path),
            }
        }
        self.all.push(module);
        for declared in contents.modules {
            let child = self.read_child(source, place, id, &declared);
            self.all[id].children.insert(declared.ident.unraw().to_string(), child);
        }
        id
    }

    fn read_child(
        &mut self,
        source: &CrateSource,
        place: &ModuleLocation<'_>,
        id: ModuleId,
        module: &syn::ItemMod,
    ) -> ModuleId {
        let name = module.ident.unraw().to_string();
        let is_elsewhere = module.attrs.iter().any(|attribute| attribute.path().is_ident("path"));
        assert!(!is_elsewhere, "{}: #[path] is not supported (mod {name})", place.file);
        let only_for_tests = place.only_for_tests || module.attrs.iter().any(only_for_tests);
        let folder = format!("{}{name}/", place.folder);
        if let Some((_, items)) = &module.content {
            let place = ModuleLocation { file: place.file, folder, parent: Some(id), only_for_tests };
            return self.read_items(source, &place, items);
        }
        let candidates = [format!("{}{name}.rs", place.folder), format!("{folder}mod.rs")];
        let (file, text) = candidates
            .iter()
            .find_map(|file| Some((file, source.text(file)?)))
            .unwrap_or_else(|| panic!("{}: mod {name} has no file: {}", place.file, candidates.join(", ")));
        self.read_file(source, &ModuleLocation { file, folder, parent: Some(id), only_for_tests }, text)
    }
}
