//! The audit log: one line for each administrative action, with its target, its operator and its outcome.

use std::net::IpAddr;

use hyper::{Request, StatusCode};

use crate::auth::{Operator, Scope};

/// Target of the audit lines, so that filters can select them (`log.level = "warn,audit=debug"`).
const TARGET: &str = "audit";

/// An administrative action. Its line is logged on drop, so an action is recorded even if the client
/// disconnects before the response.
pub(super) struct AuditedAction<'a> {
    scope: Scope,
    operator: &'a Operator,
    from: IpAddr,
    head: &'a Request<()>,
    /// `None`: the client disconnected before the response, so the outcome is unknown.
    pub(super) status: Option<StatusCode>,
}

impl<'a> AuditedAction<'a> {
    /// Returns the action that a request performs. `None` if it only reads.
    pub(super) fn of(
        scope: Scope,
        operator: &'a Operator,
        from: IpAddr,
        head: &'a Request<()>,
    ) -> Option<Self> {
        // Created lazily, because even an unused value would log its line when dropped.
        (scope != Scope::Read).then(|| Self { scope, operator, from, head, status: None })
    }
}

impl Drop for AuditedAction<'_> {
    fn drop(&mut self) {
        let Self { scope, operator, from, head, status } = self;
        let (method, path) = (head.method(), head.uri().path());
        let (key, status) = (operator.name(), status.map(|status| status.as_u16()));
        // There may be thousands of publishes per second.
        if *scope == Scope::Publish {
            tracing::debug!(target: TARGET, key, address = %from, %method, path, status, "admin action");
        } else {
            tracing::info!(target: TARGET, key, address = %from, %method, path, status, "admin action");
        }
    }
}
