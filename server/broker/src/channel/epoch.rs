use std::sync::Arc;

use encke_base::entropy::Entropy;

/// Epoch of a log, and the log's initial state. Offsets from different epochs cannot be compared.
#[derive(Clone, Debug)]
pub(crate) struct LogEpoch {
    pub id: Arc<str>,
    /// Offset that precedes the log's first message.
    pub last: u64,
    /// Earlier epochs that this epoch continues, each with the offset of its last message that is still
    /// valid.
    pub past: Box<[(Box<str>, u64)]>,
    /// Whether an engine provides the log and its initial contents have not arrived yet. Until they have, the
    /// log cannot be joined or read.
    pub is_loading: bool,
}

impl LogEpoch {
    /// Starts a new epoch with a random id.
    pub(super) fn random(entropy: &Entropy) -> Self {
        Self::with_id(new_epoch(entropy).into())
    }

    /// Epoch that the log's messages name. `None` if the log continues no earlier epoch: its subscribers have
    /// received the epoch in the reply to their subscribe.
    pub(super) fn named(&self) -> Option<&str> {
        (!self.past.is_empty()).then_some(&*self.id)
    }

    /// Starts an epoch with the given id.
    pub(super) fn with_id(epoch: Arc<str>) -> Self {
        Self { id: epoch, last: 0, past: Box::default(), is_loading: false }
    }
}

/// Returns a random id, which no other epoch has had.
pub fn new_epoch(entropy: &Entropy) -> String {
    data_encoding::BASE64URL_NOPAD.encode(&entropy.bytes::<8>())
}
