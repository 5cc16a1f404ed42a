//! Where the binaries under test are.

use std::path::PathBuf;

/// The server: `ENCKE_BIN`, or built beside this test.
///
/// # Panics
/// When it is not there.
#[must_use]
pub fn encke() -> PathBuf {
    find("encke", "ENCKE_BIN", "encke-server")
}

/// The load generator: `LOADGEN_BIN`, or built beside this test.
///
/// # Panics
/// When it is not there.
#[must_use]
pub fn loadgen() -> PathBuf {
    find("loadgen", "LOADGEN_BIN", "encke-loadgen")
}

/// The Python that has schemathesis: `PYTHON_BIN`, or of the environment that `tests/run` makes in the target directory.
///
/// # Panics
/// When it is not there.
#[must_use]
pub fn python() -> PathBuf {
    let ours = || beside_this_test("../venv/bin/python");
    let path = std::env::var_os("PYTHON_BIN").map_or_else(ours, PathBuf::from);
    assert!(
        path.is_file(),
        "{} is not there: run tests/run once, or set PYTHON_BIN to one with tests/openapi/requirements.txt",
        path.display()
    );
    path
}

fn find(name: &str, variable: &str, package: &str) -> PathBuf {
    let path = std::env::var_os(variable).map_or_else(|| beside_this_test(name), PathBuf::from);
    assert!(
        path.is_file(),
        "{} is not there: build it first (cargo build -p {package}), or set {variable}",
        path.display()
    );
    path
}

/// Tests run from `target/<profile>/deps`.
fn beside_this_test(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("a running test has an executable");
    let profile = test.parent().and_then(|deps| deps.parent()).expect("tests run from target/<profile>/deps");
    profile.join(name)
}
