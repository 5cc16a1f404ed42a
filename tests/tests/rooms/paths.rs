use proc_macro2::{Span, TokenStream};
use syn::ext::IdentExt;
use syn::visit::{self, Visit};
use syn::{Attribute, ImplItem, Item, Meta, UseTree, Visibility};

use crate::tokens;

/// A path as written in the source, including `crate`, `self` and `super`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct NamedPath {
    pub(crate) segments: Vec<String>,
    /// Whether the path begins with `::`, so that its first segment is a crate.
    pub(crate) from_outside: bool,
    pub(crate) line: usize,
}

/// A name, or all names of a module, brought into scope by a `use`.
#[derive(Clone, Debug)]
pub(crate) enum Import {
    Name(String, NamedPath),
    /// All names in the module at this path.
    Glob(NamedPath),
}

/// Imports, paths and items of one module, without those of its child modules.
#[derive(Default)]
pub(crate) struct ModuleContents {
    pub(crate) imports: Vec<Import>,
    /// All paths, including those of imports.
    pub(crate) paths: Vec<NamedPath>,
    /// Names of the items that the module defines.
    pub(crate) items: Vec<String>,
    pub(crate) modules: Vec<syn::ItemMod>,
}

impl ModuleContents {
    pub(crate) fn of(items: &[Item]) -> Self {
        let mut contents = Self::default();
        for item in items {
            contents.items.extend(name_of(item));
            contents.visit_item(item);
        }
        contents
    }

    fn import(&mut self, tree: &UseTree, before: &NamedPath) {
        let with = |ident: &syn::Ident| {
            let mut path = before.clone();
            path.segments.push(ident.unraw().to_string());
            path.line = ident.span().start().line;
            path
        };
        match tree {
            UseTree::Path(inner) => self.import(&inner.tree, &with(&inner.ident)),
            UseTree::Group(group) => group.items.iter().for_each(|tree| self.import(tree, before)),
            UseTree::Name(name) => self.import_name(with(&name.ident), None),
            UseTree::Rename(rename) => {
                self.import_name(with(&rename.ident), Some(rename.rename.unraw().to_string()));
            }
            UseTree::Glob(glob) => {
                let path = NamedPath { line: glob.star_token.span.start().line, ..before.clone() };
                self.paths.push(path.clone());
                self.imports.push(Import::Glob(path));
            }
        }
    }

    fn import_name(&mut self, mut path: NamedPath, rename: Option<String>) {
        // `a::{self}` imports `a`.
        if path.segments.len() > 1 && path.segments.last().is_some_and(|last| last == "self") {
            path.segments.pop();
        }
        let name = rename.or_else(|| path.segments.last().cloned()).unwrap_or_default();
        self.paths.push(path.clone());
        self.imports.push(Import::Name(name, path));
    }

    fn scan(&mut self, tokens: &TokenStream) {
        tokens::paths_in(tokens, &mut self.paths);
    }
}

impl Visit<'_> for ModuleContents {
    fn visit_item(&mut self, item: &Item) {
        if attributes(item).iter().any(only_for_tests) && !matches!(item, Item::Mod(_)) {
            return;
        }
        visit::visit_item(self, item);
    }

    fn visit_impl_item(&mut self, item: &ImplItem) {
        let attributes = match item {
            ImplItem::Const(item) => item.attrs.as_slice(),
            ImplItem::Fn(item) => &item.attrs,
            ImplItem::Type(item) => &item.attrs,
            ImplItem::Macro(item) => &item.attrs,
            _ => &[],
        };
        if !attributes.iter().any(only_for_tests) {
            visit::visit_impl_item(self, item);
        }
    }

    fn visit_item_mod(&mut self, module: &syn::ItemMod) {
        self.modules.push(module.clone());
    }

    fn visit_item_use(&mut self, item: &syn::ItemUse) {
        let start = NamedPath { segments: Vec::new(), from_outside: item.leading_colon.is_some(), line: 0 };
        self.import(&item.tree, &start);
    }

    fn visit_path(&mut self, path: &syn::Path) {
        let first = path.segments.first().map_or_else(Span::call_site, |first| first.ident.span());
        let segments: Vec<String> =
            path.segments.iter().map(|segment| segment.ident.unraw().to_string()).collect();
        // A single segment is a local variable, or the last segment of an import that was already counted.
        if segments.len() > 1 {
            let from_outside = path.leading_colon.is_some();
            self.paths.push(NamedPath { segments, from_outside, line: first.start().line });
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, item: &syn::Macro) {
        self.visit_path(&item.path);
        self.scan(&item.tokens);
    }

    fn visit_attribute(&mut self, attribute: &Attribute) {
        match &attribute.meta {
            Meta::List(list) => tokens::paths_in_attribute(&list.tokens, &mut self.paths),
            Meta::Path(_) | Meta::NameValue(_) => {}
        }
    }

    // `pub(in crate::room)` only sets the visibility, and imports nothing.
    fn visit_visibility(&mut self, _: &Visibility) {}
}

/// Returns whether this attribute is a `cfg` that holds only in tests.
pub(crate) fn only_for_tests(attribute: &Attribute) -> bool {
    attribute.path().is_ident("cfg")
        && attribute.parse_args::<Meta>().is_ok_and(|condition| implies_test(&condition))
}

fn implies_test(condition: &Meta) -> bool {
    let parts = |list: &syn::MetaList| {
        list.parse_args_with(syn::punctuated::Punctuated::<Meta, syn::Token![,]>::parse_terminated)
            .map(|parts| parts.iter().map(implies_test).collect::<Vec<_>>())
            .unwrap_or_default()
    };
    match condition {
        Meta::Path(path) => path.is_ident("test"),
        Meta::List(list) if list.path.is_ident("all") => parts(list).contains(&true),
        Meta::List(list) if list.path.is_ident("any") => {
            let parts = parts(list);
            !parts.is_empty() && !parts.contains(&false)
        }
        Meta::List(_) | Meta::NameValue(_) => false,
    }
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::ExternCrate(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::ForeignMod(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::TraitAlias(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Union(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

fn name_of(item: &Item) -> Option<String> {
    let ident = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::TraitAlias(item) => &item.ident,
        Item::Type(item) => &item.ident,
        Item::Union(item) => &item.ident,
        Item::Macro(item) => item.ident.as_ref()?,
        _ => return None,
    };
    Some(ident.unraw().to_string())
}
