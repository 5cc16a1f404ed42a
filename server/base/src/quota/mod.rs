//! Quotas: the owner of an item, and the item that is evicted when a limit is exceeded.

mod fair_eviction;
mod owner;

pub use fair_eviction::FairEviction;
pub use owner::{QuotaOwner, network};
