//! Tests the renderer of `/docs`, which is a part of the build script and therefore has no tests of its own, and the
//! links and the size of all documents.

#[path = "../build/anchors.rs"]
mod anchors;
#[path = "../build/documents.rs"]
mod documents;
#[path = "../build/render.rs"]
mod render;

use std::fs;
use std::path::{Path, PathBuf};

use pulldown_cmark::{Event, Options, Parser, Tag};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// Adds the Markdown files in a folder and its subfolders.
fn find_documents(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("the folder is readable").map(|entry| entry.expect("readable")) {
        let (path, name) = (entry.path(), entry.file_name());
        if path.is_dir() && name != "target" && name != "node_modules" && name != ".git" {
            find_documents(&path, found);
        } else if path.extension().is_some_and(|it| it == "md") {
            found.push(path);
        }
    }
}

/// Returns what is wrong with a link in this document, if anything.
fn problem(document: &Path, text: &str, url: &str) -> Option<String> {
    if url.contains("://") || url.starts_with("mailto:") {
        return None;
    }
    let (path, anchor) = url.split_once('#').map_or((url, None), |(path, anchor)| (path, Some(anchor)));
    let target = if path.is_empty() { document.to_owned() } else { document.parent()?.join(path) };
    if !target.exists() {
        return Some("there is no such file".to_owned());
    }
    let anchor = anchor?;
    let text = if path.is_empty() { text.to_owned() } else { fs::read_to_string(&target).ok()? };
    let has_anchor = render::heading_anchors(&text).iter().any(|it| it == anchor);
    (!has_anchor).then(|| "there is no such heading".to_owned())
}

#[test]
fn every_link_resolves() {
    let mut documents = Vec::new();
    find_documents(Path::new(ROOT), &mut documents);
    assert!(documents.len() > 40, "{}", documents.len());
    let mut problems = Vec::new();
    for document in documents {
        let text = fs::read_to_string(&document).expect("the document is readable");
        for event in Parser::new_ext(&text, Options::ENABLE_TABLES) {
            let (Event::Start(Tag::Link { dest_url: url, .. })
            | Event::Start(Tag::Image { dest_url: url, .. })) = event
            else {
                continue;
            };
            if let Some(problem) = problem(&document, &text, &url) {
                problems.push(format!("{}: {url}: {problem}", document.display()));
            }
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn every_document_has_a_title() {
    let pages = documents::Documents::read(&Path::new(ROOT).join("server/docs")).pages();
    assert!(pages.len() > 30, "{}", pages.len());
    for (name, page) in pages {
        assert!(!page.contains("<title> - Encke</title>") && page.contains("<h1 id="), "{name}");
    }
}

/// Returns the cells of the rows of all tables in a part of a document, without the heads.
fn rows(text: &str) -> impl Iterator<Item = Vec<&str>> {
    let lines = text.lines().filter(|line| line.starts_with('|') && !line.starts_with("|---"));
    let rows = lines.map(|line| line.trim_matches('|').split(" | ").map(str::trim).collect::<Vec<_>>());
    rows.skip(1)
}

/// Returns the part of a document below a heading.
fn section<'a>(text: &'a str, title: &str) -> &'a str {
    let start = text.find(&format!("\n## {title}\n")).unwrap_or_else(|| panic!("no section {title}"));
    let rest = &text[start + 1..];
    rest.find("\n## ").map_or(rest, |end| &rest[..end])
}

/// Whether `command` consists of words of `whole`, in the same order.
fn is_part_of(command: &str, whole: &str) -> bool {
    let mut words = whole.split_whitespace().map(|word| word.trim_start_matches("target/release/"));
    command.split_whitespace().all(|word| words.any(|it| it == word))
}

#[test]
fn every_figure_names_its_command() {
    let root = Path::new(ROOT);
    let benchmarks = fs::read_to_string(root.join("server/docs/evidence/benchmarks.md")).expect("readable");
    let commands: Vec<_> = benchmarks.lines().filter(|line| line.starts_with("target/release/")).collect();
    let mut count = 0;
    for row in rows(&benchmarks) {
        let number = format!("# {}", row.last().expect("a row has cells"));
        assert!(benchmarks.lines().any(|line| line.ends_with(&number)), "no command {number}: {row:?}");
        count += 1;
    }
    assert!(count > 5, "{count}");

    let readme = fs::read_to_string(root.join("README.md")).expect("readable");
    for row in rows(section(&readme, "Five figures")) {
        let command = row.last().expect("a row has cells").trim_matches('`');
        assert!(commands.iter().any(|whole| is_part_of(command, whole)), "not in the benchmarks: {row:?}");
    }

    let mut documents = Vec::new();
    find_documents(&root.join("server/docs"), &mut documents);
    for document in documents {
        let text = fs::read_to_string(&document).expect("the document is readable");
        for part in text.split("\n## ").flat_map(|part| part.split("\n### ")) {
            let is_measured = part.starts_with("Measured");
            assert!(!is_measured || part.contains("```sh"), "{}: {part}", document.display());
        }
    }
}

#[test]
fn overviews_are_short() {
    for (name, max_lines) in [("README.md", 250), ("ARCHITECTURE.md", 500)] {
        let text = fs::read_to_string(Path::new(ROOT).join(name)).expect("the document is readable");
        assert!(text.lines().count() <= max_lines, "{name}: {} lines", text.lines().count());
        let long: Vec<_> = text.lines().filter(|line| line.chars().count() > 160).collect();
        assert!(long.is_empty() || name != "README.md", "{name}: {long:#?}");
    }
}
