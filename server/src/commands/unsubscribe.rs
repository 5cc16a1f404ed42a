use encke_core::dialect::Success;

use super::{CommandContext, StartedCommand};
use crate::engine::EngineResponse;

pub(super) fn unsubscribe<'c>(
    context: CommandContext<'_>,
    channels: impl IntoIterator<Item = &'c str>,
) -> StartedCommand {
    for channel in channels {
        context.services.sessions.subscriptions.unsubscribe(context.session, context.source, channel);
    }
    Ok(EngineResponse::Ready(Ok(Success::Done)))
}
