//! The targets of the fuzzer: functions of bytes, which panic if the server does what it must not. `README.md` has the list.

pub mod bayeux;
pub mod config;
mod expected;
pub mod frame_walk;
pub mod frames;
pub mod headers;
pub mod http;
pub mod json;
pub mod jwt;
mod pages;
mod pieces;
pub mod proxies;
mod rfc6455;
mod simulated;
pub mod snapshot;
pub mod tokens;
mod wire;

#[cfg(test)]
mod corpora;

use std::path::Path;

/// Runs a target on files, as the binaries do that are not built by cargo-fuzz.
///
/// # Panics
/// If a file cannot be read, or the target panics.
pub fn run_files(target: fn(&[u8]), files: impl IntoIterator<Item = impl AsRef<Path>>) {
    for file in files {
        let file = file.as_ref();
        let bytes = std::fs::read(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        target(&bytes);
    }
}

/// The `main` of a target: libFuzzer's if cargo-fuzz builds it, otherwise one that runs the files that it is given.
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
