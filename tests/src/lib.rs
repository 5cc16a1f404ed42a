//! End-to-end tests of Encke.
