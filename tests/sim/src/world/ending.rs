//! The end of a run: faults stop, all clients catch up and leave, and no resources may be left.

use super::Simulation;
use crate::client::Carrier;
use crate::fault::Fault;
use crate::namespaces::rules_of;
use crate::scenario::{SECOND, nanos};
use crate::schedule::{Action, ClientNumber, Stage};
use crate::truth::LOGS;

/// How long the logs may differ from Redis. Servers compare them once a minute, and keep an unused
/// subscription for another half minute. Before that, they may have to notice a silent connection.
const REDIS_SETTLING_TIME: u64 = 120 * SECOND;

/// Number of tasks that never end if Redis is used: one subscribes to channels, and the others serve the
/// connections to Redis.
const TASKS_FOR_REDIS: usize = 3;

impl Simulation {
    /// Plans the end of the current stage: after all timeouts, and enough time for bytes in transit, requests
    /// and responses.
    fn plan_end_of_stage(&mut self) {
        let config = &self.scenario.config;
        let timeouts = config.session.ping_interval * 2
            + config.session.pong_timeout * 2
            + config.session.reconnect_window
            + config.session.poll_hold
            + config.timers.ping_slack
            + config.timers.stall_threshold
            + config.write_timeout
            + config.close_timeout;
        let timeouts = match self.stage {
            Stage::Leaving => {
                let ages = (0..LOGS).filter_map(|log| rules_of(config, log).log.age);
                timeouts + config.limits.handshake_timeout + ages.max().unwrap_or_default()
            }
            _ => timeouts,
        };
        let to_redis = if self.scenario.redis { REDIS_SETTLING_TIME } else { 0 };
        let to_clients = match (self.scenario.faults.allows(Fault::Latency), config.max_unacked) {
            (false, _) => 10 * SECOND,
            (true, 0..16) => 900 * SECOND,
            (true, _) => 90 * SECOND,
        };
        let at = self.now + nanos(timeouts) + to_redis + to_clients;
        self.schedule.plan(at, Action::EndStage(self.stage));
    }

    pub(super) fn end_stage(&mut self, stage: Stage) {
        if stage != self.stage {
            return;
        }
        self.replace(self.servers.number);
        self.recover_redis();
        self.inputs.engine_delays.lock().end();
        self.inputs.backend.0.lock().end_faults();
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
            let Some(connection) = self.connection(number) else { continue };
            if !self.clients[connection.client].is_linked_by(number) {
                connection.wire.lock().client_closes();
                self.consider(number);
            }
        }
        for number in 0..self.clients.len() {
            let client = &mut self.clients[number];
            if let Some(link) = &mut client.link {
                link.end_faults();
                self.ready.push(Action::Read(link.connection));
            }
            // The new plan cancels the earlier one.
            self.plan_to_act(number, 0);
        }
    }

    fn calm_down(&mut self) {
        self.stage = Stage::Calm;
        self.trace.log(self.now, format_args!("faults end"));
        self.calm_clients();
        self.plan_end_of_stage();
    }

    /// Lets a client continue that polls or has a Bayeux WebSocket, once faults have stopped.
    pub(crate) fn continue_calmly(&mut self, number: ClientNumber) {
        let client = &self.clients[number];
        match &client.link {
            _ if self.stage != Stage::Calm => {}
            None if client.polls && client.session().is_some() => self.connect(number),
            Some(link) if link.carrier == Carrier::BayeuxSocket => self.continue_on_socket(number),
            _ => {}
        }
    }

    fn leave(&mut self) {
        self.stage = Stage::Leaving;
        self.trace.log(self.now, format_args!("all clients leave"));
        for number in 0..self.clients.len() {
            let link = self.clients[number].link.as_ref();
            match link.map(|link| (link.carrier, link.connection)) {
                Some((Carrier::WebSocket, _)) => self.close_session(number),
                Some((_, connection)) => self.cut(connection),
                None => {}
            }
        }
        self.plan_end_of_stage();
    }

    fn drain(&mut self) {
        self.stage = Stage::Leaving;
        self.trace.log(self.now, format_args!("the server drains"));
        self.totals.faults.count(Fault::Drain);
        self.server.drain();
        let sessions = self.server.totals().sessions;
        if sessions > 0 {
            self.violate("drain", format!("{sessions} sessions remain"));
        }
        self.calm_clients();
        self.plan_end_of_stage();
    }

    fn check_empty(&mut self) {
        let (held, channels) = (self.server.totals(), self.server.channels());
        let has_redis = self.scenario.redis;
        // One task parks idle connections. It sleeps while its queue contains an entry, even an outdated one.
        let tasks_for_parking = usize::from(self.scenario.config.park_after.is_some());
        let tasks = tasks_for_parking + if has_redis { TASKS_FOR_REDIS } else { 0 };
        let is_referred_to = channels.iter().any(|it| it.subscribers + it.references > 0);
        let left = [
            ("sessions", held.sessions),
            ("sessions in memory", held.held_sessions),
            ("permits", held.permits),
            ("connections", usize::try_from(held.connections).unwrap_or(usize::MAX)),
            ("open sockets", held.open_connections),
            ("backend requests", held.backend_requests),
            ("joins and leaves", held.queued_notices + held.held_joins),
            ("tasks", self.tasks.len().saturating_sub(tasks)),
            // Don't count the timers of the tasks above.
            (
                "wheel entries",
                if has_redis { 0 } else { held.timer_entries.saturating_sub(tasks_for_parking) },
            ),
            ("channels with references", usize::from(is_referred_to)),
            (
                "channels despite an age limit",
                channels.iter().filter(|channel| self.age_limit(channel).is_some()).count(),
            ),
            ("log bytes without a channel", if channels.is_empty() { held.log_bytes } else { 0 }),
            ("empty channels", channels.iter().filter(|channel| channel.messages == 0).count()),
        ];
        for (what, count) in left.into_iter().filter(|(_, count)| *count > 0) {
            self.violate("no leaks", format!("{count} {what} at the end"));
        }
    }
}
