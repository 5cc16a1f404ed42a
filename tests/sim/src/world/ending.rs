//! The end of a run: nothing goes wrong any more, everyone catches up, everyone leaves, and nothing is left.

use encke_core::session::Deadline;

use super::World;
use crate::client::{Carrier, Following};
use crate::fault::Fault;
use crate::scenario::{SECOND, nanos};
use crate::schedule::{Action, ClientNumber, Stage};

/// Servers compare their logs with those in Redis once a minute, and follow what nobody wants for half a minute more. Before that they may
/// have to notice that it is silent.
const FOR_REDIS: u64 = 120 * SECOND;

/// A server's task that follows channels, and its connections to Redis.
const TASKS_FOR_REDIS: usize = 3;

impl World {
    /// For bytes under way, questions and answers: all that is not a timeout.
    fn exchanges(&self) -> u64 {
        let to_redis = if self.scenario.redis { FOR_REDIS } else { 0 };
        to_redis
            + match (self.scenario.faults.allows(Fault::Latency), self.scenario.config.max_unacked) {
                (false, _) => 10 * SECOND,
                (true, 0..16) => 900 * SECOND,
                (true, _) => 90 * SECOND,
            }
    }

    pub(super) fn end_stage(&mut self, stage: Stage) {
        if stage != self.stage {
            return;
        }
        self.replace(self.lives.number);
        self.redis_is_back();
        self.given.engine_delays.end();
        match stage {
            Stage::Busy if self.scenario.faults.allows(Fault::Drain) => self.drain(),
            Stage::Busy => self.calm_down(),
            Stage::Calm => {
                self.check_settled();
                self.leave();
            }
            Stage::Leaving => {
                self.check_empty();
                self.stage = Stage::Over;
            }
            Stage::Over => {}
        }
    }

    /// From here on clients do what they should, and no one connects. What they have left behind, they close: a stream of events
    /// that is read to no purpose is alive for the server.
    fn calm_clients(&mut self) {
        for number in 0..self.connections.len() {
            let number = u32::try_from(number).expect("few connections");
            let Some(connection) = self.connection(number) else { continue };
            if !self.clients[connection.client as usize].is_linked_by(number) {
                connection.wire.lock().client_closes();
                self.consider(number);
            }
        }
        for number in 0..self.clients.len() {
            let client = &mut self.clients[number];
            client.plan += 1;
            let polls_on = client.link.is_none() && client.polls && client.session().is_some()
                || client.link.as_ref().is_some_and(|link| link.carrier == Carrier::BayeuxSocket);
            if let Some(link) = &mut client.link {
                link.paused_until = 0;
                link.sips = None;
                link.is_mute = false;
                link.is_late = false;
                self.ready.push(Action::Read(link.connection));
            }
            if polls_on {
                self.plan_to_act(u32::try_from(number).expect("few clients"), 0);
            }
        }
    }

    fn calm_down(&mut self) {
        self.stage = Stage::Calm;
        self.trace.say(self.now, format_args!("nothing goes wrong any more"));
        self.calm_clients();
        let config = &self.scenario.config;
        let timeouts = &config.session;
        let all = timeouts.ping_interval * 2
            + timeouts.pong_timeout * 2
            + timeouts.reconnect_window
            + timeouts.poll_hold
            + config.timers.ping_slack
            + config.timers.stall_threshold
            + config.write_timeout
            + config.close_timeout;
        self.schedule.plan(self.now + nanos(all) + self.exchanges(), Action::EndStage(Stage::Calm));
    }

    /// A client of long-polling goes on with it, and so does one that asks on its WebSocket.
    pub(super) fn poll_on(&mut self, number: ClientNumber, plan: u32) {
        let client = &self.clients[number as usize];
        if client.plan != plan {
            return;
        }
        match &client.link {
            None if client.polls && client.session().is_some() => self.connect(number),
            Some(link) if link.carrier == Carrier::BayeuxSocket => self.ask_on(number),
            _ => {}
        }
    }

    fn leave(&mut self) {
        self.stage = Stage::Leaving;
        self.trace.say(self.now, format_args!("everyone leaves"));
        for number in 0..self.scenario.clients {
            let link = self.clients[number as usize].link.as_ref();
            match link.map(|link| (link.carrier, link.connection)) {
                Some((Carrier::WebSocket, _)) => self.close_session(number),
                Some((_, connection)) => self.cut(connection),
                None => {}
            }
            self.clients[number as usize].plan += 1;
        }
        self.plan_the_end();
    }

