use proc_macro2::{Delimiter, Ident, TokenStream, TokenTree};
use syn::ext::IdentExt;

use crate::paths::NamedPath;

/// Collects the paths of two or more segments anywhere among the tokens, because macro arguments have no
/// fixed grammar.
pub(crate) fn paths_in(tokens: &TokenStream, found: &mut Vec<NamedPath>) {
    let trees: Vec<TokenTree> = tokens.clone().into_iter().collect();
    let mut at = 0;
    while at < trees.len() {
        match &trees[at] {
            // `value.field` begins no path, but `0..crate::LAST` does.
            TokenTree::Ident(ident) if !is_field(&trees[..at]) => at = path_at(&trees, at, ident, found),
            TokenTree::Group(group) => {
                paths_in(&group.stream(), found);
                at += 1;
            }
            _ => at += 1,
        }
    }
}

/// Collects paths like [`paths_in`], and also those that derive macros accept as text: `default =
/// "crate::limits::max"`.
pub(crate) fn paths_in_attribute(tokens: &TokenStream, found: &mut Vec<NamedPath>) {
    paths_in(tokens, found);
    for tree in tokens.clone() {
        match tree {
            TokenTree::Group(group) => paths_in_attribute(&group.stream(), found),
            TokenTree::Literal(literal) => {
                let line = literal.span().start().line;
                let Ok(text) = syn::parse_str::<syn::LitStr>(&literal.to_string()) else { continue };
                let Ok(tokens) = text.value().parse::<TokenStream>() else { continue };
                let mut inside = Vec::new();
                paths_in(&tokens, &mut inside);
                found.extend(inside.into_iter().map(|path| NamedPath { line, ..path }));
            }
            TokenTree::Ident(_) | TokenTree::Punct(_) => {}
        }
    }
}

/// Reads the path that begins with `first` at position `at`. Returns the position after it.
fn path_at(trees: &[TokenTree], at: usize, first: &Ident, found: &mut Vec<NamedPath>) -> usize {
    let start = NamedPath {
        segments: vec![first.unraw().to_string()],
        from_outside: at >= 2 && is_colons(&trees[at - 2..]),
        line: first.span().start().line,
    };
    follow(trees, at + 1, start, found)
}

fn follow(trees: &[TokenTree], mut at: usize, mut path: NamedPath, found: &mut Vec<NamedPath>) -> usize {
    while is_colons(&trees[at..]) {
        match trees.get(at + 2) {
            Some(TokenTree::Ident(next)) => path.segments.push(next.unraw().to_string()),
            // This is `use crate::{a, b::c}`, in a macro that generates items.
            Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Brace => {
                branches(&group.stream(), &path, found);
                return at + 3;
            }
            // This is `use crate::a::*`, or a generic argument. Count the path so far; the caller reads the
            // rest.
            _ => break,
        }
        at += 3;
    }
    let is_glob = is_colons(&trees[at..])
        && matches!(trees.get(at + 2), Some(TokenTree::Punct(star)) if star.as_char() == '*');
    if path.segments.len() > 1 || is_glob {
        found.push(path);
    }
    at
}

fn branches(tokens: &TokenStream, before: &NamedPath, found: &mut Vec<NamedPath>) {
    let trees: Vec<TokenTree> = tokens.clone().into_iter().collect();
    let is_comma = |tree: &TokenTree| matches!(tree, TokenTree::Punct(punct) if punct.as_char() == ',');
    for branch in trees.split(is_comma) {
        match branch.first() {
            Some(TokenTree::Ident(ident)) if *ident == "self" => found.push(before.clone()),
            Some(TokenTree::Ident(ident)) => {
                let mut path = before.clone();
                path.segments.push(ident.unraw().to_string());
                path.line = ident.span().start().line;
                follow(branch, 1, path, found);
            }
            Some(TokenTree::Punct(_)) => found.push(before.clone()),
            _ => {}
        }
    }
}

fn is_colons(trees: &[TokenTree]) -> bool {
    matches!(trees, [TokenTree::Punct(first), TokenTree::Punct(second), ..]
        if first.as_char() == ':' && second.as_char() == ':')
}

fn is_field(before: &[TokenTree]) -> bool {
    let is_dot = |tree: &TokenTree| matches!(tree, TokenTree::Punct(punct) if punct.as_char() == '.');
    match before {
        [.., before_last, last] => is_dot(last) && !is_dot(before_last),
        [last] => is_dot(last),
        [] => false,
    }
}
