//! The invariants that are looked at while things happen.

use encke_core::Timestamp;
use encke_core::close::SuspendReason;
use encke_core::session::{Deadline, LifecycleEvent, Transition};
use encke_server::SessionId;
use encke_server::simulation::SessionView;

use super::World;
use super::bayeux::SocketState;
use crate::client::{Carrier, Client, Following};
use crate::schedule::{ConnectionNumber, Way};
use crate::truth::{channel_name, channel_of};

impl World {
    /// What the server told its hooks.
    pub(super) fn hear_events(&mut self) {
        let told = std::mem::take(&mut *self.given.told.0.lock());
        for (session, event) in told {
            let now = self.server.now();
            self.trace.note(&[u64::from(event.number), event.transition.reason().len() as u64]);
            self.trace.say(self.now, format_args!("{session} {:?}", event.transition));
            let left_at = self.check_polled(session, event, now);
            if let Err(what) = self.lifecycles.event(session, event, now, left_at) {
                self.violate("lifecycle", format!("{session}: {what}"));
            }
            self.check_suspension(session, event, now);
        }
    }

    /// A client that is there and reads is not taken for gone, however late the server is.
    fn check_suspension(&mut self, session: SessionId, event: LifecycleEvent, now: Timestamp) {
        let Transition::Suspended(reason) = event.transition else { return };
        let Some(number) = self.only_connection_of(&session.to_string()) else { return };
        let Some(connection) = self.connection(number) else { return };
        let wire = connection.wire.lock();
        let nanos = |duration| crate::scenario::nanos(duration);
        let config = &self.scenario.config;
        let wrong = match reason {
            SuspendReason::PongTimeout if !wire.server_has_read_all() => {
                Some("bytes wait in the kernel".to_owned())
            }
            SuspendReason::PongTimeout => {
                let due = wire.last_arrival + nanos(config.session.pong_timeout);
                (now.as_nanos() < due).then(|| format!("bytes came at {} ns", wire.last_arrival))
            }
            SuspendReason::SlowConsumer if !wire.is_full() => Some("there is room".to_owned()),
            SuspendReason::SlowConsumer => {
                let write_timeout = config.write_timeout;
                let taken = wire.acknowledged.after(now.as_nanos().saturating_sub(nanos(write_timeout)));
                let enough = config.limits.slowest_reader as f64 * write_timeout.as_secs_f64();
                (taken as f64 >= enough.max(1.0))
                    .then(|| format!("{taken} bytes were taken in {write_timeout:?}"))
            }
            _ => None,
        };
        drop(wire);
        if let Some(what) = wrong {
            self.violate("early expiry", format!("{session} {reason:?} at {now:?}: {what}"));
        }
    }

    /// The connection of a session, if it cannot be any other.
    fn only_connection_of(&self, session: &str) -> Option<ConnectionNumber> {
        let client = self.clients.iter().find(|client| {
            client.session() == Some(session) && client.link.as_ref().is_some_and(|link| link.greeted)
        })?;
        client.link.as_ref().map(|link| link.connection)
    }

    /// A log within its limits, and all logs within theirs.
    pub(super) fn check_log(&mut self, channel: u8) {
        let Some(view) = self.server.channel(&channel_name(channel)) else { return };
        let limits = &self.scenario.config.channel.log;
        let held = self.server.held();
        if view.messages > limits.messages || view.messages > 1 && view.bytes > limits.bytes {
            self.violate("bounds", format!("{view:?} where {limits:?} is allowed"));
        } else if held.log_bytes > limits.total_bytes {
            let limit = limits.total_bytes;
            self.violate("bounds", format!("the logs hold {} bytes of {limit}", held.log_bytes));
        }
    }

    /// Whether who is in one epoch of a log is in the other: in Redis, another life may go on where a former one was.
    pub(super) fn is_same_life(&self, log: u8, one: &str, other: &str) -> bool {
        one == other || self.truth.channel(log).may_go_on(one, other)
    }

    /// Nothing is to be done at this moment: what has to be, has been.
    pub(super) fn check_when_quiet(&mut self) {
        self.unchecked += 1;
        if self.lives.is_moving() {
            // Time stands still for sessions.
            return;
        }
        if self.unchecked * 8 <= self.lifecycles.alive() || !self.schedule.nothing_put_off() {
            return;
        }
        self.unchecked = 0;
        let sessions = self.server.sessions();
        self.check_bounds(&sessions);
        self.check_holdings(&sessions);
        if self.now >= self.disturbed_at + 2 * self.scenario.tick() {
            self.check_overdue(&sessions);
            self.check_vanished();
        }
        // Redis may owe an answer: at the end, it has given all.
        if self.server.late_answers() > 0 || self.redis.is_some() {
            return;
        }
        if self.now >= self.disturbed_at + 2 * self.scenario.tick() {
            self.check_holds();
        }
        for client in 0..self.clients.len() {
            if let Some(what) = self.what_is_missed(&self.clients[client], &sessions) {
                self.violate("nothing waits for ever", format!("client {client}: {what}"));
            }
        }
    }

