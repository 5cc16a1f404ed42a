use encke_broker::channel::LogMessage;
use encke_core::dialect::json::ByPattern;

use crate::session::Channel;

/// Returns the pattern whose log this message is read from, or `None` if the log belongs to a single channel.
pub(super) fn pattern_origin<'a>(
    log: &'a Channel,
    offset: u64,
    message: &'a LogMessage,
) -> Option<ByPattern<'a>> {
    let (pattern, origin) = (log.pattern()?, message.origin()?);
    Some(ByPattern { pattern, offset, channel_epoch: &origin.epoch })
}
