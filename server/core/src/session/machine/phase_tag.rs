use super::{Phase, Session};
use crate::close::CloseReason;

/// A phase without its connection id. The id is stored separately, because an enum containing it would take
/// another word.
#[derive(Clone, Copy, Debug)]
pub(super) enum PhaseTag {
    Attached,
    BetweenPolls,
    Suspended,
    Moved,
    Closed(CloseReason),
}

impl<C> Session<C> {
    /// Returns the session's phase.
    #[must_use]
    pub fn phase(&self) -> Phase {
        match self.phase_tag {
            PhaseTag::Attached => Phase::Attached(self.connection),
            PhaseTag::BetweenPolls => Phase::BetweenPolls,
            PhaseTag::Suspended => Phase::Suspended,
            PhaseTag::Moved => Phase::Moved,
            PhaseTag::Closed(reason) => Phase::Closed(reason),
        }
    }

    pub(super) fn set_phase(&mut self, phase: Phase) {
        self.phase_tag = match phase {
            Phase::Attached(connection) => {
                self.connection = connection;
                PhaseTag::Attached
            }
            Phase::BetweenPolls => PhaseTag::BetweenPolls,
            Phase::Suspended => PhaseTag::Suspended,
            Phase::Moved => PhaseTag::Moved,
            Phase::Closed(reason) => PhaseTag::Closed(reason),
        };
    }
}
