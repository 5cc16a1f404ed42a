//! Positions in event ids.

use encke_server::testing::simulation::event_id_key;

use crate::truth::name_of;

/// Returns the epoch and the offset of a log in an event id, if the id contains them.
pub(super) fn position_in(id: &str, log: usize) -> Option<(&str, u64)> {
    let (_, positions) = id.split_once(';')?;
    let key = event_id_key(name_of(log));
    positions.split(',').find_map(|entry| {
        let (epoch, offset) = entry.strip_prefix(&key)?.strip_prefix(':')?.split_once(':')?;
        Some((epoch, offset.parse().ok()?))
    })
}
