//! Paths of the programs that the tests run: the file that a variable names, or else the one in the target
//! directory of this test.

use std::path::PathBuf;

pub fn encke() -> PathBuf {
    find("encke", "ENCKE_BIN", "build it first (cargo build -p encke-server)")
}

/// The server with the feature `otlp`.
pub fn encke_with_otlp() -> PathBuf {
    find("encke", "ENCKE_OTLP_BIN", "build it first (cargo build -p encke-server --features otlp)")
}

pub fn loadgen() -> PathBuf {
    find("loadgen", "LOADGEN_BIN", "build it first (cargo build -p encke-loadgen)")
}

/// A Python with the packages of `tests/openapi/requirements.txt`.
pub fn python() -> PathBuf {
    find("../venv/bin/python", "PYTHON_BIN", "run tests/run once")
}

/// A Python with the packages of `tests/faults/clients/requirements.txt`.
pub fn python_with_httpx() -> PathBuf {
    find("../faults-venv/bin/python", "HTTPX_PYTHON_BIN", "run tests/faults/run once")
}

/// A Python with the packages of `tests/bayeux/requirements.txt`.
pub fn python_with_aiocometd() -> PathBuf {
    find("../bayeux-venv/bin/python", "AIOCOMETD_PYTHON_BIN", "run tests/run once")
}

/// Returns the path that `variable` has, or `path` below `target/<profile>`. Tests run from
/// `target/<profile>/deps`.
fn find(path: &str, variable: &str, remedy: &str) -> PathBuf {
    let program = std::env::current_exe().expect("a running test has an executable");
    let folder = program.parent().expect("an executable is in a folder");
    let profile = if folder.ends_with("deps") { folder.parent() } else { Some(folder) };
    let default = profile.expect("tests run from target/<profile>/deps").join(path);
    let path = std::env::var_os(variable).map_or(default, PathBuf::from);
    assert!(path.is_file(), "{} does not exist: {remedy}, or set {variable}", path.display());
    path
}
