//! Rejects phrases that make comments, messages and documents hard to read. `tests/prose.toml` lists them,
//! each with a replacement.
//!
//! `ENCKE_PROSE=DIR` checks another tree, to see whether a new pattern rejects good sentences.

mod passage;
mod pattern;

use std::fs;
use std::path::{Path, PathBuf};

use passage::passages;
use pattern::Pattern;
use regex::RegexSet;

/// Finds the files below `folder`, except build results, packages and hidden directories.
fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
        let path = entry.expect("a readable folder").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_file() {
            found.push(path);
        } else if path.is_dir() && !name.starts_with('.') && name != "target" && name != "node_modules" {
            files(&path, found);
        }
    }
}

#[test]
fn comments_messages_and_documents_are_plain() {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let list = repository.join("tests/prose.toml");
    let patterns = Pattern::read(&fs::read_to_string(&list).expect("a readable list"));
    // Searching for all patterns at once is faster.
    let any_pattern = RegexSet::new(patterns.iter().map(Pattern::as_str)).expect("the patterns are valid");
    let root = std::env::var_os("ENCKE_PROSE").map_or(repository, PathBuf::from);
    let mut paths = Vec::new();
    files(&root, &mut paths);
    paths.sort();

    let (mut passages_read, mut found) = (0, Vec::new());
    for path in paths.iter().filter(|path| !path.ends_with("tests/prose.toml")) {
        let Ok(text) = fs::read_to_string(path) else { continue };
        for passage in passages(path, &text) {
            passages_read += 1;
            for index in any_pattern.matches(&passage.prose()) {
                let pattern = &patterns[index];
                if let Some(phrase) = pattern.find(&passage) {
                    let place = path.strip_prefix(&root).unwrap_or(path).display();
                    found.push(format!("{place}:{}: \"{phrase}\": {}", passage.line, pattern.instead));
                }
            }
        }
    }
    assert!(passages_read > 0, "{} has no comments", root.display());
    assert!(found.is_empty(), "{} in {passages_read} passages:\n{}", found.len(), found.join("\n"));
}
