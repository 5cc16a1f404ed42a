//! Replacements for the tracing types in a build without the feature `otlp`. They have no size and do
//! nothing.

use hyper::StatusCode;

/// A request that is not traced.
#[derive(Clone, Debug, Default)]
pub(crate) struct RequestTrace(());

/// A publish that is not traced.
#[derive(Clone, Debug, Default)]
pub(crate) struct PublishTrace(());

/// Empty set of traced messages.
#[derive(Clone, Debug, Default)]
pub(crate) struct TracedMessages(());

/// Empty set of receipts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Receipts(());

const _: () = assert!(size_of::<(RequestTrace, PublishTrace, TracedMessages, Receipts)>() == 0);

impl RequestTrace {
    pub(crate) fn publish(&self, _channel: &str, _bytes: usize) -> PublishTrace {
        PublishTrace(())
    }

    pub(crate) fn publish_one_of_many(&self, _channel: &str, _bytes: usize) -> PublishTrace {
        PublishTrace(())
    }

    pub(crate) fn broadcast(&self, _channels: usize) {}

    pub(crate) fn end(&self, _status: StatusCode) {}
}

impl PublishTrace {
    pub(crate) const NONE: Self = Self(());

    pub(crate) fn refused(self, _code: &'static str) {}

    pub(crate) fn answered(self, _answer: Result<(u64, &str), &'static str>) {}
}

impl TracedMessages {
    #[inline]
    pub(crate) const fn is_empty(&self) -> bool {
        true
    }

    #[inline]
    pub(crate) fn departure(&self, _follower: usize) -> Departure {
        Departure(())
    }
}

/// Departure of a subscriber that no delivery awaits.
#[derive(Debug)]
pub(crate) struct Departure(());

impl Departure {
    #[inline]
    pub(crate) fn report(self) {}
}

impl Receipts {
    #[inline]
    pub(crate) fn add(&mut self, _more: Self) {}

    #[inline]
    pub(crate) fn written(&mut self) {}

    #[inline]
    pub(crate) fn forget(&mut self) {}
}
