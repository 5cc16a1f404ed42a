//! The order in which suspended sessions are evicted to make room for new ones. The quota owner with the most
//! suspended sessions loses the one that has been suspended longest.

use std::net::IpAddr;

use encke_core::close::CloseReason;
use encke_core::session::{Input, Phase};

use super::SessionId;
use super::cell::SessionState;
use super::sessions::Sessions;
use crate::admission::{FairEviction, QuotaOwner};
use crate::locks::Mutex;

/// All suspended sessions, grouped by user, or by address for anonymous clients.
#[derive(Debug, Default)]
pub(super) struct SuspendedSessions(Mutex<FairEviction<SessionId>>);

/// Position of a suspended session in the order of eviction.
#[derive(Debug)]
pub(super) struct EvictionPosition {
    owner: QuotaOwner,
    number: u64,
}

impl SuspendedSessions {
    /// Adds a restored session.
    pub(super) fn add(&self, id: SessionId, state: &mut SessionState, owner: QuotaOwner) {
        let number = self.0.lock().insert(&owner, id);
        state.eviction_position = Some(Box::new(EvictionPosition { owner, number }));
    }

    /// Updates the position after a change of phase. `address` is the address of the connection, if there is
    /// one.
    pub(super) fn phase_changed(&self, id: SessionId, state: &mut SessionState, address: Option<IpAddr>) {
        let is_suspended = matches!(state.machine.phase(), Phase::Suspended | Phase::Moved);
        match (address, state.eviction_position.take()) {
            (Some(address), None) if is_suspended => {
                let owner = QuotaOwner::new(state.identity.shared_user(), address);
                let number = self.0.lock().insert(&owner, id);
                state.eviction_position = Some(Box::new(EvictionPosition { owner, number }));
            }
            (_, Some(position)) if !is_suspended => {
                _ = self.0.lock().remove(&position.owner, position.number)
            }
            (_, position) => state.eviction_position = position,
        }
    }
}

impl EvictionPosition {
    pub(super) fn owner(&self) -> &QuotaOwner {
        &self.owner
    }
}

impl Sessions {
    /// Evicts a suspended session to make room for another. Returns whether one was evicted.
    pub(super) fn evict_suspended(&self) -> bool {
        loop {
            let first = self.suspended.0.lock().evict();
            let Some(id) = first else { return false };
            let Some(session) = self.registry.get(id) else { continue };
            let has_ended = self.step(&session, |state, step| {
                // The client may have reconnected in the meantime.
                let can_evict = state.machine.phase() == Phase::Suspended;
                if can_evict {
                    state.machine.handle(step, Input::Close(CloseReason::Limit));
                }
                can_evict
            });
            if has_ended.unwrap_or(true) {
                return true;
            }
        }
    }
}
