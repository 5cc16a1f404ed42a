//! The order in which suspended sessions are evicted to make room for new ones. The quota owner with the most
//! suspended sessions loses the one that has been suspended longest.

use std::net::IpAddr;

use encke_base::locks::Mutex;
use encke_base::quota::{FairEviction, QuotaOwner};
use encke_core::session::Phase;

use crate::session::id::SessionId;
use crate::session::table::{EvictionPosition, SessionState};

/// All suspended sessions, grouped by user, or by address for anonymous clients.
#[derive(Debug, Default)]
pub(super) struct SuspendedSessions(Mutex<FairEviction<SessionId>>);

impl SuspendedSessions {
    /// Adds a restored session.
    pub(super) fn add(&self, id: SessionId, state: &mut SessionState, owner: QuotaOwner) {
        let number = self.0.lock().insert(&owner, id);
        state.replace_eviction_position(Some(EvictionPosition { owner, number }));
    }

    /// Updates the position after a change of phase. `address` is the address of the connection, if there is
    /// one.
    pub(super) fn phase_changed(&self, id: SessionId, state: &mut SessionState, address: Option<IpAddr>) {
        let is_suspended = matches!(state.machine.phase(), Phase::Suspended | Phase::Moved);
        if !is_suspended {
            self.remove(state);
        } else if let (Some(address), None) = (address, state.eviction_position()) {
            let owner = QuotaOwner::new(state.identity.shared_user(), address);
            let number = self.0.lock().insert(&owner, id);
            state.replace_eviction_position(Some(EvictionPosition { owner, number }));
        }
    }

    /// Removes a session.
    pub(super) fn remove(&self, state: &mut SessionState) {
        if let Some(position) = state.replace_eviction_position(None) {
            self.0.lock().remove(&position.owner, position.number);
        }
    }

    /// Removes the session to be ended first when room is needed, and returns its id.
    pub(super) fn evict(&self) -> Option<SessionId> {
        self.0.lock().evict()
    }
}
