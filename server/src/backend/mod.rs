//! Calls to the operator's backend: hook requests that authenticate clients and authorise their actions, and
//! clients' remote procedure calls.
//!
//! A hook is one signed HTTP request with a deadline on the wheel. The number of requests in flight is
//! limited, per session and in total. A circuit breaker stops calling a backend that fails repeatedly. If a
//! call fails, access is denied.

mod bodies;
mod breaker;
mod client;
mod failure;
mod hook;
mod in_flight;
mod malformed;
mod problem_log;
mod settings;

pub(crate) use bodies::{Approval, CallResult, ConnectHookRequest, HookRequest};
pub(crate) use client::Backend;
pub(crate) use hook::{HookCaller, HookError, HookKind};
pub(crate) use settings::BackendSettings;
