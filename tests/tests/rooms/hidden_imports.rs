use proc_macro2::{TokenStream, TokenTree};

/// Finds constructs that may import a module through a path that is not in the source. They are rejected,
/// because they cannot be followed. Returns the line and the kind of each.
pub(crate) fn hidden_imports(tokens: &TokenStream) -> Vec<(usize, &'static str)> {
    let mut found = Vec::new();
    collect(tokens, &mut found);
    found
}

fn collect(tokens: &TokenStream, found: &mut Vec<(usize, &'static str)>) {
    let trees: Vec<TokenTree> = tokens.clone().into_iter().collect();
    for at in 0..trees.len() {
        if let Some(way) = construct_at(&trees[at..]) {
            found.push((trees[at].span().start().line, way));
        }
        if let TokenTree::Group(group) = &trees[at] {
            collect(&group.stream(), found);
        }
    }
}

fn construct_at(trees: &[TokenTree]) -> Option<&'static str> {
    let mut words = trees.iter().map(ToString::to_string);
    let mut next = || words.next().unwrap_or_default();
    match (&*next(), &*next(), &*next(), &*next()) {
        ("extern", "crate", "self", _) => Some("extern crate self"),
        ("include", "!", ..) => Some("include!"),
        ("macro_use", ..) => Some("#[macro_use]"),
        ("crate" | "self" | "super", ":", ":", "$") => Some("a path with a macro variable"),
        _ => None,
    }
}