    fn check_bounds(&mut self, sessions: &[SessionView]) {
        let config = &self.scenario.config;
        let held = self.server.held();
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
            self.violate("bounds", format!("{held:?} where {:?} is allowed", config.limits));
        }
    }

    /// Whatever is held is held by someone who is there.
    fn check_holdings(&mut self, sessions: &[SessionView]) {
        let held = self.server.held();
        let channels = self.server.channels();
        // To others, a session between two polls is attached; it keeps its permit for the next.
        let pausing = sessions.iter().filter(|session| session.is_between_polls).count();
        let attached = sessions.iter().filter(|session| session.is_attached).count();
        let subscriptions: usize = sessions.iter().map(|session| session.subscriptions.len()).sum();
        let subscribers: usize = channels.iter().map(|channel| channel.subscribers).sum();
        let bytes = self.server.counted_bytes();
        let alive = self.lifecycles.alive();
        let parting = self.parting_polls();
        let without_parting = |held: usize, due: usize| held - held.saturating_sub(due).min(parting);
        let connections = usize::try_from(held.connections).unwrap_or(usize::MAX);
        let wrong = [
            ("sessions", held.sessions, alive),
            ("timers of channels", held.channel_timers, channels.len()),
            ("permits", without_parting(held.permits, attached + pausing), attached + pausing),
            ("connections", without_parting(connections, attached), attached),
            ("subscribers", subscribers, subscriptions),
            ("bytes of logs", held.log_bytes, bytes),
        ];
        for (what, is, should) in wrong {
            if is != should {
                self.violate("nothing is held by the gone", format!("{what}: {is} instead of {should}"));
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
            self.violate("late expiry", format!("the age of {channel:?} at {now:?}"));
        }
    }

    /// A client that has vanished is noticed in time, by whichever timeout it is up to.
    fn check_vanished(&mut self) {
        let config = &self.scenario.config;
        let timeouts = &config.session;
        // A ping, its answer, and that once more where the kernel was still sending.
        let of_streams = timeouts.ping_interval + 2 * timeouts.pong_timeout;
        // Where a write was held before it vanished, what it read until then may be enough for the first time that it is judged.
        let of_held_writes = config.write_timeout;
        // Whichever it is, a write may be held after that.
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
                "client {client} of {session:?} has vanished at {vanished_at} ns, and is served at {now}"
            );
            self.violate("late expiry", what);
        }
    }

    /// What a client that can get more has not got.
    pub(super) fn what_is_missed(&self, client: &Client, sessions: &[SessionView]) -> Option<String> {
        let (link, id) = (client.link.as_ref()?, client.session()?);
        let connection = self.connection(link.connection)?;
        {
            let wire = connection.wire.lock();
            // What it asks for may be under way.
            let has_asked = link.carrier == Carrier::BayeuxSocket && wire.has_way(Way::ToServer);
            let is_moving = !link.outgoing.is_empty() || wire.is_full() || wire.has_unread() || has_asked;
            if !link.is_attentive(self.now) || is_moving || wire.is_dead() || wire.is_over_for_server() {
                return None;
            }
            if !wire.server_has_read_all() {
                return Some("the server has not read what it said".into());
            }
        }
        let at = sessions.binary_search_by(|session| (*session.id).cmp(id));
        let session = at.map(|at| &sessions[at]).ok().or_else(|| sessions.iter().find(|it| it.id == id))?;
        if !session.is_attached || connection.task.is_none() {
            return None;
        }
        if link.is_poll()
            && let Some(what) = Self::held_in_vain(session)
        {
            return Some(what);
        }
        let is_heartbeat =
            |(deadline, _): &(Deadline, _)| matches!(deadline, Deadline::Ping | Deadline::Pong);
        if !link.is_poll() && !session.deadlines.iter().any(is_heartbeat) {
            return Some(format!("no heartbeat is armed: {session:?}"));
        }
        if link.carrier == Carrier::BayeuxSocket {
            match self.what_socket_misses(client, session) {
                SocketState::Gets => {}
                SocketState::Waits => return None,
                SocketState::InVain(what) => return Some(what),
            }
        }
        if session.is_stopped {
            return None;
        }
        if session.has_more {
            return Some(format!("there is more to send: {session:?}"));
        }
        if let Some(bayeux) = client.bayeux.as_ref() {
            // On a WebSocket without acknowledgements, the next answer tells what is missing.
            let is_told_later = link.carrier == Carrier::BayeuxSocket && !bayeux.acknowledges();
            if is_told_later {
                return None;
            }
            return self.what_bayeux_misses(bayeux, session);
        }
        let page = client.page.as_ref()?;
        for (name, cursor) in &session.subscriptions {
            let channel = self.server.channel(name)?;
            if channel.last != *cursor {
                return Some(format!("{name} is at {}, the session at {cursor}", channel.last));
            }
            let number = channel_of(name)?;
            let Some(Following::Yes(place)) = page.channels.get(usize::from(number)) else { continue };
            // In a life that lacks what it had, it is told so before what comes next.
            let is_ahead = place.epoch != channel.epoch && place.up_to > *cursor;
            if !self.is_same_life(number, &place.epoch, &channel.epoch)
                || !is_ahead && !page.has_up_to(number, place, *cursor, &self.truth)
            {
                return Some(format!("{place:?} in {channel:?}, the session at {cursor}"));
            }
        }
        None
    }
}
