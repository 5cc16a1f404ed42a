//! Invariants that are checked during a run.

use std::time::Duration;

use encke_core::Timestamp;
use encke_core::close::SuspendReason;
use encke_core::message::ContentKind;
use encke_core::session::{Deadline, LifecycleEvent, Transition};
use encke_server::SessionId;
use encke_server::testing::simulation::{ChannelView, MessageView, SessionView};

use super::Simulation;
use crate::namespaces::rules_of;
use crate::scenario::nanos;
use crate::schedule::ConnectionNumber;
use crate::truth::{log_of, name_of};

/// Upper bound on the number of commands that the server has not read when their client vanishes.
const MAX_UNREAD_COMMANDS: u64 = 64;

impl Simulation {
    pub(super) fn process_events(&mut self) {
        let recorded = std::mem::take(&mut *self.inputs.recorded.0.lock());
        for (session, event) in recorded {
            let now = self.server.now();
            self.totals.events += 1;
            self.trace.mix((event.number, event.transition.reason()));
            self.trace.log(self.now, format_args!("{session} {:?}", event.transition));
            let left_at = self.check_polled(session, event, now);
            if let Err(what) = self.lifecycles.event(session, event, now, left_at) {
                self.violate("lifecycle", format!("{session}: {what}"));
            }
            self.check_suspension(session, event, now);
        }
    }

    /// Checks that a client that is connected and reads is not timed out, regardless of how delayed the
    /// server is.
    fn check_suspension(&mut self, session: SessionId, event: LifecycleEvent, now: Timestamp) {
        let Transition::Suspended(reason) = event.transition else { return };
        let Some(number) = self.only_connection_of(&session.to_string()) else { return };
        let Some(connection) = self.connection(number) else { return };
        let wire = connection.wire.lock();
        let config = &self.scenario.config;
        let wrong = match reason {
            SuspendReason::PongTimeout if !wire.to_server.arrived.is_empty() => {
                Some("the kernel holds unread bytes".to_owned())
            }
            SuspendReason::PongTimeout => {
                let due = wire.last_arrival + nanos(config.session.pong_timeout);
                (now.as_nanos() < due).then(|| format!("bytes arrived at {} ns", wire.last_arrival))
            }
            SuspendReason::SlowConsumer if wire.to_client.sent.is_empty() => {
                Some("the send buffer has room".to_owned())
            }
            SuspendReason::SlowConsumer => {
                let write_timeout = config.write_timeout;
                let taken = wire.acknowledged_after(now.as_nanos().saturating_sub(nanos(write_timeout)));
                let enough = config.limits.slowest_reader as f64 * write_timeout.as_secs_f64();
                (taken as f64 >= enough.max(1.0))
                    .then(|| format!("{taken} bytes were acknowledged in {write_timeout:?}"))
            }
            _ => None,
        };
        drop(wire);
        if let Some(what) = wrong {
            self.violate("early expiry", format!("{session} {reason:?} at {now:?}: {what}"));
        }
    }

    /// Returns the only connection that a session can have: its client's current one, if the server has
    /// confirmed the session on it.
    fn only_connection_of(&self, session: &str) -> Option<ConnectionNumber> {
        let client = self.clients.iter().find(|client| client.session() == Some(session))?;
        client.link.as_ref().filter(|link| link.greeted).map(|link| link.connection)
    }

    /// Checks that a log, and all logs together, are within their limits.
    pub(super) fn check_log(&mut self, log: usize) {
        let Some(view) = self.server.channel(name_of(log)) else { return };
        let limits = &rules_of(&self.scenario.config, log).log;
        let held = self.server.totals();
        // Joins and leaves do not count toward the limit on messages.
        let is_data = |message: &MessageView| message.kind == ContentKind::Data;
        let has_too_many = view.messages > limits.messages
            && self.server.history(&view.name, 0).iter().filter(|it| is_data(it)).count() > limits.messages;
        if has_too_many || view.messages > 1 && view.bytes > limits.bytes {
            self.violate("bounds", format!("{view:?} exceeds {limits:?}"));
        } else if held.log_bytes > limits.total_bytes {
            let limit = limits.total_bytes;
            self.violate("bounds", format!("the logs hold {} of {limit} bytes", held.log_bytes));
        }
    }

    /// Checks that everything due has been done. Called when no action is possible at this instant.
    pub(super) fn check_when_quiet(&mut self) {
        self.unchecked += 1;
        // Time does not pass for sessions while they move.
        let is_busy = self.servers.is_shutting_down() || self.schedule.has_delayed();
        if is_busy || self.unchecked * 8 <= self.lifecycles.alive {
            return;
        }
        self.unchecked = 0;
        let sessions = self.server.sessions();
        self.check_bounds(&sessions);
        self.check_holdings(&sessions);
        self.check_rosters(&sessions);
        let is_on_time = self.now >= self.lateness_excused_until + 2 * self.scenario.tick();
        if is_on_time {
            self.check_overdue(&sessions);
            self.check_vanished();
        }
        // Check progress only if no response from the engine or the backend is outstanding. With Redis, progress is checked
        // at the end of the run, when everything has been answered.
        let is_waiting = self.server.outstanding_answers() + self.server.totals().backend_requests > 0;
        if is_waiting || self.inputs.redis.is_some() {
            return;
        }
        if is_on_time {
            self.check_holds();
        }
        for client in 0..self.clients.len() {
            if let Some(what) = self.describe_missed(&self.clients[client], &sessions) {
                self.violate("progress", format!("client {client}: {what}"));
            }
        }
    }

