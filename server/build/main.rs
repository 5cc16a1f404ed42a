//! Renders the documents that the admin listener serves at `/docs`, and packs them and the dashboard's files.

mod anchors;
mod documents;
mod render;

use std::path::{Path, PathBuf};
use std::{env, fs};

use documents::Documents;

/// Paths relative to the package's directory, in which build scripts run.
const DOCUMENTS: &str = "docs";
const DASHBOARD: &str = "dashboard";

#[expect(clippy::print_stdout, reason = "cargo reads the standard output of build scripts")]
fn main() {
    println!("cargo::rerun-if-changed={DOCUMENTS}\ncargo::rerun-if-changed={DASHBOARD}");
    if env::var("PROFILE").is_ok_and(|profile| profile == "release") {
        // Compress the line numbers of backtraces, which saves 7 MB.
        println!("cargo::rustc-link-arg-bins=-Wl,--compress-debug-sections=zlib");
    }
    let folder = env::var_os("OUT_DIR").expect("cargo sets OUT_DIR for build scripts");
    let documents = Documents::read(Path::new(DOCUMENTS)).pages();
    fs::write(Path::new(&folder).join("documents"), packed(documents)).expect("OUT_DIR is writable");
    fs::write(Path::new(&folder).join("dashboard"), packed(dashboard_files())).expect("OUT_DIR is writable");
}

/// Concatenates files: for each, a NUL character, its name, a line break and its content.
fn packed(files: impl IntoIterator<Item = (String, String)>) -> String {
    files.into_iter().map(|(name, content)| format!("\0{name}\n{content}")).collect()
}

/// Returns the dashboard's files. Excludes subdirectories, which contain pictures for the documents.
fn dashboard_files() -> Vec<(String, String)> {
    let entries = fs::read_dir(DASHBOARD).expect("build scripts run in the package's directory");
    let paths = entries.map(|entry| entry.expect("the dashboard is readable").path());
    let mut paths: Vec<_> = paths.filter(|path| path.is_file()).collect();
    paths.sort();
    let file = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().display().to_string();
        let content = fs::read_to_string(path).unwrap_or_else(|error| panic!("{name}: {error}"));
        (name, content)
    };
    paths.iter().map(file).collect()
}
