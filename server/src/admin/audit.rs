//! A line in the log for each administrative act: what was done to whom, by whom, and whether it was.

use std::net::IpAddr;

use hyper::{Request, StatusCode};

use crate::auth::{Operator, Scope};

/// What the log's lines are about: a filter may want these, and no others (`log.level = "warn,audit=debug"`).
const TARGET: &str = "audit";

/// An act. Its line is written when this is dropped, however the request ends: whoever asks for something and hangs up has asked for it.
pub(super) struct Act<'a> {
    scope: Scope,
    operator: &'a Operator,
    from: IpAddr,
    head: &'a Request<()>,
    /// Nothing: nobody waited for the answer. What it has come to is not known.
    pub(super) status: Option<StatusCode>,
}

impl<'a> Act<'a> {
    /// What this request asks for; nothing, if it only reads.
    pub(super) fn of(
        scope: Scope,
        operator: &'a Operator,
        from: IpAddr,
        head: &'a Request<()>,
    ) -> Option<Self> {
        // Not made in vain: it would write its line.
        (scope != Scope::Read).then(|| Self { scope, operator, from, head, status: None })
    }
}

impl Drop for Act<'_> {
    fn drop(&mut self) {
        let Self { scope, operator, from, head, status } = self;
        let (method, path) = (head.method(), head.uri().path());
        let (key, status) = (operator.name(), status.map(|status| status.as_u16()));
        // There may be thousands of publishes a second.
        if *scope == Scope::Publish {
            tracing::debug!(target: TARGET, key, address = %from, %method, path, status, "administered");
        } else {
            tracing::info!(target: TARGET, key, address = %from, %method, path, status, "administered");
        }
    }
}
