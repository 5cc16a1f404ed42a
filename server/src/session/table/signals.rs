use encke_core::close::CloseCode;

/// Set of signals from a session to its connection. Posting a signal twice has the same effect as posting it
/// once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Signals(u32);

impl Signals {
    /// The empty set.
    pub(crate) const NONE: Self = Self(0);
    /// Write a ping.
    pub(crate) const PING: Self = Self(1);
    /// Check whether the kernel has seen evidence that the peer is alive.
    pub(crate) const PROBE: Self = Self(1 << 1);
    /// Send what the outbox holds.
    pub(crate) const READ: Self = Self(1 << 2);
    /// Answer the poll.
    pub(crate) const ANSWER: Self = Self(1 << 3);
    /// Answer the poll, because another one has superseded it.
    pub(crate) const SUPERSEDED: Self = Self(1 << 4);
    const CLOSE: u32 = 1 << 5;
    /// The idle delay has elapsed: park the connection if the client was silent.
    pub(crate) const IDLE_ELAPSED: Self = Self(1 << 6);
    const CODE_SHIFT: u32 = 16;

    /// Close the connection with this code.
    pub(crate) const fn close(code: CloseCode) -> Self {
        Self(Self::CLOSE | (code.code() as u32) << Self::CODE_SHIFT)
    }

    /// Returns the set as the number that [`Handover`](encke_base::parking::Handover) stores.
    pub(super) const fn bits(self) -> u32 {
        self.0
    }

    /// Inverse of [`Self::bits`].
    pub(super) const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    pub(crate) const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns the code to close with, if the session wants the connection closed.
    pub(crate) fn close_code(self) -> Option<CloseCode> {
        if self.0 & Self::CLOSE == 0 {
            return None;
        }
        let code = u16::try_from(self.0 >> Self::CODE_SHIFT).expect("a code has 16 bits");
        CloseCode::from_repr(code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_carry_every_close_code() {
        for code in CloseCode::ALL {
            let signals = Signals(Signals::close(code).0 | Signals::PING.0);
            assert_eq!(signals.close_code(), Some(code));
            assert!(signals.contains(Signals::PING));
            assert!(!signals.contains(Signals::PROBE));
        }
        assert_eq!(Signals::PROBE.close_code(), None);
    }
}
