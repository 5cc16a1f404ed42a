use super::Term;

/// One node's ownership of one session.
///
/// At most one operation is in flight. The owner asks for the [next one](Self::next_operation), sends it with the
/// [term](Self::term) and the session's current state, and [reports](Self::finish) its outcome.
#[derive(Debug)]
pub struct Ownership {
    term: Term,
    phase: OwnerPhase,
    /// Version of the session's state, which increases with every change.
    version: u64,
    /// Version in the directory's record; 0 if there may be no record yet.
    written: u64,
    /// Generation of the directory in which its record was last known to exist.
    exists_in: u64,
    /// Version with which the client's latest connection was recorded.
    attached_at: u64,
    /// Whether the session has a client.
    is_attached: bool,
    /// Whether this node has to write that the session has a client before it serves the client: the record may say
    /// that the session has none, or another node may have taken the session while this one did not respond.
    must_claim: bool,
    must_verify: bool,
    in_flight: Option<Operation>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OwnerPhase {
    Active,
    Releasing,
    Ending,
    Lost(Loss),
}

/// Operation on a session's record. All carry the session's term.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Replaces the state in the record, unless the record has a later version. Creates the record if the node has
    /// opened the session and has never written it.
    Write {
        /// Version of the state.
        version: u64,
        /// Whether the session has a client. If not, other nodes may claim it.
        is_attached: bool,
        /// Whether the record may be created.
        is_first: bool,
    },
    /// Like `Write`, after this node may have been regarded as dead or the directory may have lost operations: also
    /// restores a record that the directory has lost, and claims back a session that another node has adopted from
    /// this term, if it has a client here and none there.
    Verify {
        /// Version of the state.
        version: u64,
        /// Whether the session has a client.
        is_attached: bool,
        /// Generation of the directory in which the record existed; 0 if there may have been none. If the record is
        /// missing in the same generation, the session has ended.
        existed_in: u64,
    },
    /// Gives the session up, with its final state. Any node may then claim or adopt it.
    Release {
        /// Version of the state.
        version: u64,
        /// Whether the record may be created.
        is_first: bool,
    },
    /// Ends the session and emits its last event, unless the record has a later version.
    End {
        /// Version of the state.
        version: u64,
        /// Whether there may be no record.
        is_first: bool,
    },
}

/// Outcome of an [`Operation`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The operation was executed, now or earlier.
    Accepted {
        /// Term of the record.
        term: Term,
        /// Generation of the directory.
        generation: u64,
    },
    /// This node is not the owner any more. The operation had no effect.
    Fenced(Loss),
    /// The directory's data set has changed since this term began, and may have lost operations.
    Unverified,
    /// There was no reply. The operation may have been executed, or may be executed later.
    Unknown,
}

/// Why a node has lost a session. The session must be dropped without any event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// Another node owns it, or may claim it.
    Moved,
    /// It has ended.
    Ended,
}

impl Ownership {
    /// Ownership of a session that this node has opened, for a client.
    #[must_use]
    pub const fn opened(generation: u64) -> Self {
        Self { version: 1, ..Self::new(Term::first(generation), true) }
    }

    /// Ownership of a session that the directory has granted in this generation, with this record.
    #[must_use]
    pub const fn granted(term: Term, version: u64, is_attached: bool, generation: u64) -> Self {
        Self { version, written: version, exists_in: generation, ..Self::new(term, is_attached) }
    }

    const fn new(term: Term, is_attached: bool) -> Self {
        Self {
            term,
            phase: OwnerPhase::Active,
            version: 0,
            written: 0,
            exists_in: 0,
            attached_at: 0,
            is_attached,
            must_claim: !is_attached,
            must_verify: false,
            in_flight: None,
        }
    }

    /// Returns the term with which operations are sent.
    #[must_use]
    pub const fn term(&self) -> Term {
        self.term
    }

    /// Returns why the session has been lost. No operation is sent after a loss.
    #[must_use]
    pub const fn loss(&self) -> Option<Loss> {
        match self.phase {
            OwnerPhase::Lost(loss) => Some(loss),
            OwnerPhase::Active | OwnerPhase::Releasing | OwnerPhase::Ending => None,
        }
    }

    /// Whether the session has a client.
    #[must_use]
    pub const fn is_attached(&self) -> bool {
        self.is_attached
    }

    /// Whether the session is neither ending, given up nor lost.
    #[must_use]
    pub fn is_active(&self) -> bool {
        self.phase == OwnerPhase::Active
    }

