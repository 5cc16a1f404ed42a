//! Which suspended sessions end first when there is no room for new ones: of the holder with most of them, the one that
//! has been suspended longest.

use std::net::IpAddr;

use encke_core::close::CloseReason;
use encke_core::session::{Input, Phase};
use parking_lot::Mutex;

use super::SessionId;
use super::cell::SessionState;
use super::sessions::Sessions;
use crate::admission::{Holder, Holders};

/// All suspended sessions, by user, or by address where nobody is named.
#[derive(Debug, Default)]
pub(super) struct Suspended(Mutex<Holders<SessionId>>);

/// Where a suspended session stands among them.
#[derive(Debug)]
pub(super) struct PlaceInLine {
    holder: Holder,
    number: u64,
}

impl Suspended {
    /// A session of an earlier process is suspended.
    pub(super) fn add(&self, id: SessionId, state: &mut SessionState, holder: Holder) {
        let number = self.0.lock().add(&holder, id);
        state.suspended = Some(Box::new(PlaceInLine { holder, number }));
    }

    /// The phase of a session has changed. `address` was that of its connection.
    pub(super) fn phase_changed(&self, id: SessionId, state: &mut SessionState, address: Option<IpAddr>) {
        let is_suspended = matches!(state.machine.phase(), Phase::Suspended | Phase::Moved);
        match (address, state.suspended.take()) {
            (Some(address), None) if is_suspended => {
                let holder = Holder::new(state.identity.shared_user(), address);
                let number = self.0.lock().add(&holder, id);
                state.suspended = Some(Box::new(PlaceInLine { holder, number }));
            }
            (_, Some(place)) if !is_suspended => _ = self.0.lock().remove(&place.holder, place.number),
            (_, place) => state.suspended = place,
        }
    }
}

impl PlaceInLine {
    pub(super) fn holder(&self) -> &Holder {
        &self.holder
    }
}

impl Sessions {
    /// Ends a suspended session to make room for another. Returns whether there was one.
    pub(super) fn end_one_suspended(&self) -> bool {
        loop {
            let first = self.suspended.0.lock().take_from_most();
            let Some(id) = first else { return false };
            let Some(session) = self.registry.get(id) else { continue };
            let ends = self.step(&session, |state, step| {
                // Its client may have come back just now.
                let ends = state.machine.phase() == Phase::Suspended;
                if ends {
                    state.machine.handle(step, Input::Close(CloseReason::Limit));
                }
                ends
            });
            if ends {
                return true;
            }
        }
    }
}
