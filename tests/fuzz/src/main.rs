//! Runs the target that the environment variable `FUZZ_TARGET` names: with libFuzzer in the build made by
//! `tests/fuzz/run`, otherwise on the files in the arguments.

#![cfg_attr(fuzzing, no_main)]

use std::sync::LazyLock;

use encke_fuzz::Target;

static TARGET: LazyLock<Target> =
    LazyLock::new(|| encke_fuzz::target(&std::env::var("FUZZ_TARGET").expect("FUZZ_TARGET names a target")));

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| TARGET(bytes));

#[cfg(not(fuzzing))]
fn main() {
    for file in std::env::args_os().skip(1) {
        TARGET(&std::fs::read(file).expect("the file is readable"));
    }
}
