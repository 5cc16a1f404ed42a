//! Shutting down: sessions end, or are saved for the next process.

use std::future::IntoFuture;
use std::path::Path;
use std::pin::pin;

use futures_util::future::{Either, select};
use tokio_util::sync::CancellationToken;

use super::Server;
use super::persistence::{begin_move, finish_move};
use crate::public;
use crate::session::SharedSessions;
use crate::snapshot::ReservedFile;

/// Result of [`Server::drain`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DrainOutcome {
    /// Number of connections that are still open.
    pub connections_left: usize,
    /// Whether a snapshot is configured but was not written.
    pub is_snapshot_lost: bool,
}

impl Server {
    /// Stops accepting connections, ends every session, and waits for the connections to close, at most for
    /// [`Config::drain`](crate::config::Config::drain), or until `hurry` is cancelled.
    ///
    /// If there is a snapshot, publishes are rejected, and sessions are suspended instead of ended. The
    /// snapshot is written once the connections are closed, because until then some may still report messages
    /// that their clients have not received. If the snapshot cannot be written, the sessions end.
    pub fn drain(&self, hurry: &CancellationToken) -> DrainOutcome {
        let client = &self.public.client;
        self.public.stop.cancel();
        let path = self.snapshot.as_ref().map(|claimed| &*claimed.settings.path);
        let reserved = match path {
            Some(path) => begin_move(path, client).map(|file| (path, file)),
            None => {
                match &client.shared_sessions {
                    Some(shared) => self.leave_sessions(shared, hurry),
                    None => client.sessions.drain(),
                }
                None
            }
        };
        if let Some(webhooks) = &self.webhooks {
            webhooks.hurry();
        }
        if let Some(tracer) = &client.tracer {
            tracer.hurry();
        }
        let connections_left = self.await_drained(hurry);
        let is_saved = reserved.is_some_and(|(path, file)| self.save(path, file, hurry));
        self.log_losses();
        self.runtime.block_on(client.logs.engine.leave().into_future());
        DrainOutcome { connections_left, is_snapshot_lost: path.is_some() && !is_saved }
    }

    /// Moves all sessions to the other servers, for a limited time. They adopt the remaining sessions when this server's
    /// lease has ended.
    fn leave_sessions(&self, shared: &SharedSessions, hurry: &CancellationToken) {
        let timeout = self.public.client.timeouts.sleep(self.drain);
        self.runtime.block_on(async {
            let hurried = pin!(hurry.cancelled());
            select(select(timeout, hurried), pin!(shared.drain(self.drain / 2))).await;
        });
        let left = self.public.client.sessions.table.registry().len();
        if left > 0 {
            tracing::error!(
                left,
                "sessions were not released in time: other servers adopt them later, with gaps"
            );
        }
    }

    /// Writes the snapshot. If this fails, waits until the ended sessions are reported, and returns `false`.
    fn save(&self, path: &Path, file: ReservedFile, hurry: &CancellationToken) -> bool {
        let is_written = finish_move(path, file, &self.public.client);
        if !is_written {
            self.await_drained(hurry);
        }
        is_written
    }

    /// Waits until everything is drained, for a limited time. Returns the number of connections that are still
    /// open.
    fn await_drained(&self, hurry: &CancellationToken) -> usize {
        let public::Context { client, connections, .. } = &*self.public;
        let until = client.timeouts.clock().now() + self.drain;
        self.runtime.block_on(async {
            let hurried = pin!(hurry.cancelled());
            let timeout = select(client.timeouts.sleep_until(until), hurried);
            match select(timeout, pin!(self.all_drained())).await {
                Either::Left(_) => connections.count(),
                Either::Right(_) => 0,
            }
        })
    }

    /// Waits until all connections are closed, due reminders are carried out, presence leaves are published,
    /// other servers know that users are offline, and webhooks have received all events.
    async fn all_drained(&self) {
        self.public.connections.all_closed().await;
        self.public.client.reminders.settled().await;
        self.public.client.sessions.subscriptions.join_leave().settled().await;
        if let Some(users) = &self.public.client.shared_users {
            users.settled().await;
        }
        if let Some(webhooks) = &self.webhooks {
            webhooks.flushed().await;
        }
        if let Some(tracer) = &self.public.client.tracer {
            tracer.flushed().await;
        }
    }

    fn log_losses(&self) {
        let events = self.webhooks.as_ref().map_or(0, |webhooks| webhooks.queued());
        if events > 0 {
            tracing::error!(events, "undelivered webhook events were lost");
        }
        let spans = self.public.client.tracer.as_ref().map_or(0, |tracer| tracer.queued());
        if spans > 0 {
            tracing::warn!(spans, "unexported traces were lost");
        }
    }
}