    fn drain(&mut self) {
        self.stage = Stage::Leaving;
        self.trace.say(self.now, format_args!("the server drains"));
        self.fault_counts.count(Fault::Drain);
        self.server.drain();
        let sessions = self.server.held().sessions;
        if sessions > 0 {
            self.violate("drain", format!("{sessions} sessions are left"));
        }
        self.calm_clients();
        self.plan_the_end();
    }

    fn plan_the_end(&mut self) {
        let config = &self.scenario.config;
        let all = config.session.reconnect_window
            + config.session.poll_hold
            + config.timers.stall_threshold
            + config.write_timeout
            + config.close_timeout
            + config.limits.handshake_timeout
            + config.channel.log.age.unwrap_or_default();
        self.schedule.plan(self.now + nanos(all) + self.exchanges(), Action::EndStage(Stage::Leaving));
    }

    /// Whoever is there has everything, and whoever is not has been noticed.
    fn check_settled(&mut self) {
        self.check_followed();
        let sessions = self.server.sessions();
        for session in &sessions {
            let client = self.clients.iter().find(|client| {
                (client.link.is_some() || client.polls) && client.session() == Some(&*session.id)
            });
            if !session.is_attached && !session.is_between_polls || client.is_none() {
                let what = format!("{session:?} was not noticed as left");
                return self.violate("nothing waits for ever", what);
            }
        }
        for number in 0..self.clients.len() {
            let client = &self.clients[number];
            let (Some(link), Some(id)) = (&client.link, client.session()) else { continue };
            // When a kernel gives a connection up, the other end learns nothing.
            let wire = self.connection(link.connection).map(|connection| connection.wire.lock());
            if wire.is_none_or(|wire| wire.is_over_for_server()) {
                continue;
            }
            let Some(session) = sessions.iter().find(|it| it.id == id) else {
                let what = format!("client {number} is connected, and its session is gone");
                return self.violate("nothing waits for ever", what);
            };
            // Between two polls, or while one is under way, there is nothing to compare.
            if (link.is_poll() || link.carrier == Carrier::BayeuxSocket)
                && !session.deadlines.iter().any(|(deadline, _)| *deadline == Deadline::PollHold)
            {
                continue;
            }
            if !link.is_attentive(self.now) || session.is_stopped || session.has_more {
                let what = format!("client {number} does not get on: {link:?}, {session:?}");
                return self.violate("nothing waits for ever", what);
            }
            if let Some(what) = client.bayeux.as_deref().and_then(|it| self.what_bayeux_misses(it, session)) {
                return self.violate("nothing waits for ever", format!("client {number}: {what}"));
            }
            let following = client.page.iter().flat_map(|page| &page.channels);
            let following = following.filter(|it| matches!(it, Following::Yes(_))).count();
            if following > session.subscriptions.len() {
                let what = format!("client {number} follows {following} channels: {session:?}");
                return self.violate("exactly once or a gap", what);
            }
            if let Some(what) = self.what_is_missed(client, &sessions) {
                return self.violate("nothing waits for ever", format!("client {number}: {what}"));
            }
        }
    }

    fn check_empty(&mut self) {
        let held = self.server.held();
        let channels = self.server.channels();
        let has_redis = self.redis.is_some();
        // One task tells connections that they may rest. It sleeps while any is in its line, though that may be gone.
        let tasks_for_rest = usize::from(self.scenario.config.rest_after.is_some());
        let tasks = tasks_for_rest + if has_redis { TASKS_FOR_REDIS } else { 0 };
        let has_age = self.scenario.config.channel.log.age.is_some();
        let is_referred_to = channels.iter().any(|it| it.subscribers + it.references > 0);
        let left = [
            ("sessions", held.sessions),
            ("sessions that a task holds", held.held_sessions),
            ("permits", held.permits),
            ("connections", usize::try_from(held.connections).unwrap_or(usize::MAX)),
            ("open sockets", held.open_connections),
            ("tasks", self.tasks.len().saturating_sub(tasks)),
            // Those tasks sleep.
            (
                "entries in the wheel",
                if has_redis { 0 } else { held.timer_entries.saturating_sub(tasks_for_rest) },
            ),
            ("channels that someone holds", usize::from(is_referred_to)),
            ("channels with messages of a limited age", if has_age { channels.len() } else { 0 }),
            ("bytes of a limited age", if has_age { held.log_bytes } else { 0 }),
            ("empty channels", channels.iter().filter(|channel| channel.messages == 0).count()),
        ];
        for (what, count) in left {
            if count > 0 {
                self.violate("nothing is held by the gone", format!("{count} {what} at the end"));
            }
        }
    }
}
