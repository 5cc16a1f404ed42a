//! Codes, reasons and events, with the comments of their enums.

use encke_core::close::CloseCode;
use encke_core::dialect::ErrorCode;
use encke_core::session::{Deadline, Transition};
use strum::{IntoEnumIterator, VariantArray};

use super::markdown::{code, comment, table};
use crate::admin::HealthStatus;
use crate::admission::RefusalReason;
use crate::events::EventName;
use crate::http::ApiErrorCode;

/// With what the client does, and what becomes of the session.
pub(super) fn close_codes() -> String {
    let rows = CloseCode::ALL.map(|close| {
        let name = code(close.reason());
        [
            close.code().to_string(),
            name,
            comment(&close),
            close.client_does().into(),
            close.session_then().into(),
        ]
    });
    let intro = "What ends a connection, and what the client does then. A `goaway` has the name as its reason. Codes from 4000 to 4099, and 1013, invite the client back; \
        those from 4100 on ask it not to come back by itself.";
    format!("{intro}\n\n{}", table(["code", "name", "because", "the client", "the session"], rows))
}

pub(super) fn command_errors() -> String {
    let name = |error: &ErrorCode| {
        let text = serde_json::to_value(error).ok()?.as_str().map(code)?;
        Some(text).filter(|text| text != "``")
    };
    let rows =
        ErrorCode::iter().map(|error| [name(&error).unwrap_or_else(|| "any other".into()), comment(&error)]);
    let intro = "`{\"reply\":{\"id\":7,\"error\":{\"code\",\"message\"}}}`: the command was refused, and the connection stays open.";
    format!("{intro}\n\n{}", table(["code", "because"], rows))
}

pub(super) fn http_errors() -> String {
    let rows = ApiErrorCode::VARIANTS
        .iter()
        .map(|error| [error.status().as_u16().to_string(), code(error.into()), comment(error)]);
    let intro = "`{\"error\":{\"code\",\"message\"}}`, from the admin listener and for polls, streams of events and requests that become no WebSocket.";
    format!("{intro}\n\n{}", table(["status", "code", "because"], rows))
}

pub(super) fn health() -> String {
    let rows = HealthStatus::VARIANTS
        .iter()
        .map(|health| [code(health.into()), health.code().as_u16().to_string(), comment(health)]);
    let intro = "`{\"status\"}` of `/healthz` and `/readyz`.";
    format!("{intro}\n\n{}", table(["status", "of HTTP", "means"], rows))
}

/// Every transition with every reason that it may have.
pub(super) fn lifecycle() -> String {
    let rows = Transition::all().map(|transition| {
        let because = match transition {
            Transition::Opened | Transition::Expired => comment(&transition),
            Transition::Suspended(reason) => comment(&reason),
            Transition::Resumed(kind) => comment(&kind),
            Transition::Closed(reason) => comment(&reason),
        };
        [code(transition.name()), code(transition.reason()), because]
    });
    let intro = "What becomes of sessions, and why: in `encke_session_events_total`, in the log, in webhooks (`session.opened` and so on), and in hooks.";
    format!("{intro}\n\n{}", table(["event", "reason", "because"], rows))
}

pub(super) fn webhook_events() -> String {
    let name = |event: &EventName| {
        serde_json::to_value(event).ok().and_then(|name| name.as_str().map(code)).unwrap_or_default()
    };
    let rows = EventName::VARIANTS.iter().map(|event| [name(event), comment(event)]);
    format!("What a [webhook](#webhooks) may be told of.\n\n{}", table(["event", "when"], rows))
}

pub(super) fn refusals() -> String {
    let rows = RefusalReason::VARIANTS.iter().map(|reason| [code(reason.into()), comment(reason)]);
    let intro = "Why a connection got no session: in `encke_refusals_total`, and in the log.";
    format!("{intro}\n\n{}", table(["reason", "because"], rows))
}

pub(super) fn deadlines() -> String {
    let rows = Deadline::ALL.map(|deadline| [code(deadline.as_str()), comment(&deadline)]);
    let intro = "What a session waits for: in `/api/sessions/{id}`, and in `encke_timer_expiries_total`, which has `sleep` (all that is of no session), `log` (the age of a channel's \
        messages) and `reminder` beside these.";
    format!("{intro}\n\n{}", table(["deadline", "passes when"], rows))
}
