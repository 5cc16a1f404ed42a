//! Fuzz targets: functions that take bytes, and panic if the server violates an invariant. `README.md` lists
//! them.

pub mod bayeux;
pub mod config;
mod expected;
pub mod frames;
pub mod headers;
pub mod http;
pub mod json;
pub mod jwt;
mod memory_socket;
mod pages;
mod pieces;
pub mod proxies;
mod rfc6455;
mod simulation;
pub mod snapshot;
pub mod tokens;

#[cfg(test)]
mod corpora;

use std::path::Path;

/// Runs a target on the contents of files.
pub fn run_files(target: fn(&[u8]), files: impl IntoIterator<Item = impl AsRef<Path>>) {
    for file in files {
        let file = file.as_ref();
        let bytes = std::fs::read(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        target(&bytes);
    }
}

/// Defines the `main` function of a target: libFuzzer's under cargo-fuzz, otherwise one that runs the target
/// on the files in its arguments.
#[macro_export]
macro_rules! target {
    ($run:path) => {
        #[cfg(fuzzing)]
        libfuzzer_sys::fuzz_target!(|bytes: &[u8]| $run(bytes));
        #[cfg(not(fuzzing))]
        fn main() {
            $crate::run_files($run, std::env::args_os().skip(1));
        }
    };
}
