//! Interfaces of tests in other crates: not part of the API.

#[cfg(feature = "fuzzing")]
pub mod fuzzing;
#[cfg(feature = "simulation")]
pub mod simulation;
