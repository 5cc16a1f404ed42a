//! Tests that links in the documents lead to existing files of the repository and to existing headings in
//! them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use regex::Regex;

/// Headings and links of a Markdown document.
#[derive(Default)]
struct Document {
    /// Anchors of the headings, as GitHub derives them.
    anchors: BTreeSet<String>,
    links: Vec<String>,
}

impl Document {
    fn read(text: &str) -> Self {
        let link = Regex::new(r"\]\(([^)\s]+)\)").expect("the pattern is valid");
        let mut document = Self::default();
        // Every other part is a code block.
        for line in text.split("```").step_by(2).flat_map(str::lines) {
            if line.starts_with('#') {
                let anchor = anchor(line.trim_start_matches('#').trim());
                let others = (1..).map(|number| format!("{anchor}-{number}"));
                let mut names = std::iter::once(anchor.clone()).chain(others);
                let new = names.find(|name| !document.anchors.contains(name));
                document.anchors.extend(new);
            }
            document.links.extend(link.captures_iter(line).map(|found| found[1].to_owned()));
        }
        document
    }
}

fn anchor(title: &str) -> String {
    let kept = title.to_lowercase();
    let kept = kept.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().expect("the repository exists")
}

/// Returns all Markdown documents of the repository, except those in directories that Git ignores, such as
/// dependencies.
fn documents() -> BTreeMap<PathBuf, Document> {
    let listed = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard", "*.md"])
        .current_dir(root())
        .output()
        .expect("git is installed");
    let names = String::from_utf8(listed.stdout).expect("names are UTF-8");
    let paths = names.lines().map(|name| root().join(name)).filter(|path| path.is_file());
    paths.map(|path| (path.clone(), Document::read(&fs::read_to_string(path).expect("a document")))).collect()
}

/// Describes the problem with a link, if there is one.
fn problem(link: &str, from: &Path, documents: &BTreeMap<PathBuf, Document>) -> Option<String> {
    if link.contains("://") {
        return None;
    }
    let (path, anchor) = link.split_once('#').map_or((link, None), |(path, anchor)| (path, Some(anchor)));
    let target = if path.is_empty() {
        from.to_owned()
    } else {
        let joined = from.parent().expect("a document is in a folder").join(path);
        match joined.canonicalize() {
            Ok(target) => target,
            Err(_) => return Some(format!("there is no {}", joined.display())),
        }
    };
    let anchor = anchor?;
    let exists = documents.get(&target).is_some_and(|document| document.anchors.contains(anchor));
    (!exists).then(|| format!("{} has no heading #{anchor}", target.display()))
}

#[test]
fn links_resolve() {
    let documents = documents();
    assert!(documents.len() > 8, "{:?}", documents.keys());
    let mut problems = Vec::new();
    let mut checked = 0;
    for (from, document) in &documents {
        for link in &document.links {
            checked += 1;
            problems.extend(problem(link, from, &documents).map(|problem| (from, link, problem)));
        }
    }
    assert!(problems.is_empty(), "{problems:#?}");
    assert!(checked > 100, "{checked}");
}
