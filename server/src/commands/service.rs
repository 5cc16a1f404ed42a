use encke_broker::channel::ChannelName;
use encke_broker::engine::EngineResponse;
use encke_core::dialect::{CommandError, ErrorCode, Success};
use encke_core::message::CompactJson;

use super::call::call;
use super::errors::{bad_channel, bad_data, not_allowed};
use super::{CommandContext, StartedCommand};
use crate::auth::Permission;
use crate::backend::HookKind;

/// Passes a service message to the server's own code or, if that does not accept it, to the backend.
pub(super) fn service(context: CommandContext<'_>, channel: &str, data: &str) -> StartedCommand {
    let CommandContext { session, services, .. } = context;
    let name = ChannelName::new(channel, services.settings.channel_name_bytes).map_err(bad_channel)?;
    if !session.identity().allows(Permission::Publish, name.as_str()) {
        return Err(not_allowed(Permission::Publish));
    }
    let data = CompactJson::parse(data).map_err(bad_data)?;
    if services.sessions.lifecycle.service_message(session, name.as_str(), data.as_str()) {
        return Ok(EngineResponse::Ready(Ok(Success::Done)));
    }
    if services.access.backend_for(HookKind::Call).is_some() {
        return call(context, name.as_str(), data.as_str());
    }
    let message = "no handler accepts messages on this channel".to_owned();
    Err(CommandError { code: ErrorCode::UnknownCommand, message })
}
