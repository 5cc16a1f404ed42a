//! Timing wheels.