    /// Whether the outcome of an operation is awaited.
    #[must_use]
    pub const fn has_operation_in_flight(&self) -> bool {
        self.in_flight.is_some()
    }

    /// Records a change of the session's state, and returns its version.
    pub const fn change(&mut self) -> u64 {
        self.version += 1;
        self.version
    }

    /// Records a new connection of the session's client. It is served once the directory has confirmed that this node
    /// is still the owner. (A connection for which the session was opened or claimed needs no confirmation.)
    pub const fn attach(&mut self) {
        self.is_attached = true;
        self.must_claim = true;
        self.version += 1;
        self.attached_at = self.version;
    }

    /// Records that the session has lost its client.
    pub const fn detach(&mut self) {
        self.is_attached = false;
        self.must_claim = true;
        self.version += 1;
    }

    /// Whether the directory has this version, or a later one.
    #[must_use]
    pub const fn is_written(&self, version: u64) -> bool {
        self.written >= version
    }

    /// Whether the ownership is not [suspected](Self::suspect).
    #[must_use]
    pub const fn is_verified(&self) -> bool {
        !self.must_verify && !matches!(self.in_flight, Some(Operation::Verify { .. }))
    }

    /// Whether this node may serve the session's client, provided that its [lease](super::Lease) is valid.
    #[must_use]
    pub fn may_serve(&self) -> bool {
        self.is_active() && self.is_verified() && self.is_attached && !self.must_claim
    }

    /// Gives the session up. Has no effect if the session is ending.
    pub fn release(&mut self) {
        if self.is_active() {
            self.phase = OwnerPhase::Releasing;
        }
    }

    /// Ends the session. Returns false if it has been given up: only its next owner can end it.
    pub fn end(&mut self) -> bool {
        if self.is_active() {
            self.phase = OwnerPhase::Ending;
        }
        self.phase == OwnerPhase::Ending
    }

    /// Withdraws the end of an expired session: the client may have been on another node, whose claim the directory
    /// has lost.
    pub fn withdraw_end(&mut self) {
        if self.phase == OwnerPhase::Ending {
            self.phase = OwnerPhase::Active;
            // An end that is still in flight must have no effect.
            self.version += 1;
        }
    }

    /// Records that another node may have become the owner, because this node's lease has ended, or that the
    /// directory may have lost operations.
    pub const fn suspect(&mut self) {
        self.must_verify = true;
    }

    /// Whether there is an operation to send.
    #[must_use]
    pub fn has_next_operation(&self) -> bool {
        let is_pending = match self.phase {
            OwnerPhase::Active => self.must_verify || self.written < self.version,
            OwnerPhase::Releasing | OwnerPhase::Ending => true,
            OwnerPhase::Lost(_) => false,
        };
        is_pending && self.in_flight.is_none()
    }

    /// Returns the next operation to send. `None` if there is nothing to send, or an operation is in flight.
    pub fn next_operation(&mut self) -> Option<Operation> {
        if !self.has_next_operation() {
            return None;
        }
        let Self { version, is_attached, .. } = *self;
        let is_first = self.term.number == 1 && self.written == 0;
        let operation = if self.must_verify {
            self.must_verify = false;
            Operation::Verify { version, is_attached, existed_in: self.exists_in }
        } else {
            match self.phase {
                OwnerPhase::Ending => Operation::End { version, is_first },
                OwnerPhase::Releasing => Operation::Release { version, is_first },
                OwnerPhase::Active => Operation::Write { version, is_attached, is_first },
                OwnerPhase::Lost(_) => return None,
            }
        };
        self.in_flight = Some(operation);
        Some(operation)
    }

