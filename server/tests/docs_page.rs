//! Tests the renderer of `/docs`, which is a part of the build script and therefore has no tests of its own.

#[path = "../build/anchors.rs"]
mod anchors;
#[path = "../build/render.rs"]
mod render;
