//! Delivers lifecycle events to hooks and webhooks.

mod hooks;
mod shared_users;
mod sinks;
mod webhook;

pub(crate) use hooks::HookSink;
pub use hooks::{Hooks, NoHooks};
pub(crate) use shared_users::SharedUserSink;
pub(crate) use sinks::Sinks;
pub use webhook::EventName;
pub(crate) use webhook::{LANES as WEBHOOK_LANES, WebhookSettings, Webhooks};
