use std::slice;

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};

/// A path as written in the source, including `crate`, `self` and `super`.
#[derive(Clone, Debug)]
pub(crate) struct NamedPath {
    pub(crate) segments: Vec<String>,
    /// Whether the path begins with `::`, so that its first segment is a crate.
    pub(crate) from_outside: bool,
    /// Name after `as`.
    pub(crate) alias: Option<String>,
    pub(crate) line: usize,
    /// Modules, from the crate's root, in which the path is written.
    pub(crate) module: Vec<String>,
}

/// Contents of a file, without code compiled only for tests.
#[derive(Debug, Default)]
pub(crate) struct FileContents {
    /// All paths of two or more segments.
    pub(crate) paths: Vec<NamedPath>,
    /// Modules declared by `mod name;`, and whether they are compiled only for tests.
    pub(crate) modules: Vec<(String, bool)>,
    /// Lines with a construct that may import a module through a path that is not in the source.
    pub(crate) hidden: Vec<(usize, &'static str)>,
    /// Whether the whole file is compiled only for tests.
    pub(crate) only_for_tests: bool,
}

impl FileContents {
    /// Reads the file of a module.
    pub(crate) fn read(module: &[String], text: &str) -> Self {
        let mut contents = Self::default();
        let tokens = text.parse().unwrap_or_else(|error| panic!("{}: {error}", module.join("::")));
        contents.collect(tokens, module);
        contents
    }

    fn collect(&mut self, tokens: TokenStream, module: &[String]) {
        let trees: Vec<TokenTree> = tokens.into_iter().collect();
        let mut at = 0;
        while at < trees.len() {
            at = self.collect_at(&trees, at, module);
        }
    }

    /// Collects what begins at this position. Returns the position after it.
    fn collect_at(&mut self, trees: &[TokenTree], at: usize, module: &[String]) -> usize {
        let rest = &trees[at..];
        if let Some(way) = hidden_import(rest) {
            self.hidden.push((trees[at].span().start().line, way));
        }
        match (&*word(rest, 0), &*word(rest, 1), &*word(rest, 2)) {
            ("#", "!", _) if group(rest, 2).is_some_and(only_for_tests) => {
                self.only_for_tests = true;
                at + 3
            }
            ("#", ..) if group(rest, 1).is_some_and(only_for_tests) => {
                at + 2 + self.skip_item(&rest[2..], module)
            }
            // A visibility such as `pub(in crate::room)` imports nothing.
            ("pub", ..) if group(rest, 1).is_some() => at + 2,
            ("mod", name, ";") => {
                self.modules.push((inside(module, name).join("/"), false));
                at + 3
            }
            ("mod", name, _) if let Some(body) = group(rest, 2) => {
                self.collect(body.stream(), &inside(module, name));
                at + 3
            }
            _ => match &trees[at] {
                // `value.field` begins no path, but `0..crate::LAST` does. A path may begin with `::`.
                TokenTree::Ident(ident) if !is_field(&trees[..at]) && ident != "use" => {
                    let path = NamedPath {
                        segments: vec![without_prefix(&ident.to_string())],
                        from_outside: at >= 2 && is_colons(&trees[at - 2..]),
                        alias: None,
                        line: ident.span().start().line,
                        module: module.to_vec(),
                    };
                    self.follow(trees, at + 1, path)
                }
                TokenTree::Group(group) => {
                    self.collect(group.stream(), module);
                    at + 1
                }
                _ => at + 1,
            },
        }
    }

    /// Returns the length of the item, field or statement at the beginning of `trees`, which is compiled only
    /// for tests.
    fn skip_item(&mut self, trees: &[TokenTree], module: &[String]) -> usize {
        let visibility = usize::from(word(trees, 0) == "pub") + usize::from(group(trees, 1).is_some());
        let item = &trees[visibility..];
        if let ("mod", name, ";") = (&*word(item, 0), &*word(item, 1), &*word(item, 2)) {
            self.modules.push((inside(module, name).join("/"), true));
        }
        let is_field = word(item, 1) == ":" && word(item, 2) != ":";
        let ends = |tree: &TokenTree| match tree {
            TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
            tree => word(slice::from_ref(tree), 0) == if is_field { "," } else { ";" },
        };
        trees.iter().position(ends).map_or(trees.len(), |end| end + 1)
    }

