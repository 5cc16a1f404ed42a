use std::future::IntoFuture;
use std::sync::Arc;

use encke_broker::channel::{ChannelName, HistoryLimit, HistoryPart};
use encke_broker::engine::{EngineResponse, History};
use encke_core::dialect::{HistoryPage, HistoryRange, SharedJson, Success};
use futures_util::FutureExt;
use serde::Serialize;

use super::errors::engine_failed;
use super::{CommandContext, CommandOutcome, StartedCommand};
use crate::auth::Permission;
use crate::client::{HistoryEntry, Services};

/// Maximum size of the messages of a reply. A single message may be larger.
const MAX_PAGE_BYTES: usize = 64 * 1024;

/// The reply.
#[derive(Serialize)]
struct Page {
    /// Oldest message first.
    messages: Vec<HistoryEntry>,
    /// Epoch of the channel's log. `None` if the channel does not exist.
    #[serde(skip_serializing_if = "Option::is_none")]
    epoch: Option<Box<str>>,
    /// Whether the log has more messages in the direction of the page.
    more: bool,
}

/// Reads a page of a channel's history, if the backend allows the client to subscribe to the channel.
pub(super) fn history(context: CommandContext<'_>, channel: &str, page: HistoryPage<'_>) -> StartedCommand {
    let name = context.allowed_channel(Permission::History, channel)?;
    let page = page.into_owned();
    let approved = match context.approved_channel(Permission::History, &name) {
        EngineResponse::Ready(name) => return Ok(read(context.services, &name?, page)),
        EngineResponse::Pending(approved) => approved,
    };
    let services = Arc::clone(context.services);
    let read = async move { read(&services, &approved.await?, page).into_future().await };
    Ok(EngineResponse::Pending(read.boxed()))
}

fn read(
    services: &Services,
    name: &ChannelName,
    page: HistoryPage<'static>,
) -> EngineResponse<CommandOutcome> {
    let part = match page.range {
        HistoryRange::Newest => HistoryPart::Between { after: 0, before: u64::MAX },
        HistoryRange::Before(before) => HistoryPart::Between { after: 0, before },
        HistoryRange::After(offset) => HistoryPart::After(offset),
    };
    let limit = HistoryLimit { messages: page.limit, bytes: Some(MAX_PAGE_BYTES), without_notices: true };
    services.logs.engine.read(name, part, limit).map(move |history| {
        let page = render(history.map_err(engine_failed)?, &page);
        Ok(Success::Shared(SharedJson::new(&page)))
    })
}

fn render(history: Option<History>, HistoryPage { range, epoch, .. }: &HistoryPage<'_>) -> Page {
    let Some(History { epoch: current, bounds, mut messages }) = history else {
        return Page { messages: Vec::new(), epoch: None, more: false };
    };
    if epoch.as_ref().is_some_and(|epoch| **epoch != *current) {
        // The offsets of another epoch number other messages.
        messages.clear();
    }
    let more = match range {
        HistoryRange::After(_) => messages.last().is_some_and(|last| last.offset < bounds.last),
        HistoryRange::Newest | HistoryRange::Before(_) => {
            messages.first().is_some_and(|first| first.offset > bounds.first)
        }
    };
    let messages = messages.into_iter().map(HistoryEntry::for_client).collect();
    Page { messages, epoch: Some(current), more }
}
