//! A randomized test that compares join and leave notices with a model.

use std::collections::{BTreeMap, BTreeSet};

use encke_core::Timestamp;
use encke_core::close::SuspendReason;
use encke_core::dialect::StartPosition;
use encke_core::session::{ConnectionInput, Phase};
use encke_seeds::with_seeds;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::*;
use crate::session::Attached;

/// A session that the model tracks.
struct KnownSession {
    attached: Attached,
    user: &'static str,
}

struct JoinLeaveModel {
    world: JoinLeaveWorld,
    rng: SmallRng,
    known: Vec<KnownSession>,
    /// Changes of each session on each channel: `+` for a join, `-` for a leave.
    changes: BTreeMap<(&'static str, String), String>,
    joins_per_minute: u32,
    began: Timestamp,
}

const CHANNELS: [&str; 4] = ["/a/x", "/a/y", "/b", "/a/*"];

impl JoinLeaveModel {
    /// Records in the model that the session has subscribed (`+`) or unsubscribed (`-`).
    fn record_change(&mut self, sign: char, session: &SessionHandle, channel: &'static str) {
        if ["/a/x", "/a/y"].contains(&channel) {
            self.changes.entry((channel, line(' ', session))).or_default().push(sign);
        }
    }

    /// Runs an action, and records in the model which of the session's subscriptions have changed.
    fn with_changes(&mut self, at: usize, act: impl FnOnce(&mut Self)) {
        let session = self.world.services.sessions.table.clone_handle(&self.known[at].attached.session);
        let subscribed = |model: &Self| {
            CHANNELS
                .map(|channel| model.world.services.sessions.subscriptions.is_subscribed(&session, channel))
        };
        let before = subscribed(self);
        act(self);
        let after = subscribed(self);
        for (channel, (before, after)) in CHANNELS.into_iter().zip(before.into_iter().zip(after)) {
            match (before, after) {
                (false, true) => self.record_change('+', &session, channel),
                (true, false) => self.record_change('-', &session, channel),
                _ => {}
            }
        }
    }

    fn step(&mut self) {
        let action = self.rng.random_range(0..14);
        if self.known.is_empty() || (action == 0 && self.known.len() < 8) {
            let user = ["ann", "bob", "carol"][self.rng.random_range(0..3)];
            self.known.push(KnownSession { attached: self.world.attach(user, "*", None), user });
            return;
        }
        let (at, channel) =
            (self.rng.random_range(0..self.known.len()), CHANNELS[self.rng.random_range(0..4)]);
        self.with_changes(at, |model| {
            let (world, attached) = (&model.world, &model.known[at].attached);
            let (session, sessions) = (&attached.session, &world.services.sessions);
            match action {
                0..=3 => _ = world.subscribe(session, channel),
                4..=5 => world.unsubscribe(session, channel),
                6 => {
                    _ = is_ok(sessions.subscriptions.subscribe_by_backend(
                        session,
                        &name(channel),
                        &StartPosition::Now,
                    ))
                }
                7 => _ = sessions.subscriptions.unsubscribe_by_backend(session, &name(channel)),
                8 => {
                    let ended = ConnectionInput::Ended(SuspendReason::PeerClosed);
                    sessions.lifecycle.handle_connection(session, attached.mailbox.id, ended);
                }
                // The new token may allow less.
                9 if !matches!(session.phase(), Phase::Closed(_)) => {
                    let allowed = if model.rng.random() { "*" } else { "/a/x" };
                    let token = session.resume_token().expose().to_string();
                    let resumed = world.attach(model.known[at].user, allowed, Some(token));
                    assert!(resumed.recovered);
                    model.known[at].attached = resumed;
                }
                10 => world.kick(session),
                _ => {}
            }
        });
        match action {
            11 => (0..self.rng.random_range(1..4)).for_each(|_| self.world.tasks.poll_all()),
            12 => self.pass_time(),
            13 => {
                let refusal = self.rng.random::<bool>().then_some(EngineError::Unavailable);
                *self.world.engine.refusal.lock() = refusal;
            }
            _ => {}
        }
        let is_over = |known: &KnownSession| matches!(known.attached.session.phase(), Phase::Closed(_));
        self.known.retain(|known| !is_over(known));
        if self.rng.random_ratio(1, 4) {
            ["/a/x", "/a/y"].into_iter().for_each(|channel| self.check_channel(channel));
        }
    }

