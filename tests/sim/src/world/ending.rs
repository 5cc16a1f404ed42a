//! The end of a run: faults stop, all clients catch up and leave, and no resources may be left.

use encke_core::session::Deadline;

use super::Simulation;
use crate::client::{Carrier, ChannelSubscription};
use crate::fault::Fault;
use crate::scenario::{SECOND, nanos};
use crate::schedule::{Action, ClientNumber, Stage};

/// How long the logs may differ from Redis. Servers compare them once a minute, and keep an unused
/// subscription for another half minute. Before that, they may have to notice a silent connection.
const REDIS_SETTLING_TIME: u64 = 120 * SECOND;

/// Number of tasks that never end if Redis is used: one subscribes to channels, and the others serve the
/// connections to Redis.
const TASKS_FOR_REDIS: usize = 3;

impl Simulation {
    /// Returns the time allowed for everything that is not a timeout: bytes in transit, requests and
    /// responses.
    fn exchange_time(&self) -> u64 {
        let to_redis = if self.scenario.redis { REDIS_SETTLING_TIME } else { 0 };
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
        self.replace(self.servers.number);
        self.recover_redis();
        self.inputs.engine_delays.end();
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

    /// Ends the faults of all clients and cancels their planned actions, so that only clients that poll or
    /// have a Bayeux WebSocket continue. Closes abandoned connections, because the server considers an event
    /// stream alive as long as its bytes are read.
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
            let continues_polling = client.link.is_none() && client.polls && client.session().is_some()
                || client.link.as_ref().is_some_and(|link| link.carrier == Carrier::BayeuxSocket);
            if let Some(link) = &mut client.link {
                link.paused_until = 0;
                link.read_chunks = None;
                link.ignores_pings = false;
                link.is_late = false;
                self.ready.push(Action::Read(link.connection));
            }
            if continues_polling {
                self.plan_to_act(u32::try_from(number).expect("few clients"), 0);
            }
        }
    }

    fn calm_down(&mut self) {
        self.stage = Stage::Calm;
        self.trace.log(self.now, format_args!("faults end"));
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
        self.schedule.plan(self.now + nanos(all) + self.exchange_time(), Action::EndStage(Stage::Calm));
    }

    /// Lets a client continue that polls or has a Bayeux WebSocket.
    pub(super) fn continue_polling(&mut self, number: ClientNumber, plan: u32) {
        let client = &self.clients[number as usize];
        if client.plan != plan {
            return;
        }
        match &client.link {
            None if client.polls && client.session().is_some() => self.connect(number),
            Some(link) if link.carrier == Carrier::BayeuxSocket => self.continue_on_socket(number),
            _ => {}
        }
    }

    fn leave(&mut self) {
        self.stage = Stage::Leaving;
        self.trace.log(self.now, format_args!("all clients leave"));
        for number in 0..self.scenario.clients {
            let link = self.clients[number as usize].link.as_ref();
            match link.map(|link| (link.carrier, link.connection)) {
                Some((Carrier::WebSocket, _)) => self.close_session(number),
                Some((_, connection)) => self.cut(connection),
                None => {}
            }
            self.clients[number as usize].plan += 1;
        }
        self.plan_end();
    }

    fn drain(&mut self) {
        self.stage = Stage::Leaving;
        self.trace.log(self.now, format_args!("the server drains"));
        self.fault_counts.count(Fault::Drain);
        self.server.drain();
        let sessions = self.server.totals().sessions;
        if sessions > 0 {
            self.violate("drain", format!("{sessions} sessions remain"));
        }
        self.calm_clients();
        self.plan_end();
    }

    fn plan_end(&mut self) {
        let config = &self.scenario.config;
        let all = config.session.reconnect_window
            + config.session.poll_hold
            + config.timers.stall_threshold
            + config.write_timeout
            + config.close_timeout
            + config.limits.handshake_timeout
            + config.channel.log.age.unwrap_or_default();
        self.schedule.plan(self.now + nanos(all) + self.exchange_time(), Action::EndStage(Stage::Leaving));
    }

    /// Checks that connected clients have received everything, and that the server has noticed the others as
    /// disconnected.
    fn check_settled(&mut self) {
        self.check_logs_match_redis();
        let sessions = self.server.sessions();
        for session in &sessions {
            let client = self.clients.iter().find(|client| {
                (client.link.is_some() || client.polls) && client.session() == Some(&*session.id)
            });
            if !session.is_attached && !session.is_between_polls || client.is_none() {
                let what = format!("{session:?} has no client, but was not suspended");
                return self.violate("progress", what);
            }
        }
        for number in 0..self.clients.len() {
            let client = &self.clients[number];
            let (Some(link), Some(id)) = (&client.link, client.session()) else { continue };
            // Skip a connection that has ended for the server: if a kernel gives up a connection, the other
            // end does not notice.
            let wire = self.connection(link.connection).map(|connection| connection.wire.lock());
            if wire.is_none_or(|wire| wire.is_over_for_server()) {
                continue;
            }
            let Some(session) = sessions.iter().find(|it| it.id == id) else {
                let what = format!("client {number} is connected, but its session does not exist");
                return self.violate("progress", what);
            };
            // Between polls, or while a poll is in transit, nothing can be compared.
            if (link.is_poll() || link.carrier == Carrier::BayeuxSocket)
                && !session.deadlines.iter().any(|(deadline, _)| *deadline == Deadline::PollHold)
            {
                continue;
            }
            if !link.is_attentive(self.now) || session.is_stopped || session.has_more {
                let what = format!("client {number} makes no progress: {link:?}, {session:?}");
                return self.violate("progress", what);
            }
            if let Some(what) =
                client.bayeux.as_deref().and_then(|it| self.describe_missed_by_bayeux(it, session))
            {
                return self.violate("progress", format!("client {number}: {what}"));
            }
            let subscription = client.model.iter().flat_map(|model| &model.channels);
            let subscription = subscription.filter(|it| matches!(it, ChannelSubscription::Active(_))).count();
            if subscription > session.subscriptions.len() {
                let what = format!("client {number} has {subscription} subscriptions: {session:?}");
                return self.violate("exactly once or a gap", what);
            }
            if let Some(what) = self.describe_missed(client, &sessions) {
                return self.violate("progress", format!("client {number}: {what}"));
            }
        }
    }

    fn check_empty(&mut self) {
        let held = self.server.totals();
        let channels = self.server.channels();
        let has_redis = self.redis.is_some();
        // One task parks idle connections. It sleeps while its queue contains an entry, even an outdated one.
        let tasks_for_rest = usize::from(self.scenario.config.park_after.is_some());
        let tasks = tasks_for_rest + if has_redis { TASKS_FOR_REDIS } else { 0 };
        let has_age = self.scenario.config.channel.log.age.is_some();
        let is_referred_to = channels.iter().any(|it| it.subscribers + it.references > 0);
        let left = [
            ("sessions", held.sessions),
            ("sessions in memory", held.held_sessions),
            ("permits", held.permits),
            ("connections", usize::try_from(held.connections).unwrap_or(usize::MAX)),
            ("open sockets", held.open_connections),
            ("tasks", self.tasks.len().saturating_sub(tasks)),
            // Don't count the timers of the tasks above.
            ("wheel entries", if has_redis { 0 } else { held.timer_entries.saturating_sub(tasks_for_rest) }),
            ("channels with references", usize::from(is_referred_to)),
            ("channels despite an age limit", if has_age { channels.len() } else { 0 }),
            ("log bytes despite an age limit", if has_age { held.log_bytes } else { 0 }),
            ("empty channels", channels.iter().filter(|channel| channel.messages == 0).count()),
        ];
        for (what, count) in left {
            if count > 0 {
                self.violate("no leaks", format!("{count} {what} at the end"));
            }
        }
    }
}
