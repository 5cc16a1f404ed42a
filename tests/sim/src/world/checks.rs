//! Invariants that are checked during a run.

use encke_core::Timestamp;
use encke_core::close::SuspendReason;
use encke_core::session::{Deadline, LifecycleEvent, Transition};
use encke_server::SessionId;
use encke_server::testing::simulation::SessionView;

use super::Simulation;
use super::bayeux::SocketState;
use crate::client::{Carrier, ChannelSubscription, SimClient};
use crate::schedule::{ConnectionNumber, Direction};
use crate::truth::{channel_name, channel_of};

impl Simulation {
    /// Processes the events received by the hooks.
    pub(super) fn process_events(&mut self) {
        let recorded = std::mem::take(&mut *self.inputs.recorded.0.lock());
        for (session, event) in recorded {
            let now = self.server.now();
            self.trace.mix(&[u64::from(event.number), event.transition.reason().len() as u64]);
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
        let nanos = |duration| crate::scenario::nanos(duration);
        let config = &self.scenario.config;
        let wrong = match reason {
            SuspendReason::PongTimeout if !wire.server_has_read_all() => {
                Some("the kernel holds unread bytes".to_owned())
            }
            SuspendReason::PongTimeout => {
                let due = wire.last_arrival + nanos(config.session.pong_timeout);
                (now.as_nanos() < due).then(|| format!("bytes arrived at {} ns", wire.last_arrival))
            }
            SuspendReason::SlowConsumer if !wire.is_full() => Some("the send buffer has room".to_owned()),
            SuspendReason::SlowConsumer => {
                let write_timeout = config.write_timeout;
                let taken = wire.acknowledged.after(now.as_nanos().saturating_sub(nanos(write_timeout)));
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
        let client = self.clients.iter().find(|client| {
            client.session() == Some(session) && client.link.as_ref().is_some_and(|link| link.greeted)
        })?;
        client.link.as_ref().map(|link| link.connection)
    }

    /// Checks that a log, and all logs together, are within their limits.
    pub(super) fn check_log(&mut self, channel: u8) {
        let Some(view) = self.server.channel(&channel_name(channel)) else { return };
        let limits = &self.scenario.config.channel.log;
        let held = self.server.totals();
        if view.messages > limits.messages || view.messages > 1 && view.bytes > limits.bytes {
            self.violate("bounds", format!("{view:?} exceeds {limits:?}"));
        } else if held.log_bytes > limits.total_bytes {
            let limit = limits.total_bytes;
            self.violate("bounds", format!("the logs hold {} of {limit} bytes", held.log_bytes));
        }
    }

    /// Returns whether two epochs of a log are the same or, with Redis, whether one may continue the other.
    pub(super) fn may_be_same_session_log(&self, log: u8, one: &str, other: &str) -> bool {
        one == other || self.truth.channel(log).may_continue_as(one, other)
    }

    /// Checks that everything due has been done. Called when no action is possible at this instant.
    pub(super) fn check_when_quiet(&mut self) {
        self.unchecked += 1;
        if self.servers.is_moving() {
            // Time does not pass for sessions while they move.
            return;
        }
        if self.unchecked * 8 <= self.lifecycles.alive() || !self.schedule.has_no_delayed() {
            return;
        }
        self.unchecked = 0;
        let sessions = self.server.sessions();
        self.check_bounds(&sessions);
        self.check_holdings(&sessions);
        if self.now >= self.lateness_excused_until + 2 * self.scenario.tick() {
            self.check_overdue(&sessions);
            self.check_vanished();
        }
        // Check progress only if no response from the engine is outstanding. With Redis, progress is checked
        // at the end of the run, when everything has been answered.
        if self.server.outstanding_answers() > 0 || self.redis.is_some() {
            return;
        }
        if self.now >= self.lateness_excused_until + 2 * self.scenario.tick() {
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
        let held = self.server.totals();
        let full = sessions.iter().find(|session| {
            session.unacked > config.max_unacked
                || session.subscriptions.len() > config.limits.max_subscriptions
        });
        if let Some(session) = full {
            self.violate("bounds", format!("{session:?}"));
        } else if held.sessions > config.limits.max_sessions
            || held.channels > config.limits.max_channels
            || held.permits > config.limits.max_connections
        {
            self.violate("bounds", format!("{held:?} exceeds {:?}", config.limits));
        }
    }

    /// Checks that every resource in use belongs to a live session or channel.
    fn check_holdings(&mut self, sessions: &[SessionView]) {
        let held = self.server.totals();
        let channels = self.server.channels();
        // A session between polls has no connection, but keeps its permit for the next poll.
        let pausing = sessions.iter().filter(|session| session.is_between_polls).count();
        let attached = sessions.iter().filter(|session| session.is_attached).count();
        let subscriptions: usize = sessions.iter().map(|session| session.subscriptions.len()).sum();
        let subscribers: usize = channels.iter().map(|channel| channel.subscribers).sum();
        let bytes = self.server.counted_bytes();
        let alive = self.lifecycles.alive();
        let released = self.released_polls();
        let without_released = |held: usize, due: usize| held - held.saturating_sub(due).min(released);
        let connections = usize::try_from(held.connections).unwrap_or(usize::MAX);
        let wrong = [
            ("sessions", held.sessions, alive),
            ("channel timers", held.channel_timers, channels.len()),
            ("permits", without_released(held.permits, attached + pausing), attached + pausing),
            ("connections", without_released(connections, attached), attached),
            ("subscribers", subscribers, subscriptions),
            ("log bytes", held.log_bytes, bytes),
        ];
        for (what, is, should) in wrong {
            if is != should {
                self.violate("no leaks", format!("{what}: {is} instead of {should}"));
            }
        }
    }

    fn check_overdue(&mut self, sessions: &[SessionView]) {
        let now = self.server.now();
        let timers = &self.scenario.config.timers;
        let (tick, slack, age) = (timers.tick, timers.ping_slack, self.scenario.config.channel.log.age);
        let is_overdue = |(deadline, at): &&(Deadline, Timestamp)| {
            let soft = if *deadline == Deadline::Ping { slack } else { std::time::Duration::ZERO };
            *at + soft + tick <= now
        };
        for session in sessions {
            if let Some(overdue) = session.deadlines.iter().find(is_overdue) {
                return self.violate("late expiry", format!("{overdue:?} of {} at {now:?}", session.id));
            }
        }
        let Some(age) = age else { return };
        let channels = self.server.channels();
        let overdue = channels.iter().find(|it| it.oldest_at.is_some_and(|at| at + age + tick <= now));
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
        // In all cases, another write may be held after that.
        let longest = of_streams.max(timeouts.poll_hold).max(of_held_writes)
            + config.write_timeout
            + config.timers.ping_slack;
        let latest = crate::scenario::nanos(longest) + 4 * self.scenario.tick();
        let now = self.server.now().as_nanos();
        let unnoticed = self.connections.iter().flatten().find_map(|connection| {
            let wire = connection.wire.lock();
            let vanished_at = wire.vanished_at.filter(|at| !wire.server_gone && at + latest <= now)?;
            Some((vanished_at, connection.client, connection.session.clone()))
        });
        if let Some((vanished_at, client, session)) = unnoticed {
            let what = format!(
                "client {client} of {session:?} vanished at {vanished_at} ns, and is still served at {now}"
            );
            self.violate("late expiry", what);
        }
    }

    /// Describes the data that a client has not received although nothing prevents it.
    pub(super) fn describe_missed(&self, client: &SimClient, sessions: &[SessionView]) -> Option<String> {
        let (link, id) = (client.link.as_ref()?, client.session()?);
        let connection = self.connection(link.connection)?;
        {
            let wire = connection.wire.lock();
            // A `/meta/connect` may be in transit.
            let may_have_connect_in_transit =
                link.carrier == Carrier::BayeuxSocket && wire.can_move(Direction::ToServer);
            let is_moving = !link.outgoing.is_empty()
                || wire.is_full()
                || wire.has_unread()
                || may_have_connect_in_transit;
            if !link.is_attentive(self.now) || is_moving || wire.is_dead() || wire.is_over_for_server() {
                return None;
            }
            if !wire.server_has_read_all() {
                return Some("the server has not read its input".into());
            }
        }
        let at = sessions.binary_search_by(|session| (*session.id).cmp(id));
        let session = at.map(|at| &sessions[at]).ok().or_else(|| sessions.iter().find(|it| it.id == id))?;
        if !session.is_attached || connection.task.is_none() {
            return None;
        }
        if link.is_poll()
            && let Some(what) = Self::describe_wrong_hold(session)
        {
            return Some(what);
        }
        let is_heartbeat =
            |(deadline, _): &(Deadline, _)| matches!(deadline, Deadline::Ping | Deadline::Pong);
        if !link.is_poll() && !session.deadlines.iter().any(is_heartbeat) {
            return Some(format!("no heartbeat is armed: {session:?}"));
        }
        if link.carrier == Carrier::BayeuxSocket {
            match self.describe_missed_on_socket(client, session) {
                SocketState::UpToDate => {}
                SocketState::Idle => return None,
                SocketState::Wrong(what) => return Some(what),
            }
        }
        if session.is_stopped {
            return None;
        }
        if session.has_more {
            return Some(format!("there is more to send: {session:?}"));
        }
        if let Some(bayeux) = client.bayeux.as_ref() {
            // On a WebSocket without acknowledgements, the next answer reports the losses.
            let is_told_later = link.carrier == Carrier::BayeuxSocket && !bayeux.acknowledges();
            if is_told_later {
                return None;
            }
            return self.describe_missed_by_bayeux(bayeux, session);
        }
        let model = client.model.as_ref()?;
        for (name, cursor) in &session.subscriptions {
            let channel = self.server.channel(name)?;
            if channel.last != *cursor {
                return Some(format!("{name} is at {}, the session at {cursor}", channel.last));
            }
            let number = channel_of(name)?;
            let Some(ChannelSubscription::Active(position)) = model.channels.get(usize::from(number)) else {
                continue;
            };
            // If the new epoch lacks messages that the client has, a gap is reported before the next message.
            let is_ahead = position.epoch != channel.epoch && position.up_to > *cursor;
            if !self.may_be_same_session_log(number, &position.epoch, &channel.epoch)
                || !is_ahead && !model.has_up_to(number, position, *cursor, &self.truth)
            {
                return Some(format!("{position:?} in {channel:?}, the session at {cursor}"));
            }
        }
        None
    }
}
