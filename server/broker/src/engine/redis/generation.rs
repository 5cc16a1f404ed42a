use std::sync::Arc;

/// Generation of Redis's data set, counted in the same way by all servers (see `scripts/generation.lua`), and
/// the corresponding replication id.
#[derive(Clone, Debug, Default)]
pub(super) struct RedisGeneration {
    pub(super) number: u64,
    pub(super) replication_id: Arc<str>,
}
