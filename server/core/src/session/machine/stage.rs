use super::{Phase, Session};
use crate::close::CloseReason;

/// A phase without its connection, which is beside it: as one, they would take a word more.
#[derive(Clone, Copy, Debug)]
pub(super) enum Stage {
    Attached,
    BetweenPolls,
    Suspended,
    Moved,
    Closed(CloseReason),
}

impl<C> Session<C> {
    /// The session's phase.
    #[must_use]
    pub fn phase(&self) -> Phase {
        match self.stage {
            Stage::Attached => Phase::Attached(self.connection),
            Stage::BetweenPolls => Phase::BetweenPolls,
            Stage::Suspended => Phase::Suspended,
            Stage::Moved => Phase::Moved,
            Stage::Closed(reason) => Phase::Closed(reason),
        }
    }

    pub(super) fn set_phase(&mut self, phase: Phase) {
        self.stage = match phase {
            Phase::Attached(connection) => {
                self.connection = connection;
                Stage::Attached
            }
            Phase::BetweenPolls => Stage::BetweenPolls,
            Phase::Suspended => Stage::Suspended,
            Phase::Moved => Stage::Moved,
            Phase::Closed(reason) => Stage::Closed(reason),
        };
    }
}
