//! A line in the log for each administrative act: what was done to whom, by whom, and whether it was.

use std::net::IpAddr;

use hyper::{Method, Request, StatusCode};

use crate::auth::{Operator, Scope};

/// What the log's lines are about: a filter may want these, and no others (`log.level = "warn,audit=debug"`).
const TARGET: &str = "audit";

/// An act. Its line is written when this is dropped, however the request ends: whoever asks for something and hangs up has asked for it.
pub(super) struct Act {
    by: Option<Box<str>>,
    from: IpAddr,
    method: Method,
    path: Box<str>,
    /// It changes the lives of sessions. Others are as frequent as what is published.
    is_grave: bool,
    /// Nothing: nobody waited for the answer. What it has come to is not known.
    pub(super) status: Option<StatusCode>,
}

impl Act {
    /// What this request asks for; nothing, if it only reads.
    pub(super) fn of(scope: Scope, operator: &Operator, from: IpAddr, head: &Request<()>) -> Option<Self> {
        (scope != Scope::Read).then(|| Self {
            by: operator.name().map(Into::into),
            from,
            method: head.method().clone(),
            path: head.uri().path().into(),
            is_grave: scope != Scope::Publish,
            status: None,
        })
    }
}

impl Drop for Act {
    fn drop(&mut self) {
        let Self { by, from, method, path, is_grave, status } = self;
        let (key, status) = (by.as_deref(), status.map(|status| status.as_u16()));
        if *is_grave {
            tracing::info!(target: TARGET, key, address = %from, %method, path, status, "administered");
        } else {
            tracing::debug!(target: TARGET, key, address = %from, %method, path, status, "administered");
        }
    }
}
