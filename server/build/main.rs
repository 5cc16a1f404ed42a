//! Renders the README as the page that the admin listener serves at `/docs`, and packs the dashboard's files.

mod anchors;
mod render;

use std::path::{Path, PathBuf};
use std::{env, fs};

use render::{RenderedDocument, render};

/// Path from the package, in which build scripts run.
const README: &str = "../README.md";
const DASHBOARD: &str = "dashboard";

#[expect(clippy::print_stdout, reason = "cargo reads the standard output of build scripts")]
fn main() {
    println!("cargo::rerun-if-changed={README}\ncargo::rerun-if-changed={DASHBOARD}");
    if env::var("PROFILE").is_ok_and(|profile| profile == "release") {
        // Compress the line numbers of backtraces, which saves 7 MB.
        println!("cargo::rustc-link-arg-bins=-Wl,--compress-debug-sections=zlib");
    }
    let markdown = fs::read_to_string(README).unwrap_or_else(|error| panic!("{README}: {error}"));
    let folder = env::var_os("OUT_DIR").expect("cargo sets OUT_DIR for build scripts");
    fs::write(Path::new(&folder).join("docs.html"), page(&markdown)).expect("OUT_DIR is writable");
    fs::write(Path::new(&folder).join("dashboard"), dashboard_files()).expect("OUT_DIR is writable");
}

/// Concatenates the dashboard's files: for each, a NUL character, its name, a line break and its content.
/// Excludes subdirectories, which contain pictures for the README.
fn dashboard_files() -> String {
    let entries = fs::read_dir(DASHBOARD).expect("build scripts run in the package's directory");
    let paths = entries.map(|entry| entry.expect("the dashboard is readable").path());
    let mut paths: Vec<_> = paths.filter(|path| path.is_file()).collect();
    paths.sort();
    let file = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().display();
        let content = fs::read_to_string(path).unwrap_or_else(|error| panic!("{name}: {error}"));
        format!("\0{name}\n{content}")
    };
    paths.iter().map(file).collect()
}

fn page(markdown: &str) -> String {
    let RenderedDocument { body, sections } = render(markdown);
    let sections = sections.iter().map(|section| {
        let (id, title) = (&section.id, &section.title);
        format!("          <li><a href=\"#{id}\">{title}</a></li>\n")
    });
    let sections: String = sections.collect();
    format!(
        r##"<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8">
    <meta name="viewport" content="width=device-width, initial-scale=1">
    <meta name="color-scheme" content="light dark">
    <title>Encke documentation</title>
    <link rel="icon" href="/dashboard/icon.svg" type="image/svg+xml">
    <link rel="stylesheet" href="/dashboard/style.css">
    <link rel="stylesheet" href="/dashboard/docs.css">
  </head>
  <body>
    <a class="skip" href="#main">Skip to the content</a>
    <header class="top">
      <a class="brand" href="/"><img src="/dashboard/icon.svg" alt="" width="26" height="26"> Encke</a>
    </header>
    <div class="documents">
      <nav aria-label="Sections">
        <ul>
{sections}        </ul>
      </nav>
      <main id="main" class="prose" tabindex="-1">
{body}      </main>
    </div>
  </body>
</html>
"##
    )
}
