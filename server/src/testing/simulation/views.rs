//! Views of the server's state, for checking invariants.

use std::sync::Arc;

use encke_core::Timestamp;
use encke_core::message::ContentKind;
use encke_core::session::{Deadline, Phase};

use super::SimulatedServer;
use encke_broker::channel::{HistoryMessage, HistoryPart};

use crate::session::{Channel, SessionCell, Transport};

/// State of a session.
#[derive(Debug)]
pub struct SessionView {
    /// Id of the session.
    pub id: String,
    /// Whether the session has a connection.
    pub is_attached: bool,
    /// Whether the current or last connection is a WebSocket.
    pub is_websocket: bool,
    /// Whether the session is between polls.
    pub is_between_polls: bool,
    /// The last seq assigned.
    pub seq: u64,
    /// Number of unacknowledged messages and gaps in the replay ring.
    pub unacked: usize,
    /// Whether something can be sent now.
    pub has_more: bool,
    /// Whether sending is paused until the client acknowledges something.
    pub is_stopped: bool,
    /// All armed deadlines.
    pub deadlines: Vec<(Deadline, Timestamp)>,
    /// Subscribed channels, each with the offset of the last message that was sent or reported missing.
    pub subscriptions: Vec<(String, u64)>,
}

/// State of a channel.
#[derive(Clone, Debug)]
pub struct ChannelView {
    /// Name of the channel.
    pub name: String,
    /// Epoch of the log.
    pub epoch: String,
    /// Offset of the oldest message in the log; `last + 1` if the log is empty.
    pub first: u64,
    /// Offset of the newest message.
    pub last: u64,
    /// Number of messages in the log.
    pub messages: usize,
    /// Size of the log in bytes.
    pub bytes: usize,
    /// Number of sessions that subscribe to the channel.
    pub subscribers: usize,
    /// Publish time of the oldest message.
    pub oldest_at: Option<Timestamp>,
    /// Number of references to the channel, excluding the table's.
    pub references: usize,
}

/// A message in a log.
#[derive(Clone, Debug)]
pub struct MessageView {
    /// Offset in the log.
    pub offset: u64,
    /// Channel to which the message was published.
    pub channel: String,
    /// Kind of the data.
    pub kind: ContentKind,
    /// The data, as JSON text.
    pub data: String,
}

/// Totals of the server's resources.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServerTotals {
    /// Sessions in the registry.
    pub sessions: usize,
    /// Sessions in memory: those in the registry, and ended ones that a task still references.
    pub held_sessions: usize,
    /// Channels in the table.
    pub channels: usize,
    /// Timers that belong to a channel.
    pub channel_timers: usize,
    /// Size of all logs in bytes, according to the budget.
    pub log_bytes: usize,
    /// Connection permits in use.
    pub permits: usize,
    /// Connections with a session, according to the metrics.
    pub connections: i64,
    /// Connections with an open socket.
    pub open_connections: usize,
    /// Entries in the wheel after its last turn.
    pub timer_entries: usize,
    /// Joins and leaves that are not published yet, without joins that are held back.
    pub queued_notices: usize,
    /// Joins that are held back.
    pub held_joins: usize,
    /// Backend requests in flight.
    pub backend_requests: usize,
}

impl SimulatedServer {
    /// Returns a session, if it exists.
    #[must_use]
    pub fn session(&self, id: &str) -> Option<SessionView> {
        let registry = self.public.client.sessions.table.registry();
        registry.get(id.parse().ok()?).map(|session| self.view(&session))
    }

    /// Returns all sessions, ordered by id.
    #[must_use]
    pub fn sessions(&self) -> Vec<SessionView> {
        let (mut sessions, _) = self.public.client.sessions.table.registry().page(0, usize::MAX);
        sessions.sort_by_key(|session| session.id());
        sessions.iter().map(|session| self.view(session)).collect()
    }

    fn view(&self, session: &SessionCell) -> SessionView {
        let timeouts = self.public.client.sessions.lifecycle.settings();
        let view = session.view(self.now(), timeouts);
        let (has_more, is_stopped) = session.outgoing();
        let subscriptions = session.subscriptions();
        SessionView {
            id: view.id.to_string(),
            is_attached: matches!(view.phase, Phase::Attached(_)),
            is_websocket: view.transport == Transport::WebSocket,
            is_between_polls: view.phase == Phase::BetweenPolls,
            seq: view.seq,
            unacked: view.unacked,
            has_more,
            is_stopped,
            deadlines: session.deadlines(timeouts),
            subscriptions: subscriptions
                .iter()
                .map(|(channel, cursor)| (channel.name().to_string(), *cursor))
                .collect(),
        }
    }

    /// Returns a channel, if it exists.
    #[must_use]
    pub fn channel(&self, name: &str) -> Option<ChannelView> {
        let channel = self.public.client.logs.channels.get(name)?;
        Some(channel_view(&channel))
    }

    /// Returns all channels, ordered by name.
    #[must_use]
    pub fn channels(&self) -> Vec<ChannelView> {
        self.channels_in_order().iter().map(channel_view).collect()
    }

    /// Sums up the sizes of all logs, in bytes, independently of the budget.
    #[must_use]
    pub fn counted_bytes(&self) -> usize {
        self.public.client.logs.channels.count_bytes()
    }

    /// Returns the available messages of a channel after `since`.
    #[must_use]
    pub fn history(&self, name: &str, since: u64) -> Vec<MessageView> {
        let Some(channel) = self.public.client.logs.channels.get(name) else { return Vec::new() };
        let (_, messages) = channel.history(HistoryPart::After(since), usize::MAX, self.now());
        let view = |HistoryMessage { offset, origin, kind, data, .. }| MessageView {
            offset,
            channel: origin.map_or_else(|| name.to_owned(), |origin| origin.channel.to_string()),
            kind,
            data,
        };
        messages.into_iter().map(view).collect()
    }

    /// Returns the ids of the sessions that presence lists.
    #[must_use]
    pub fn present(&self, name: &str) -> Vec<String> {
        let page = self.public.client.logs.channels.presence_page(name, 0, usize::MAX);
        page.members.into_iter().map(|(_, member)| member.id).collect()
    }

    /// Returns the totals.
    #[must_use]
    pub fn totals(&self) -> ServerTotals {
        let client = &self.public.client;
        ServerTotals {
            sessions: client.sessions.table.registry().len(),
            held_sessions: client.sessions.table.referenced(),
            channels: client.logs.channels.len(),
            channel_timers: client.logs.channels.timer_count(),
            log_bytes: client.logs.channels.bytes(),
            permits: client.limits.permits.taken(),
            connections: client.metrics.connections.count(),
            open_connections: self.public.connections.count(),
            timer_entries: client.timeouts.entries(),
            backend_requests: client.access.backend.as_ref().map_or(0, |backend| backend.in_flight()),
            queued_notices: client.sessions.subscriptions.join_leave().snapshot().len(),
            held_joins: client.sessions.subscriptions.join_leave().held(),
        }
    }
}

/// Creates the view of a channel. The references that `channel` and the table hold are not counted.
fn channel_view(channel: &Arc<Channel>) -> ChannelView {
    let view = channel.view();
    ChannelView {
        name: view.name.to_string(),
        epoch: view.epoch,
        first: view.bounds.first,
        last: view.bounds.last,
        messages: view.messages,
        bytes: view.bytes,
        subscribers: view.subscribers,
        oldest_at: channel.oldest_at(),
        references: Arc::strong_count(channel).saturating_sub(2),
    }
}
