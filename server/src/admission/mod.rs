//! Admission control: connection permits, handshakes in progress, rate limits, partial messages, refusals,
//! and the open connections that a shutdown waits for.

mod browsers;
mod descriptors;
mod handshakes;
mod holders;
mod log_throttle;
mod permits;
mod rate;
mod refusals;
mod tasks;
mod unfinished;

pub(crate) use browsers::{BrowserId, BrowserPoll, Browsers};
pub(crate) use descriptors::DescriptorLimit;
pub(crate) use handshakes::{Handshake, Handshakes};
pub(crate) use holders::{FairEviction, QuotaOwner};
pub(crate) use log_throttle::LogThrottle;
pub(crate) use permits::{Permit, Permits, network};
pub(crate) use rate::{RateDecision, RateLimiter, RateLimiters};
pub(crate) use refusals::{RefusalReason, Refusals};
pub(crate) use tasks::{CompactConnection, OpenConnection, OpenConnections};
pub(crate) use unfinished::{PartialMessage, PartialMessages};
