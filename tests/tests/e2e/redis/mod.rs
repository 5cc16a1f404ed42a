//! Redis as the engine of channels.

// What the scripts do, in Rust.
mod model;
// The scripts held against the model.
mod scripts;
