use encke_core::dialect::{Since, StartPosition};
use encke_core::session::outbox::LogBounds;

/// Position at which a subscription begins.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SubscriptionStart {
    /// Offset of the message before the first one to be sent.
    pub(super) cursor: u64,
    /// Whether a gap of unknown length is sent first.
    pub(super) gap: bool,
    pub(super) recovered: Option<bool>,
}

impl SubscriptionStart {
    /// Determines the start. `continues` returns whether messages after the given one are, or were, in this
    /// log.
    pub(super) fn of(
        begin: &StartPosition<'_>,
        continues: impl FnOnce(&Since<'_>) -> bool,
        log: LogBounds,
    ) -> Self {
        match begin {
            StartPosition::Now => Self { cursor: log.last, gap: false, recovered: None },
            StartPosition::Newest(count) => {
                let cursor = log.last.saturating_sub(*count).max(log.first - 1);
                Self { cursor, gap: false, recovered: None }
            }
            StartPosition::Unknown(count) => {
                let newest = Self::of(&StartPosition::Newest(*count), continues, log);
                Self { gap: true, recovered: Some(false), ..newest }
            }
            // The log's epoch has changed, so the client has no message of the new epoch.
            StartPosition::After(since) if !continues(since) => {
                Self { cursor: log.first - 1, gap: true, recovered: Some(false) }
            }
            StartPosition::After(since) if since.offset > log.last => {
                Self { cursor: log.last, gap: true, recovered: Some(false) }
            }
            StartPosition::After(since) => {
                let all_there = since.offset + 1 >= log.first;
                Self { cursor: since.offset, gap: false, recovered: Some(all_there) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subscription_start_positions() {
        use StartPosition::{Newest, Now, Unknown};
        let after = |epoch: &'static str, offset| StartPosition::After(Since { epoch: epoch.into(), offset });
        let (log, empty) = (LogBounds { first: 5, last: 9 }, LogBounds { first: 10, last: 9 });
        let table = [
            (Now, log, (9, false, None)),
            (after("e", 9), log, (9, false, Some(true))),
            (after("e", 4), log, (4, false, Some(true))),
            (after("e", 3), log, (3, false, Some(false))),
            (after("e", 10), log, (9, true, Some(false))),
            (after("old", 7), log, (4, true, Some(false))),
            (Unknown(0), log, (9, true, Some(false))),
            (Unknown(2), log, (7, true, Some(false))),
            (Newest(0), log, (9, false, None)),
            (Newest(1), log, (8, false, None)),
            (Newest(5), log, (4, false, None)),
            (Newest(6), log, (4, false, None)),
            (Newest(u64::MAX), log, (4, false, None)),
            (Newest(0), empty, (9, false, None)),
            (Newest(3), empty, (9, false, None)),
            (Newest(3), LogBounds { first: 1, last: 0 }, (0, false, None)),
        ];
        for (begin, log, (cursor, gap, recovered)) in table {
            let start = SubscriptionStart::of(&begin, |since| since.epoch == "e", log);
            assert_eq!(start, SubscriptionStart { cursor, gap, recovered }, "{begin:?}");
        }
    }
}
