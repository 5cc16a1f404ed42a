use std::ops::Range;
use std::time::Duration;

use encke_core::close::CloseCode;
use encke_core::dialect::Event;

/// Clients of a server that goes away come back over this long, each at a moment of its own.
const SPREAD_MS: Range<u64> = 500..10_000;

/// When only one connection ended.
const SOON_MS: u64 = 1_000;

/// The longest that an `EventSource` can be told to wait: 24 days.
const NEVER_MS: u64 = i32::MAX as u64;

/// When a client may come back by itself.
pub(super) fn retry_ms(code: CloseCode) -> u64 {
    match code {
        CloseCode::Draining | CloseCode::Overloaded => rand::random_range(SPREAD_MS),
        code if matches!(code.code(), 4000..=4099) => SOON_MS,
        _ => NEVER_MS,
    }
}

/// Whether the session has ended, and its client comes back to a new one.
pub(super) fn is_to_begin_anew(code: CloseCode) -> bool {
    matches!(code, CloseCode::Draining | CloseCode::Idle | CloseCode::Lifetime)
}

/// Says that the connection is about to be closed, and why.
pub(super) fn goaway(code: CloseCode, retry_ms: u64) -> Event<'static> {
    Event::Goaway { code, retry: Duration::from_millis(retry_ms) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_not_to_come_back_waits_for_ever() {
        assert_eq!(retry_ms(CloseCode::Replaced), 2_147_483_647);
        assert_eq!(retry_ms(CloseCode::Normal), 2_147_483_647);
        assert_eq!(retry_ms(CloseCode::Disconnected), 1_000);
        assert!(SPREAD_MS.contains(&retry_ms(CloseCode::Draining)));
    }
}
