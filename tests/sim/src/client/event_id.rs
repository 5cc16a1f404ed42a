//! Positions in event ids.

use encke_server::testing::simulation::event_id_key;

use crate::outcome::Verdict;
use crate::truth::{LOGS, name_of};

/// Returns the epoch and the offset of a log in an event id, if the id contains them.
pub(super) fn position_in(id: &str, log: usize) -> Option<(&str, u64)> {
    let (_, positions) = id.strip_suffix('.')?.split_once(';')?;
    let key = event_id_key(name_of(log));
    positions.split(',').find_map(|entry| {
        let (epoch, offset) = entry.strip_prefix(&key)?.strip_prefix(':')?.split_once(':')?;
        Some((epoch, offset.parse().ok()?))
    })
}

/// Checks the first `id` of a new session against the id that the client `offered` after losing its old session: it
/// must repeat all positions. A log in `followed`, of which the client has received messages, must have a position
/// in `offered`, or begin with a gap.
pub(super) fn check_positions(offered: &str, id: &str, followed: &[usize]) -> Verdict {
    for log in 0..LOGS {
        let (before, start) = (position_in(offered, log), position_in(id, log));
        if before.is_some() && start != before {
            return Err(format!("it was at {before:?} of log {log}, but got {start:?}"));
        }
        let begins_with_gap = start.is_none_or(|(_, offset)| offset == u64::MAX);
        if before.is_none() && followed.contains(&log) && !(offered.ends_with("*.") && begins_with_gap) {
            return Err(format!("its id {offered} did not name log {log}, and it got {start:?}"));
        }
    }
    Ok(())
}
