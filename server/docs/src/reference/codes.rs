//! Tables of codes, reasons and events, with the documentation of their enums.

use encke_core::close::CloseCode;
use encke_core::dialect::ErrorCode;
use encke_core::session::{Deadline, Transition};
use encke_server::documented::{ApiErrorCode, EventName, HealthStatus, RefusalReason};
use strum::{IntoEnumIterator, VariantArray};

use super::markdown::{code, doc_comment, table};

/// Returns a table of close codes, with the client's reaction and the effect on the session.
pub(super) fn close_codes() -> String {
    let rows = CloseCode::ALL.map(|close| {
        let name = code(close.reason());
        [
            close.code().to_string(),
            name,
            doc_comment(&close),
            close.client_action().into(),
            close.session_outcome().into(),
        ]
    });
    let intro = "A close code states why the server closes a connection, and how the client should react. The `reason` in a `goaway` is the code's name in this table. After the codes 1011, 1013 and 4000 to 4099, clients should reconnect; \
        after codes of 4100 and above, clients should not reconnect on their own.";
    format!("{intro}\n\n{}", table(["code", "name", "reason", "client's reaction", "session"], rows))
}

pub(super) fn command_errors() -> String {
    let name = |error: &ErrorCode| {
        let text = serde_json::to_value(error).ok()?.as_str().map(code)?;
        Some(text).filter(|text| text != "``")
    };
    let rows = ErrorCode::iter()
        .map(|error| [name(&error).unwrap_or_else(|| "any other".into()), doc_comment(&error)]);
    let intro = "If a command fails, the server replies `{\"reply\":{\"id\":7,\"error\":{\"code\",\"message\"}}}`, and the connection stays open.";
    format!("{intro}\n\n{}", table(["code", "reason"], rows))
}

pub(super) fn http_errors() -> String {
    let rows = ApiErrorCode::VARIANTS
        .iter()
        .map(|error| [error.status().as_u16().to_string(), code(error.into()), doc_comment(error)]);
    let intro = "The body is `{\"error\":{\"code\",\"message\"}}`. The admin listener sends these errors; the public listener sends them for polls, event streams and failed WebSocket upgrades.";
    format!("{intro}\n\n{}", table(["status", "code", "reason"], rows))
}

pub(super) fn health() -> String {
    let rows = HealthStatus::VARIANTS
        .iter()
        .map(|health| [code(health.into()), health.code().as_u16().to_string(), doc_comment(health)]);
    let intro = "`/healthz` and `/readyz` return one of these values as `status`.";
    format!("{intro}\n\n{}", table(["status", "HTTP status", "meaning"], rows))
}

/// Returns a table of lifecycle events, with each of their reasons.
pub(super) fn lifecycle() -> String {
    let rows = Transition::all().map(|transition| {
        let meaning = match transition {
            Transition::Opened | Transition::Expired => doc_comment(&transition),
            Transition::Suspended(reason) => doc_comment(&reason),
            Transition::Resumed(kind) => doc_comment(&kind),
            Transition::Closed(reason) => doc_comment(&reason),
        };
        [code(transition.name()), code(transition.reason()), meaning]
    });
    let intro = "The `encke_session_events_total` metric, the log, webhooks (`session.opened` and so on) and the `Hooks` trait in Rust report these session events.";
    format!("{intro}\n\n{}", table(["event", "reason", "meaning"], rows))
}

pub(super) fn webhook_events() -> String {
    let name = |event: &EventName| {
        serde_json::to_value(event).ok().and_then(|name| name.as_str().map(code)).unwrap_or_default()
    };
    let rows = EventName::VARIANTS.iter().map(|event| [name(event), doc_comment(event)]);
    format!(
        "A [webhook](../guides/webhooks.md) can receive these events.\n\n{}",
        table(["event", "meaning"], rows)
    )
}

pub(super) fn refusals() -> String {
    let rows = RefusalReason::VARIANTS.iter().map(|reason| [code(reason.into()), doc_comment(reason)]);
    let intro = "`encke_refusals_total` and the log state one of these reasons for each refused connection.";
    format!("{intro}\n\n{}", table(["reason", "meaning"], rows))
}

pub(super) fn deadlines() -> String {
    let rows = Deadline::ALL.map(|deadline| [code(deadline.as_str()), doc_comment(&deadline)]);
    let intro = "`/api/sessions/{id}` and the `encke_timer_expiries_total` metric use these names for the deadlines of a session. The metric also has the label values `sleep` (timeouts that belong to no session), `log` (the age of a channel's \
        messages) and `reminder`.";
    format!("{intro}\n\n{}", table(["deadline", "meaning"], rows))
}
