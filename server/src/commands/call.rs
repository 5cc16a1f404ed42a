use encke_broker::engine::EngineResponse;
use encke_core::dialect::{CommandError, ErrorCode, Success};
use encke_core::message::CompactJson;
use futures_util::FutureExt;

use super::errors::bad_data;
use super::{CommandContext, StartedCommand};
use crate::backend::{CallResult, HookKind, HookRequest};

/// Maximum length of a method name, in bytes.
const MAX_METHOD_BYTES: usize = 255;

/// Calls a method of the backend.
pub(super) fn call(context: CommandContext<'_>, method: &str, data: &str) -> StartedCommand {
    let data = CompactJson::parse(data).map_err(bad_data)?;
    if context.services.access.backend_for(HookKind::Call).is_some()
        && (method.is_empty() || method.len() > MAX_METHOD_BYTES)
    {
        let message = format!("a method name must have 1 to {MAX_METHOD_BYTES} bytes");
        return Err(CommandError { code: ErrorCode::Malformed, message });
    }
    let request = || HookRequest {
        method: Some(method),
        data: serde_json::from_str(data.as_str()).ok(),
        ..HookRequest::default()
    };
    // Make the data compact, because it has to fit on one line of an event stream.
    let interpret = |CallResult { data }| {
        let compact = CompactJson::parse(data.get()).map_err(|error| format!("`data`: {error}"))?;
        Ok(compact.into_owned())
    };
    let Some(answer) = context.ask(HookKind::Call, request, interpret) else {
        let message = "no backend accepts calls (backend.call)".to_owned();
        return Err(CommandError { code: ErrorCode::UnknownCommand, message });
    };
    let called = async move { Ok(Success::Called { data: answer.await?.as_str().to_owned().into() }) };
    Ok(EngineResponse::Pending(called.boxed()))
}
