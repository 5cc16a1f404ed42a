use std::ops::Range;
use std::time::Duration;

use encke_core::close::CloseCode;
use encke_core::dialect::Event;

use crate::entropy::Entropy;

/// Clients of a server that goes away spread their return over this long.
const SPREAD_MS: Range<u64> = 500..10_000;

/// Clients whose sessions go on in the next process: it is there soon, and opens no sessions for them.
const MOVED_SPREAD_MS: Range<u64> = 0..2_000;

/// The delay when only one connection ended.
const SOON_MS: u64 = 1_000;

/// The longest that an `EventSource` can be told to wait: 24 days.
const NEVER_MS: u64 = i32::MAX as u64;

/// How long a client should wait before it comes back.
pub(crate) fn retry_ms(code: CloseCode, entropy: &Entropy) -> u64 {
    match code {
        CloseCode::Draining | CloseCode::Overloaded => entropy.number_in(SPREAD_MS),
        CloseCode::Moved => entropy.number_in(MOVED_SPREAD_MS),
        code if code.invites_back() => SOON_MS,
        _ => NEVER_MS,
    }
}

/// Says that the connection is about to be closed, and why.
pub(crate) fn goaway(code: CloseCode, retry_ms: u64) -> Event<'static> {
    Event::Goaway { code, retry: Duration::from_millis(retry_ms) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_that_must_not_return_wait_for_ever() {
        let retry_ms = |code| retry_ms(code, &Entropy::system());
        assert_eq!(retry_ms(CloseCode::Replaced), 2_147_483_647);
        assert_eq!(retry_ms(CloseCode::Normal), 2_147_483_647);
        assert_eq!(retry_ms(CloseCode::Disconnected), 1_000);
        assert!(SPREAD_MS.contains(&retry_ms(CloseCode::Draining)));
        assert!(MOVED_SPREAD_MS.contains(&retry_ms(CloseCode::Moved)));
    }
}
