//! What other rooms have of traces in a build without them: nothing.

use hyper::StatusCode;

/// A request that is not traced.
#[derive(Clone, Debug, Default)]
pub(crate) struct Root(());

/// A publish that is not traced.
#[derive(Clone, Debug, Default)]
pub(crate) struct Publish(());

/// A log has no traced messages.
#[derive(Clone, Debug, Default)]
pub(crate) struct Traced(());

/// Nobody is told what was written.
#[derive(Clone, Debug, Default)]
pub(crate) struct Receipts(());

const _: () = assert!(size_of::<(Root, Publish, Traced, Receipts)>() == 0);

impl Root {
    pub(crate) fn publish(&self, _channel: &str, _bytes: usize) -> Publish {
        Publish(())
    }

    pub(crate) fn one_of_many(&self, _channel: &str, _bytes: usize) -> Publish {
        Publish(())
    }

    pub(crate) fn broadcast(&self, _channels: usize) {}

    pub(crate) fn end(&self, _status: StatusCode) {}
}

impl Publish {
    pub(crate) const NONE: Self = Self(());

    pub(crate) fn refused(self, _code: &'static str) {}

    pub(crate) fn answered(self, _answer: Result<(u64, &str), &'static str>) {}
}

impl Traced {
    #[inline]
    pub(crate) const fn is_empty(&self) -> bool {
        true
    }

    #[inline]
    pub(crate) fn left(&self, _follower: usize) -> Left {
        Left(())
    }
}

/// Nobody waits for one that has left.
#[derive(Debug)]
pub(crate) struct Left(());

impl Left {
    #[inline]
    pub(crate) fn tell(self) {}
}

impl Receipts {
    #[inline]
    pub(crate) fn add(&mut self, _more: Self) {}

    #[inline]
    pub(crate) fn written(&mut self) {}

    #[inline]
    pub(crate) fn forget(&mut self) {}
}