    fn check_bounds(&mut self, sessions: &[SessionView]) {
        let config = &self.scenario.config;
        let (limits, held) = (&config.limits, self.server.totals());
        let full = sessions.iter().find(|session| {
            session.unacked > config.max_unacked || session.subscriptions.len() > limits.max_subscriptions
        });
        if let Some(session) = full {
            self.violate("bounds", format!("{session:?}"));
        } else if held.sessions > limits.max_sessions
            || held.channels > limits.max_channels
            || held.permits > limits.max_connections
        {
            self.violate("bounds", format!("{held:?} exceeds {limits:?}"));
        }
    }

    /// Checks that every resource in use belongs to a live session or channel.
    fn check_holdings(&mut self, sessions: &[SessionView]) {
        let (held, channels) = (self.server.totals(), self.server.channels());
        // A session between polls has no connection, but keeps its permit for the next poll.
        let pausing = sessions.iter().filter(|session| session.is_between_polls).count();
        let attached = sessions.iter().filter(|session| session.is_attached).count();
        let subscriptions: usize = sessions.iter().map(|session| session.subscriptions.len()).sum();
        let subscribers: usize = channels.iter().map(|channel| channel.subscribers).sum();
        let released = self.released_polls();
        let without_released = |held: usize, due: usize| held - held.saturating_sub(due).min(released);
        let connections = usize::try_from(held.connections).unwrap_or(usize::MAX);
        let wrong = [
            ("sessions", held.sessions, self.lifecycles.alive),
            ("channel timers", held.channel_timers, channels.len()),
            ("permits", without_released(held.permits, attached + pausing), attached + pausing),
            ("connections", without_released(connections, attached), attached),
            ("subscribers", subscribers, subscriptions),
            ("backend requests", held.backend_requests, self.inputs.backend.0.lock().unanswered()),
            ("log bytes", held.log_bytes, self.server.counted_bytes()),
        ];
        for (what, is, should) in wrong.into_iter().filter(|(_, is, should)| is != should) {
            self.violate("no leaks", format!("{what}: {is} instead of {should}"));
        }
    }

    /// Returns the age limit of a channel's messages.
    pub(super) fn age_limit(&self, channel: &ChannelView) -> Option<Duration> {
        rules_of(&self.scenario.config, log_of(&channel.name)?).log.age
    }

    fn check_overdue(&mut self, sessions: &[SessionView]) {
        let now = self.server.now();
        let timers = &self.scenario.config.timers;
        let (tick, slack) = (timers.tick, timers.ping_slack);
        let is_overdue = |(deadline, at): &&(Deadline, Timestamp)| {
            let soft = if *deadline == Deadline::Ping { slack } else { Duration::ZERO };
            *at + soft + tick <= now
        };
        for session in sessions {
            if let Some(overdue) = session.deadlines.iter().find(is_overdue) {
                return self.violate("late expiry", format!("{overdue:?} of {} at {now:?}", session.id));
            }
        }
        let channels = self.server.channels();
        let overdue = channels.iter().find(|it| {
            let expires = it.oldest_at.zip(self.age_limit(it)).map(|(at, age)| at + age + tick);
            expires.is_some_and(|at| at <= now)
        });
        if let Some(channel) = overdue {
            self.violate("late expiry", format!("age limit of {channel:?} at {now:?}"));
        }
    }

    /// Checks that a vanished client is noticed in time, by the timeout that applies.
    fn check_vanished(&mut self) {
        let config = &self.scenario.config;
        let timeouts = &config.session;
        // The ping interval and the pong timeout, and the latter once more if the kernel was still sending.
        let of_streams = timeouts.ping_interval + 2 * timeouts.pong_timeout;
        // If a write was held before the client vanished, the bytes read until then may still suffice at the
        // first check.
        let of_held_writes = config.write_timeout;
        // In all cases, another write may be held after that. Then the server waits for the client to close.
        let longest = of_streams.max(timeouts.poll_hold).max(of_held_writes)
            + config.write_timeout
            + config.close_timeout
            + config.timers.ping_slack;
        // At most four timeouts pass one after the other, and the wheel, a worker and a task may be late for each.
        let latest = nanos(longest) + 4 * self.scenario.tick() + 4 * 3 * self.scenario.latest;
        // A Bayeux WebSocket without a session is served until its next message is late.
        let without_session =
            latest + nanos(config.limits.keep_alive_timeout) + nanos(config.limits.handshake_timeout);
        // Unread input counts as evidence that the client is alive. The server may wait for the backend before it
        // reads the next command.
        let longest_backlog = MAX_UNREAD_COMMANDS * nanos(self.scenario.hook_timeout);
        let now = self.server.now().as_nanos();
        let unnoticed = self.connections.iter().flatten().find_map(|connection| {
            let session = connection.session.as_ref().and_then(|id| self.server.session(id));
            let may_wait = session.is_none() && self.clients[connection.client].bayeux.is_some();
            let latest = if may_wait { without_session } else { latest };
            let wire = connection.wire.lock();
            let vanished_at = wire.vanished_at.filter(|_| !wire.server_gone)?;
            let has_unread = !wire.to_server.arrived.is_empty();
            let is_late = !has_unread && vanished_at.max(wire.read_at) + latest <= now
                || vanished_at + longest_backlog + latest <= now;
            is_late.then(|| (vanished_at, connection.client, connection.session.clone()))
        });
        if let Some((vanished_at, client, session)) = unnoticed {
            let what = format!(
                "client {client} of {session:?} vanished at {vanished_at} ns, and is still served at {now}"
            );
            self.violate("late expiry", what);
        }
    }
}
