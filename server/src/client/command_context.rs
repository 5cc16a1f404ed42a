use super::Services;
use crate::session::{ClientInput, CommandSource, SessionCell};

/// The session and the services that a command uses, and how the command arrived.
#[derive(Clone, Copy)]
pub(crate) struct CommandContext<'a> {
    pub(crate) session: &'a SessionCell,
    pub(crate) services: &'a Services,
    pub(crate) source: CommandSource,
}

impl CommandContext<'_> {
    /// Applies an input to the session. Returns whether the session still accepts input from this source.
    pub(crate) fn apply(self, input: ClientInput) -> bool {
        self.services.sessions.handle_client_input(self.session, self.source, input)
    }
}
