//! The audit log: one line for each administrative action, with its target, its operator and its outcome.

use std::net::IpAddr;

use hyper::{Request, StatusCode};

use crate::auth::{Operator, Scope};

/// `tracing` target of the audit log, so that filters can select its lines (`log.level =
/// "warn,audit=debug"`).
const TARGET: &str = "audit";

/// An administrative action. Dropping it writes the log line, so an action is recorded even if the client
/// disconnects before the response.
pub(super) struct AuditedAction<'a> {
    pub(super) scope: Scope,
    pub(super) operator: &'a Operator,
    pub(super) from: IpAddr,
    pub(super) head: &'a Request<()>,
    /// Status of the response. `None` if the client disconnected before the response, so that the outcome is
    /// unknown.
    pub(super) status: Option<StatusCode>,
}

impl Drop for AuditedAction<'_> {
    fn drop(&mut self) {
        let Self { scope, operator, from, head, status } = self;
        let (method, path) = (head.method(), head.uri().path());
        let (key, status) = (operator.name(), status.map(|status| status.as_u16()));
        // Log publishes at a lower level, because there may be thousands per second.
        if *scope == Scope::Publish {
            tracing::debug!(target: TARGET, key, address = %from, %method, path, status, "admin action");
        } else {
            tracing::info!(target: TARGET, key, address = %from, %method, path, status, "admin action");
        }
    }
}
