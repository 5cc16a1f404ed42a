use super::Context;
use crate::session::{Said, SessionCell, Via};

/// A client that speaks to its session: over its connection, or by a request beside it.
#[derive(Clone, Copy)]
pub(crate) struct Speaker<'a> {
    pub(crate) session: &'a SessionCell,
    pub(crate) context: &'a Context,
    pub(crate) via: Via,
}

impl Speaker<'_> {
    /// Tells the session what its machine needs to know. Returns whether it still listens.
    pub(crate) fn say(self, said: Said) -> bool {
        self.context.sessions.said(self.session, self.via, said)
    }
}
