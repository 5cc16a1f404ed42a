use encke_core::dialect::ByPattern;
use encke_core::encodings::Cached;

use crate::channel::LogMessage;
use crate::session::Channel;

/// How a message came to a reader of this log, if that is a pattern's.
pub(super) fn by_pattern<'a, D: Cached>(
    log: &'a Channel,
    offset: u64,
    message: &'a LogMessage,
) -> Option<ByPattern<'a>> {
    let (pattern, origin) = (log.pattern()?, message.origin()?);
    Some(ByPattern { pattern: D::of_pattern(pattern), offset, channel_epoch: &origin.epoch })
}