    /// Reports the outcome of the operation in flight.
    pub fn finish(&mut self, outcome: Outcome) {
        let Some(operation) = self.in_flight.take() else { return };
        match (operation, outcome) {
            (_, Outcome::Fenced(loss)) => self.phase = OwnerPhase::Lost(loss),
            (_, Outcome::Unverified) | (Operation::Verify { .. }, Outcome::Unknown) => {
                self.must_verify = true
            }
            (_, Outcome::Unknown) => {}
            (Operation::End { .. }, Outcome::Accepted { .. }) => self.phase = OwnerPhase::Lost(Loss::Ended),
            (Operation::Release { .. }, Outcome::Accepted { .. }) => {
                self.phase = OwnerPhase::Lost(Loss::Moved)
            }
            (
                Operation::Write { version, is_attached, .. }
                | Operation::Verify { version, is_attached, .. },
                Outcome::Accepted { term, generation },
            ) => {
                self.term = term;
                self.exists_in = generation;
                self.written = version;
                // A connection made after this version still has to be confirmed.
                self.must_claim &= !is_attached || version < self.attached_at;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TERM: Term = Term::first(1);
    const ACCEPTED: Outcome = Outcome::Accepted { term: TERM, generation: 1 };

    fn write(version: u64, is_attached: bool, is_first: bool) -> Option<Operation> {
        Some(Operation::Write { version, is_attached, is_first })
    }

    #[test]
    fn changes_are_written_one_after_the_other() {
        let mut session = Ownership::opened(1);
        assert_eq!(session.next_operation(), write(1, true, true));
        assert_eq!((session.change(), session.change()), (2, 3));
        assert_eq!(session.next_operation(), None, "one is in flight");
        session.finish(ACCEPTED);
        assert!(session.is_written(1) && !session.is_written(2));
        assert_eq!(session.next_operation(), write(3, true, false));
        session.finish(Outcome::Unknown);
        assert_eq!(session.next_operation(), write(3, true, false));
        session.finish(ACCEPTED);
        assert_eq!(session.next_operation(), None);
    }

    /// The write of a detach may have been executed although its reply was lost, so another node may own the session.
    #[test]
    fn another_connection_is_confirmed_before_it_is_served() {
        for outcome in [ACCEPTED, Outcome::Unknown] {
            let mut session = Ownership::granted(TERM, 7, true, 1);
            assert!(session.may_serve());
            session.detach();
            assert_eq!(session.next_operation(), write(8, false, false));
            session.attach();
            session.finish(outcome);
            assert!(!session.may_serve());
            assert_eq!(session.next_operation(), write(9, true, false));
            session.attach();
            session.finish(ACCEPTED);
            assert!(!session.may_serve(), "the latest connection is not confirmed yet");
            assert_eq!(session.next_operation(), write(10, true, false));
            session.finish(ACCEPTED);
            assert!(session.may_serve());
        }
    }

    #[test]
    fn lost_session_sends_nothing() {
        for loss in [Loss::Moved, Loss::Ended] {
            let mut session = Ownership::opened(1);
            session.next_operation();
            session.change();
            session.finish(Outcome::Fenced(loss));
            assert_eq!(
                (session.loss(), session.next_operation(), session.may_serve()),
                (Some(loss), None, false)
            );
            assert!(!session.end());
        }
    }

    #[test]
    fn end_is_sent_until_it_is_known() {
        let mut session = Ownership::granted(Term { generation: 1, number: 2 }, 0, true, 1);
        assert!(session.end());
        assert!(!session.may_serve());
        session.release();
        for outcome in [Outcome::Unknown, ACCEPTED] {
            assert_eq!(session.next_operation(), Some(Operation::End { version: 0, is_first: false }));
            session.finish(outcome);
        }
        assert_eq!((session.loss(), session.next_operation()), (Some(Loss::Ended), None));
    }

    #[test]
    fn released_session_is_not_ended() {
        let mut session = Ownership::granted(Term { generation: 1, number: 2 }, 0, true, 1);
        session.release();
        assert!(!session.end());
        assert_eq!(session.next_operation(), Some(Operation::Release { version: 0, is_first: false }));
        session.finish(ACCEPTED);
        assert_eq!(session.loss(), Some(Loss::Moved));
    }

    /// The lease may end again while the check is in flight, or its outcome may be unknown.
    #[test]
    fn suspected_session_is_verified_before_anything_else() {
        let mut session = Ownership::granted(Term { generation: 1, number: 2 }, 0, true, 1);
        session.end();
        session.suspect();
        let verify = |existed_in| Some(Operation::Verify { version: 0, is_attached: true, existed_in });
        let term = Term { generation: 2, number: 3 };
        let accepted = Outcome::Accepted { term, generation: 2 };
        for outcome in [Outcome::Unknown, Outcome::Unverified, accepted] {
            assert!(!session.may_serve());
            assert_eq!(session.next_operation(), verify(1));
            session.suspect();
            session.finish(outcome);
        }
        assert_eq!((session.next_operation(), session.term()), (verify(2), term));
        session.finish(accepted);
        assert_eq!(session.next_operation(), Some(Operation::End { version: 0, is_first: false }));
    }
}
