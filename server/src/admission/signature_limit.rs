use std::net::IpAddr;

use encke_base::quota::network;
use encke_core::Timestamp;

use super::rate_limiter::RateLimiters;

/// Number of signatures that are still verified for an address above the limit, for each invalid one that the
/// limit permits.
const VERIFIED_ABOVE_LIMIT: u32 = 10;

/// Limits the verification of signatures, because verifying a signature costs more than sending one.
///
/// Many clients may share an address, so an address that exceeds the limit on invalid signatures is not
/// refused altogether: valid tokens get through as far as its verifications per second suffice. A client that
/// has a session has its own limit at each address, which others cannot exhaust, even if they know the token with
/// which the session is resumed.
#[derive(Debug)]
pub(crate) struct SignatureLimit {
    /// Rates of invalid signatures from each network.
    networks: RateLimiters<IpAddr>,
    /// Rates of invalid signatures for each session, from each network.
    sessions: RateLimiters<(u128, IpAddr)>,
    /// Rates of verifications for networks above the limit.
    verified: RateLimiters<IpAddr>,
}

/// Sender of a token.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TokenSender {
    /// Number of the client's session, if the client has shown that it has one.
    pub(crate) session: Option<u128>,
    pub(crate) address: IpAddr,
}

impl SignatureLimit {
    /// `invalid_per_second` is the limit; 0 means unlimited.
    pub(crate) fn new(invalid_per_second: u32) -> Self {
        Self {
            networks: RateLimiters::new(invalid_per_second),
            sessions: RateLimiters::new(invalid_per_second),
            verified: RateLimiters::new(invalid_per_second.saturating_mul(VERIFIED_ABOVE_LIMIT)),
        }
    }

    /// Whether a signature of this sender may be verified, which must then be done.
    pub(crate) fn admit(&self, sender: TokenSender, now: Timestamp) -> bool {
        let network = network(sender.address);
        match sender.session {
            Some(session) => self.sessions.has_room(&(session, network), now),
            None => self.networks.has_room(&network, now) || self.verified.try_count(&network, now),
        }
    }

    /// Counts an invalid signature.
    pub(crate) fn count_invalid(&self, sender: TokenSender, now: Timestamp) {
        let network = network(sender.address);
        self.networks.try_count(&network, now);
        if let Some(session) = sender.session {
            self.sessions.try_count(&(session, network), now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAT: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));
    const SECONDS: u64 = 30;

    /// Sends this many invalid signatures a second from one network. Returns how many of them are verified,
    /// and how many of four valid ones a second from the same network are not.
    fn flood(limit: &SignatureLimit, invalid_per_second: u64) -> (u64, u64) {
        let at = |number: u64, per_second: u64| {
            1_000_000_000 * (1 + number / per_second) + number % per_second * 1_000_000_000 / per_second
        };
        let invalid = (0..invalid_per_second * SECONDS).map(|number| (at(number, invalid_per_second), false));
        let mut sent: Vec<_> = invalid.chain((0..4 * SECONDS).map(|number| (at(number, 4), true))).collect();
        sent.sort_unstable();
        let sender = TokenSender { session: None, address: NAT };
        let (mut verified, mut refused) = (0, 0);
        for (nanos, is_valid) in sent {
            let now = Timestamp::from_nanos(nanos);
            match (limit.admit(sender, now), is_valid) {
                (true, false) => {
                    verified += 1;
                    limit.count_invalid(sender, now);
                }
                (false, true) => refused += 1,
                _ => {}
            }
        }
        (verified, refused)
    }

    #[test]
    fn valid_tokens_get_through_next_to_invalid_ones() {
        for invalid_per_second in [9, 20, 100] {
            assert_eq!(
                flood(&SignatureLimit::new(10), invalid_per_second),
                (invalid_per_second * SECONDS, 0)
            );
        }
    }

    #[test]
    fn a_flood_of_invalid_tokens_is_not_verified() {
        let limit = SignatureLimit::new(10);
        let (verified, _) = flood(&limit, 5_000);
        // Both buckets hold a second's worth.
        assert!(verified <= 110 * (SECONDS + 1), "{verified}");
        let now = Timestamp::from_nanos(1_000_000_000 * (SECONDS + 1));
        let session = TokenSender { session: Some(1), address: NAT };
        let other = TokenSender { session: None, address: [192, 0, 2, 2].into() };
        assert!(limit.admit(session, now) && limit.admit(other, now), "others are not affected");
        (0..10).for_each(|_| limit.count_invalid(session, now));
        assert!(!limit.admit(session, now), "a session has a limit of its own");
        let elsewhere = TokenSender { address: [192, 0, 2, 2].into(), ..session };
        assert!(
            limit.admit(elsewhere, now),
            "forged tokens from one address do not exhaust the limit at another"
        );
    }
}
