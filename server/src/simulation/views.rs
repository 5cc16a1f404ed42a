//! What invariants are checked by.

use std::sync::Arc;

use encke_core::Timestamp;
use encke_core::session::{Deadline, Phase};

use super::Server;

use crate::channel::HistoryPart;
use crate::session::{Channel, SessionCell, Transport};

/// A session.
#[derive(Debug)]
pub struct SessionView {
    /// Its id.
    pub id: String,
    /// Whether it has a connection.
    pub is_attached: bool,
    /// Whether that is a WebSocket, or the last one was.
    pub is_websocket: bool,
    /// Whether it is between two polls.
    pub is_between_polls: bool,
    /// The last seq there is.
    pub seq: u64,
    /// Seqs that are remembered because the client may not have them.
    pub unacked: usize,
    /// There is something that may be sent now.
    pub has_more: bool,
    /// Nothing new is sent until something is acknowledged.
    pub is_stopped: bool,
    /// Every armed deadline.
    pub deadlines: Vec<(Deadline, Timestamp)>,
    /// The channels it follows, and the last message of each that was sent or told to be missing.
    pub subscriptions: Vec<(String, u64)>,
}

/// A channel.
#[derive(Clone, Debug)]
pub struct ChannelView {
    /// Its name.
    pub name: String,
    /// This life of its log.
    pub epoch: String,
    /// The oldest message that is there; one more than `last` if none is.
    pub first: u64,
    /// The newest message.
    pub last: u64,
    /// Messages in its log.
    pub messages: usize,
    /// Bytes in its log.
    pub bytes: usize,
    /// Sessions that follow it.
    pub subscribers: usize,
    /// When its oldest message was published.
    pub oldest_at: Option<Timestamp>,
    /// How many hold the channel, beside the table.
    pub references: usize,
}

/// What the server holds in all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Sessions in the registry.
    pub sessions: usize,
    /// Sessions that are held: those in the registry, and those that have ended and still have a task.
    pub held_sessions: usize,
    /// Channels in the table.
    pub channels: usize,
    /// Timers that know a channel.
    pub channel_timers: usize,
    /// Bytes of all logs, as the budget counts them.
    pub log_bytes: usize,
    /// Permits of connections.
    pub permits: usize,
    /// Connections that have a session, as the metrics count them.
    pub connections: i64,
    /// Connections whose socket is open.
    pub open_connections: usize,
    /// Entries in the wheel, as of its last turn.
    pub timer_entries: usize,
}

impl Server {
    /// A session, if it is there.
    #[must_use]
    pub fn session(&self, id: &str) -> Option<SessionView> {
        let registry = self.public.client.sessions.registry();
        registry.get(id.parse().ok()?).map(|session| self.view(&session))
    }

    /// All sessions, in the order of their ids.
    #[must_use]
    pub fn sessions(&self) -> Vec<SessionView> {
        let (mut sessions, _) = self.public.client.sessions.registry().page(0, usize::MAX);
        sessions.sort_by_key(|session| session.id());
        sessions.iter().map(|session| self.view(session)).collect()
    }

    fn view(&self, session: &SessionCell) -> SessionView {
        let timeouts = self.public.client.sessions.settings();
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

    /// A channel, if it is there.
    #[must_use]
    pub fn channel(&self, name: &str) -> Option<ChannelView> {
        let channel = self.public.client.logs.channels.get(name)?;
        Some(channel_view(&channel))
    }

    /// All channels, in the order of their names.
    #[must_use]
    pub fn channels(&self) -> Vec<ChannelView> {
        self.channels_in_order().iter().map(channel_view).collect()
    }

    /// What all logs hold, in bytes, each counted once.
    #[must_use]
    pub fn counted_bytes(&self) -> usize {
        self.public.client.logs.channels.counted_bytes()
    }

    /// The messages of a channel after `since` that are there, with their offsets.
    #[must_use]
    pub fn history(&self, name: &str, since: u64) -> Vec<(u64, String)> {
        let Some(channel) = self.public.client.logs.channels.get(name) else { return Vec::new() };
        let (_, messages) = channel.history(HistoryPart::After(since), usize::MAX, self.now());
        messages.into_iter().map(|message| (message.offset, message.data)).collect()
    }

    /// What is held in all.
    #[must_use]
    pub fn held(&self) -> Held {
        let client = &self.public.client;
        Held {
            sessions: client.sessions.registry().len(),
            held_sessions: client.sessions.held(),
            channels: client.logs.channels.len(),
            channel_timers: client.logs.channels.timers(),
            log_bytes: client.logs.channels.bytes(),
            permits: client.permits.taken(),
            connections: client.metrics.connections.count(),
            open_connections: self.public.connections.count(),
            timer_entries: client.timeouts.entries(),
        }
    }
}

/// `channel` and the table are two holders.
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
