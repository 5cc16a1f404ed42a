//! Interfaces for tests in other crates. They are not part of the API.

#[cfg(feature = "fuzzing")]
pub mod fuzzing;
#[cfg(feature = "simulation")]
pub mod simulation;
