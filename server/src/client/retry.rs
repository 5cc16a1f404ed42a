use std::ops::Range;
use std::time::Duration;

use encke_core::close::CloseCode;
use encke_core::dialect::ServerEvent;

use encke_base::entropy::Entropy;

/// Range of delays after which clients of a draining server reconnect. Spreads them over time.
const DRAIN_SPREAD_MS: Range<u64> = 500..10_000;

/// Range of delays for clients whose sessions continue in the next process. It is short because that process
/// is ready soon and need not open new sessions for them.
const MOVED_SPREAD_MS: Range<u64> = 0..2_000;

/// Delay if only one connection has ended, which needs no spread.
const RECONNECT_DELAY: Duration = Duration::from_secs(1);

/// The longest delay that an `EventSource` accepts, about 24 days.
const NEVER: Duration = Duration::from_millis(i32::MAX as u64);

/// Returns how long a client should wait before it reconnects.
pub(crate) fn retry_delay(code: CloseCode, entropy: &Entropy) -> Duration {
    match code {
        CloseCode::Draining | CloseCode::Overloaded | CloseCode::BackendFailed => {
            Duration::from_millis(entropy.number_in(DRAIN_SPREAD_MS))
        }
        CloseCode::Moved => Duration::from_millis(entropy.number_in(MOVED_SPREAD_MS)),
        code if code.allows_reconnect() => RECONNECT_DELAY,
        _ => NEVER,
    }
}

/// Returns the announcement that the connection is about to be closed, why, and when to reconnect.
pub(crate) fn goaway(code: CloseCode, entropy: &Entropy) -> ServerEvent<'static> {
    ServerEvent::Goaway { code, retry: retry_delay(code, entropy) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_that_must_not_reconnect_wait_for_ever() {
        let retry_ms = |code| u64::try_from(retry_delay(code, &Entropy::system()).as_millis());
        assert_eq!(retry_ms(CloseCode::Replaced), Ok(2_147_483_647));
        assert_eq!(retry_ms(CloseCode::Normal), Ok(2_147_483_647));
        assert_eq!(retry_ms(CloseCode::Disconnected), Ok(1_000));
        assert!(retry_ms(CloseCode::Draining).is_ok_and(|ms| DRAIN_SPREAD_MS.contains(&ms)));
        assert!(retry_ms(CloseCode::Moved).is_ok_and(|ms| MOVED_SPREAD_MS.contains(&ms)));
    }
}