    /// Checks that presence lists the sessions that were announced, and that joins were announced within the
    /// limit.
    fn check_channel(&self, channel: &str) {
        let mut announced = BTreeSet::new();
        let mut joins: BTreeMap<&str, u32> = BTreeMap::new();
        let notices = self.world.notices(channel);
        for notice in &notices {
            let (sign, of) = notice.split_at(1);
            let is_change = if sign == "+" { announced.insert(of) } else { announced.remove(of) };
            assert!(is_change, "{notices:?}");
            let user = of.split(r#""user":"#).nth(1).expect("a user");
            *joins.entry(user).or_default() += u32::from(sign == "+");
        }
        let elapsed = self.world.services.timeouts.clock().now().since(self.began).as_secs_f64();
        let limit = f64::from(self.joins_per_minute) * (1.0 + elapsed / 60.0);
        assert!(
            self.joins_per_minute == 0 || joins.values().all(|joins| f64::from(*joins) <= limit + 1e-6),
            "{joins:?} in {elapsed} s, {} per minute",
            self.joins_per_minute
        );
        let present = self.world.present(channel);
        let queued = self.world.services.sessions.subscriptions.join_leave().snapshot();
        if !queued.iter().any(|notice| notice.channel == channel) {
            let announced: BTreeSet<_> = announced.iter().map(|of| of.split('"').nth(3)).collect();
            assert_eq!(announced, present.iter().map(|id| Some(&**id)).collect());
        }
    }

    /// Advances the time. Sessions that have been suspended too long expire, and silent ones are suspended.
    fn pass_time(&mut self) {
        let seconds = self.rng.random_range(1..100);
        self.world.time.advance(Duration::from_secs(seconds));
        for at in 0..self.known.len() {
            self.with_changes(at, |model| {
                let slot = model.known[at].attached.session.reference().slot();
                model.world.services.sessions.lifecycle.handle_timeout(slot, &mut Vec::new());
            });
        }
    }
}

/// After random actions of clients, the server, connections, time and the engine, the published notices of
/// each session match its changes, in order. Within the limit, each change is published. Beyond it, joins that
/// are followed by leaves may be omitted.
#[test]
fn published_notices_match_the_changes() {
    with_seeds(0..40, |seed| {
        let mut rng = SmallRng::seed_from_u64(seed);
        let joins_per_minute = if seed % 2 == 0 { 0 } else { rng.random_range(1..20) };
        let world = JoinLeaveWorld::with_limit(joins_per_minute);
        let (began, changes) = (world.services.timeouts.clock().now(), BTreeMap::new());
        let known = Vec::new();
        let mut model = JoinLeaveModel { world, rng, known, changes, joins_per_minute, began };
        for _ in 0..400 {
            model.step();
        }
        *model.world.engine.refusal.lock() = None;
        model.world.settle();
        model.check_channel("/a/x");
        model.check_channel("/a/y");
        // Leave out the pattern, whose log has the notices of both channels.
        let mut published: BTreeMap<(&str, String), String> = BTreeMap::new();
        for channel in &CHANNELS[..3] {
            for notice in model.world.notices(channel) {
                let (sign, of) = notice.split_at(1);
                published.entry((*channel, format!(" {of}"))).or_default().push_str(sign);
            }
        }
        if joins_per_minute > 0 {
            published.retain(|_, signs| signs.ends_with('+'));
            model.changes.retain(|_, signs| signs.ends_with('+'));
            published.values_mut().chain(model.changes.values_mut()).for_each(|signs| *signs = "+".into());
        }
        assert_eq!(published, model.changes);
        assert_eq!(model.world.dropped(), 0);
    });
}
