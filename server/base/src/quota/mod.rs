//! Quotas: the owners of items, and the choice of the item to evict when a limit is exceeded.

mod fair_eviction;
mod owner;

pub use fair_eviction::FairEviction;
pub use owner::{QuotaOwner, network};
