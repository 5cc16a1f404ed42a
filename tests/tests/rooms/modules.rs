use std::collections::{BTreeMap, BTreeSet};

use syn::Item;
use syn::ext::IdentExt;

use crate::paths::{Contents, Import, NamedPath, only_for_tests};
use crate::source::Source;

pub(crate) type ModuleId = usize;

#[derive(Debug)]
pub(crate) struct Module {
    pub(crate) file: String,
    pub(crate) parent: Option<ModuleId>,
    /// Declared under `cfg(test)`, or within something that is.
    pub(crate) only_for_tests: bool,
    pub(crate) children: BTreeMap<String, ModuleId>,
    /// Names that imports bring in. Functions may import for themselves, so one name may stand for several paths.
    pub(crate) names: BTreeMap<String, Vec<NamedPath>>,
    pub(crate) globs: Vec<NamedPath>,
    pub(crate) items: BTreeSet<String>,
    pub(crate) paths: Vec<NamedPath>,
}

/// The modules of a crate's library and of its binary, as `mod` declares them.
#[derive(Debug, Default)]
pub(crate) struct Modules {
    pub(crate) all: Vec<Module>,
    /// `lib.rs`, where there is one.
    pub(crate) library: Option<ModuleId>,
}

/// A module to be read, and where modules that it declares have their files.
struct Place<'a> {
    file: &'a str,
    folder: String,
    parent: Option<ModuleId>,
    only_for_tests: bool,
}

impl Modules {
    pub(crate) fn of(source: &Source) -> Self {
        let mut modules = Self::default();
        for root in ["lib.rs", "main.rs"] {
            let Some(text) = source.text(root) else { continue };
            let place = Place { file: root, folder: String::new(), parent: None, only_for_tests: false };
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

    fn read_file(&mut self, source: &Source, place: &Place<'_>, text: &str) -> ModuleId {
        let file = syn::parse_file(text).unwrap_or_else(|error| {
            panic!("{}:{}: {error}", place.file, error.span().start().line);
        });
        let only_for_tests = place.only_for_tests || file.attrs.iter().any(only_for_tests);
        let place = Place { folder: place.folder.clone(), only_for_tests, ..*place };
        self.read_items(source, &place, &file.items)
    }

    fn read_items(&mut self, source: &Source, place: &Place<'_>, items: &[Item]) -> ModuleId {
        let contents = Contents::of(items);
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
        source: &Source,
        place: &Place<'_>,
        id: ModuleId,
        module: &syn::ItemMod,
    ) -> ModuleId {
        let name = module.ident.unraw().to_string();
        let is_elsewhere = module.attrs.iter().any(|attribute| attribute.path().is_ident("path"));
        assert!(!is_elsewhere, "{}: the order of rooms follows no #[path] (mod {name})", place.file);
        let only_for_tests = place.only_for_tests || module.attrs.iter().any(only_for_tests);
        let folder = format!("{}{name}/", place.folder);
        if let Some((_, items)) = &module.content {
            let place = Place { file: place.file, folder, parent: Some(id), only_for_tests };
            return self.read_items(source, &place, items);
        }
        let candidates = [format!("{}{name}.rs", place.folder), format!("{folder}mod.rs")];
        let (file, text) = candidates
            .iter()
            .find_map(|file| Some((file, source.text(file)?)))
            .unwrap_or_else(|| panic!("{}: mod {name} has no file: {}", place.file, candidates.join(", ")));
        self.read_file(source, &Place { file, folder, parent: Some(id), only_for_tests }, text)
    }
}
