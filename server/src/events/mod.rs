//! Lifecycle events for code outside the server: hooks.

mod hooks;

pub(crate) use hooks::HookSink;
pub use hooks::{Hooks, NoHooks};
