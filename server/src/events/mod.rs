//! Who is told of lifecycle events outside the session room.

mod hooks;

pub(crate) use hooks::HookSink;
pub use hooks::{Hooks, NoHooks};
