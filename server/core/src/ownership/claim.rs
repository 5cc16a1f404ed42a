use std::time::Duration;

use super::Term;

/// How long the owner may take to release a session that another node asks for.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(1);

/// How long a node may wait for the reply to a claim.
pub const GRANT_TIMEOUT: Duration = RELEASE_TIMEOUT;

/// How many owners are asked before the client has to try again.
const MAX_OWNERS: u32 = 3;

/// A node's attempt to become the owner of a session whose client has connected to it. `N` is the name of a node.
///
/// If the session has a client on its owner's side, the owner is asked to release it, so that its state is exact.
/// If the owner does not release it in time, its session is taken away.
///
/// A reply that grants the claim counts only if it arrives within [`GRANT_TIMEOUT`] of the request. Otherwise, the
/// outcome is unknown: another node may have asked this one for the session, received no answer, and taken it.
#[derive(Debug)]
pub struct Claim<N> {
    state: ClaimState<N>,
    owners_asked: u32,
}

#[derive(Debug)]
enum ClaimState<N> {
    /// A claim is to be sent. `from`: owner and term from which it may take the session.
    Claiming {
        from: Option<(N, Term)>,
    },
    Asking {
        owner: N,
        term: Term,
        until: Duration,
    },
}

/// Next step of a [`Claim`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimStep<N> {
    /// Send the claim to the directory, and report its [outcome](Claim::finish). With `from`, the claim is also
    /// granted if the session has a client, provided that `from` is still its owner and term.
    Send {
        /// Owner to take the session from, and its term.
        from: Option<(N, Term)>,
    },
    /// Ask `owner` to release the session. Then call [`Claim::released`], or [`Claim::handle_timeout`] at `until`.
    Ask {
        /// Owner of the session.
        owner: N,
        /// When to stop waiting.
        until: Duration,
    },
}

/// Outcome of a claim that was sent to the directory, other than success.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimOutcome<N> {
    /// The session has a client on another node, its owner in this term.
    OwnedBy(N, Term),
    /// There was no reply. The claim may have been granted: it has to be repeated until the outcome is known.
    Unknown,
}

impl<N: Clone> Claim<N> {
    /// Begins a claim.
    #[must_use]
    pub const fn begin() -> Self {
        Self { state: ClaimState::Claiming { from: None }, owners_asked: 0 }
    }

    /// Returns what to do next.
    pub fn step(&self) -> ClaimStep<N> {
        match &self.state {
            ClaimState::Claiming { from } => ClaimStep::Send { from: from.clone() },
            ClaimState::Asking { owner, until, .. } => ClaimStep::Ask { owner: owner.clone(), until: *until },
        }
    }

    /// Reports that a claim was not granted. Returns false if the session changes its owner too often: the client
    /// has to try again later.
    pub fn finish(&mut self, outcome: ClaimOutcome<N>, now: Duration) -> bool {
        match outcome {
            ClaimOutcome::Unknown => true,
            ClaimOutcome::OwnedBy(..) if self.owners_asked == MAX_OWNERS => false,
            ClaimOutcome::OwnedBy(owner, term) => {
                self.owners_asked += 1;
                self.state = ClaimState::Asking { owner, term, until: now + RELEASE_TIMEOUT };
                true
            }
        }
    }

    /// Reports that the owner has released the session, or does not have it. Returns whether the next
    /// [step](Self::step) has changed.
    pub fn released(&mut self) -> bool {
        let ClaimState::Asking { owner, term, .. } = &self.state else { return false };
        self.state = ClaimState::Claiming { from: Some((owner.clone(), *term)) };
        true
    }

    /// Reports the time. If the owner has not answered by now, its session will be taken. Returns whether the
    /// next [step](Self::step) has changed.
    pub fn handle_timeout(&mut self, now: Duration) -> bool {
        matches!(self.state, ClaimState::Asking { until, .. } if until <= now) && self.released()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TERM: Term = Term::first(1);

    #[test]
    fn owner_is_asked_before_its_session_is_taken() {
        let ask = |until| ClaimStep::Ask { owner: 'a', until: Duration::from_secs(until) };
        let take = ClaimStep::Send { from: Some(('a', TERM)) };
        for is_released in [true, false] {
            let mut claim = Claim::begin();
            assert_eq!(claim.step(), ClaimStep::Send { from: None });
            assert!(claim.finish(ClaimOutcome::Unknown, Duration::from_secs(1)));
            assert_eq!(claim.step(), ClaimStep::Send { from: None });
            assert!(claim.finish(ClaimOutcome::OwnedBy('a', TERM), Duration::from_secs(2)));
            assert!(!claim.handle_timeout(Duration::from_millis(2_999)));
            assert_eq!(claim.step(), ask(3));
            assert!(if is_released {
                claim.released()
            } else {
                claim.handle_timeout(Duration::from_secs(3))
            });
            assert_eq!(claim.step(), take);
            assert!(claim.finish(ClaimOutcome::Unknown, Duration::from_secs(4)));
            assert_eq!(claim.step(), take);
        }
    }

    #[test]
    fn claim_is_given_up_if_the_owner_changes_again_and_again() {
        let mut claim = Claim::begin();
        for owner in 0..MAX_OWNERS {
            assert!(claim.finish(ClaimOutcome::OwnedBy(owner, TERM), Duration::ZERO));
            assert!(claim.released());
        }
        assert!(!claim.finish(ClaimOutcome::OwnedBy(9, TERM), Duration::ZERO));
    }
}