    /// Follows a path of which `path` is the beginning. Returns the position after it.
    fn follow(&mut self, trees: &[TokenTree], mut at: usize, mut path: NamedPath) -> usize {
        while is_colons(&trees[at..]) {
            match trees.get(at + 2) {
                Some(TokenTree::Ident(next)) => path.segments.push(without_prefix(&next.to_string())),
                Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Brace => {
                    self.branches(group, &path);
                    return at + 3;
                }
                // This is `use crate::a::*`, or a generic argument. The caller reads the rest.
                _ => break,
            }
            at += 3;
        }
        let is_glob = is_colons(&trees[at..]) && word(trees, at + 2) == "*";
        if path.segments.len() > 1 || is_glob {
            path.alias = (word(trees, at) == "as").then(|| word(trees, at + 1));
            self.paths.push(path);
        }
        at
    }

    /// Follows the branches of `use crate::{a, b::c}`.
    fn branches(&mut self, group: &Group, before: &NamedPath) {
        let trees: Vec<TokenTree> = group.stream().into_iter().collect();
        for branch in trees.split(|tree| word(slice::from_ref(tree), 0) == ",") {
            match &*word(branch, 0) {
                "" => {}
                "self" | "*" => self.paths.push(before.clone()),
                name => {
                    let mut path = before.clone();
                    path.segments.push(without_prefix(name));
                    path.line = branch[0].span().start().line;
                    self.follow(branch, 1, path);
                }
            }
        }
    }
}

fn hidden_import(trees: &[TokenTree]) -> Option<&'static str> {
    match (&*word(trees, 0), &*word(trees, 1), &*word(trees, 2), &*word(trees, 3)) {
        ("extern", "crate", "self", _) => Some("extern crate self"),
        ("include", "!", ..) => Some("include!"),
        ("macro_use", ..) => Some("#[macro_use]"),
        ("crate" | "self" | "super", ":", ":", "$") => Some("a path with a macro variable"),
        _ => None,
    }
}

/// Returns whether this attribute is a `cfg` that holds only in tests.
fn only_for_tests(attribute: &Group) -> bool {
    let trees: Vec<TokenTree> = attribute.stream().into_iter().collect();
    word(&trees, 0) == "cfg" && group(&trees, 1).is_some_and(|condition| implies_test(condition.stream()))
}

/// Returns whether a condition is `test`, or `all` of `test` and others.
fn implies_test(condition: TokenStream) -> bool {
    let trees: Vec<TokenTree> = condition.into_iter().collect();
    match &*word(&trees, 0) {
        "test" => trees.len() == 1,
        "all" => group(&trees, 1).is_some_and(|parts| {
            let parts: Vec<TokenTree> = parts.stream().into_iter().collect();
            parts
                .split(|tree| word(slice::from_ref(tree), 0) == ",")
                .any(|part| implies_test(part.iter().cloned().collect()))
        }),
        _ => false,
    }
}

/// Returns the identifier or the punctuation at this position, or an empty text if it has neither.
fn word(trees: &[TokenTree], at: usize) -> String {
    match trees.get(at) {
        Some(TokenTree::Ident(ident)) => ident.to_string(),
        Some(TokenTree::Punct(punct)) => punct.as_char().into(),
        Some(TokenTree::Group(_) | TokenTree::Literal(_)) | None => String::new(),
    }
}

fn group(trees: &[TokenTree], at: usize) -> Option<&Group> {
    match trees.get(at) {
        Some(TokenTree::Group(group)) => Some(group),
        _ => None,
    }
}

fn without_prefix(name: &str) -> String {
    name.trim_start_matches("r#").to_owned()
}

fn inside(module: &[String], name: &str) -> Vec<String> {
    [module, &[without_prefix(name)]].concat()
}

fn is_colons(trees: &[TokenTree]) -> bool {
    word(trees, 0) == ":" && word(trees, 1) == ":"
}

fn is_field(before: &[TokenTree]) -> bool {
    let is_dot = |back: usize| before.len() >= back && word(before, before.len() - back) == ".";
    is_dot(1) && !is_dot(2)
}
