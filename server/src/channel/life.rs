use std::sync::Arc;

use crate::entropy::Entropy;

/// One life of a log: offsets of different epochs do not compare.
#[derive(Clone, Debug)]
pub(crate) struct Life {
    pub(crate) epoch: Arc<str>,
    /// The newest message before those that the log gets.
    pub(crate) last: u64,
    /// Earlier epochs that go on in this one, each with the newest message that this one has of it.
    pub(crate) past: Box<[(Box<str>, u64)]>,
    /// An engine elsewhere feeds it. What it begins with is still to come: nobody joins or reads it before.
    pub(crate) is_filling: bool,
}

impl Life {
    /// A new one.
    pub(super) fn begin(entropy: &Entropy) -> Self {
        Self::of(new_epoch(entropy).into())
    }

    /// One of this epoch.
    pub(super) fn of(epoch: Arc<str>) -> Self {
        Self { epoch, last: 0, past: Box::default(), is_filling: false }
    }
}

/// The name of an epoch that there has not been.
pub(crate) fn new_epoch(entropy: &Entropy) -> String {
    data_encoding::BASE64URL_NOPAD.encode(&entropy.bytes::<8>())
}
