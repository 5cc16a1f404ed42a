//! Delivers lifecycle events to hooks and webhooks.

mod hooks;
mod sinks;
mod webhook;

pub(crate) use hooks::HookSink;
pub use hooks::{Hooks, NoHooks};
pub(crate) use sinks::Sinks;
pub(crate) use webhook::{EventName, LANES as WEBHOOK_LANES, WebhookSettings, Webhooks};
