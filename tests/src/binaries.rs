//! Paths of the binaries under test.

use std::path::PathBuf;

/// Returns the path of the server: `ENCKE_BIN`, or the one built in this test's target directory.
///
/// # Panics
/// Panics if the file does not exist.
#[must_use]
pub fn encke() -> PathBuf {
    find("encke", "ENCKE_BIN", "encke-server")
}

/// Returns the path of the server with the feature `otlp`: `ENCKE_OTLP_BIN`, or the one built in this test's
/// target directory.
///
/// # Panics
/// Panics if the file does not exist.
#[must_use]
pub fn encke_with_otlp() -> PathBuf {
    find("encke", "ENCKE_OTLP_BIN", "encke-server --features otlp")
}

/// Returns the path of the load generator: `LOADGEN_BIN`, or the one built in this test's target directory.
///
/// # Panics
/// Panics if the file does not exist.
#[must_use]
pub fn loadgen() -> PathBuf {
    find("loadgen", "LOADGEN_BIN", "encke-loadgen")
}

/// Returns the path of a Python that has schemathesis: `PYTHON_BIN`, or the virtual environment that
/// `tests/run` creates in the target directory.
///
/// # Panics
/// Panics if the file does not exist.
#[must_use]
pub fn python() -> PathBuf {
    find_python("venv", "PYTHON_BIN", "run tests/run once", "tests/openapi/requirements.txt")
}

/// Returns the path of a Python that has httpx-sse: `HTTPX_PYTHON_BIN`, or the virtual environment that
/// `tests/faults/run` creates in the target directory.
///
/// # Panics
/// Panics if the file does not exist.
#[must_use]
pub fn python_with_httpx() -> PathBuf {
    let requirements = "tests/faults/clients/requirements.txt";
    find_python("faults-venv", "HTTPX_PYTHON_BIN", "run tests/faults/run once", requirements)
}

/// Returns the path of a Python that has aiocometd: `AIOCOMETD_PYTHON_BIN`, or the virtual environment that
/// `tests/run` creates in the target directory.
///
/// # Panics
/// Panics if the file does not exist.
#[must_use]
pub fn python_with_aiocometd() -> PathBuf {
    let requirements = "tests/bayeux/requirements.txt";
    find_python("bayeux-venv", "AIOCOMETD_PYTHON_BIN", "run tests/run once", requirements)
}

fn find_python(environment: &str, variable: &str, remedy: &str, requirements: &str) -> PathBuf {
    let default = || beside_this_test(&format!("../{environment}/bin/python"));
    let path = std::env::var_os(variable).map_or_else(default, PathBuf::from);
    assert!(
        path.is_file(),
        "{} does not exist: {remedy}, or set {variable} to a Python with {requirements}",
        path.display()
    );
    path
}

fn find(name: &str, variable: &str, package: &str) -> PathBuf {
    let path = std::env::var_os(variable).map_or_else(|| beside_this_test(name), PathBuf::from);
    assert!(
        path.is_file(),
        "{} does not exist: build it first (cargo build -p {package}), or set {variable}",
        path.display()
    );
    path
}

/// Returns the path of a binary in `target/<profile>`. Tests run from `target/<profile>/deps`.
fn beside_this_test(name: &str) -> PathBuf {
    let program = std::env::current_exe().expect("a running test has an executable");
    let folder = program.parent().expect("an executable is in a folder");
    let profile = if folder.ends_with("deps") { folder.parent() } else { Some(folder) };
    profile.expect("tests run from target/<profile>/deps").join(name)
}
