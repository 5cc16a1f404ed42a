use std::ops::Range;
use std::time::Duration;

use encke_core::close::CloseCode;
use encke_core::dialect::ServerEvent;

use crate::entropy::Entropy;

/// Range of delays after which clients of a draining server reconnect. Spreads them over time.
const DRAIN_SPREAD_MS: Range<u64> = 500..10_000;

/// Range of delays for clients whose sessions continue in the next process. It is short because that process
/// is ready soon and need not open new sessions for them.
const MOVED_SPREAD_MS: Range<u64> = 0..2_000;

/// Delay if only one connection has ended, which needs no spread.
const RECONNECT_DELAY_MS: u64 = 1_000;

/// The longest delay that an `EventSource` accepts, about 24 days.
const NEVER_MS: u64 = i32::MAX as u64;

/// Returns how long a client should wait before it reconnects, in milliseconds.
pub(crate) fn retry_ms(code: CloseCode, entropy: &Entropy) -> u64 {
    match code {
        CloseCode::Draining | CloseCode::Overloaded => entropy.number_in(DRAIN_SPREAD_MS),
        CloseCode::Moved => entropy.number_in(MOVED_SPREAD_MS),
        code if code.allows_reconnect() => RECONNECT_DELAY_MS,
        _ => NEVER_MS,
    }
}

/// Returns the announcement that the connection is about to be closed, and why.
pub(crate) fn goaway(code: CloseCode, retry_ms: u64) -> ServerEvent<'static> {
    ServerEvent::Goaway { code, retry: Duration::from_millis(retry_ms) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_that_must_not_reconnect_wait_for_ever() {
        let retry_ms = |code| retry_ms(code, &Entropy::system());
        assert_eq!(retry_ms(CloseCode::Replaced), 2_147_483_647);
        assert_eq!(retry_ms(CloseCode::Normal), 2_147_483_647);
        assert_eq!(retry_ms(CloseCode::Disconnected), 1_000);
        assert!(DRAIN_SPREAD_MS.contains(&retry_ms(CloseCode::Draining)));
        assert!(MOVED_SPREAD_MS.contains(&retry_ms(CloseCode::Moved)));
    }
}
