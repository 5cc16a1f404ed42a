use std::sync::Arc;

use crate::auth::Auth;
use crate::backend::{Backend, HookKind};
use crate::issuer::Issuer;

/// Parties that decide who a client is and what it may do.
pub(crate) struct Access {
    pub(crate) auth: Arc<Auth>,
    /// The issuer of tokens, if its keys are fetched from a URL.
    pub(crate) issuer: Option<Arc<Issuer>>,
    /// The backend, if any hook is enabled.
    pub(crate) backend: Option<Arc<Backend>>,
}

impl Access {
    /// Returns the backend, if this hook is enabled.
    pub(crate) fn backend_for(&self, hook: HookKind) -> Option<&Arc<Backend>> {
        self.backend.as_ref().filter(|backend| backend.has_hook(hook))
    }

    /// Whether the backend authenticates clients (the `connect` hook).
    pub(crate) fn has_connect_hook(&self) -> bool {
        self.backend_for(HookKind::Connect).is_some()
    }

    /// Whether [`Services::needs_async_auth`](super::Services) can ever be true.
    pub(crate) fn may_need_async_auth(&self) -> bool {
        self.issuer.is_some() || self.has_connect_hook()
    }
}
