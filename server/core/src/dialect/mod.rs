//! Dialects: what the bytes on a connection say. A transport moves them; a dialect gives them meaning.

pub mod json;
