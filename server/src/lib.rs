//! Encke.
