//! A randomized test that compares join and leave notices with a model.

use std::collections::BTreeMap;

use encke_core::Timestamp;
use encke_core::close::SuspendReason;
use encke_core::session::{ConnectionInput, Phase};
use encke_seeds::with_seeds;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::*;

/// A session that the model tracks.
struct KnownSession {
    attached: Attached,
    user: &'static str,
}

struct JoinLeaveModel {
    world: JoinLeaveWorld,
    rng: SmallRng,
    known: Vec<KnownSession>,
    announced: BTreeMap<(&'static str, String), Announced>,
}

/// Announcements of a session on a channel: `+` for a join, `-` for a leave.
#[derive(Default)]
struct Announced {
    signs: Vec<char>,
    joined_at: Option<Timestamp>,
    /// Latest state, and when it is announced.
    held: Option<(Timestamp, char)>,
}

impl Announced {
    fn change(&mut self, sign: char, now: Timestamp) {
        match &mut self.held {
            Some((due, held)) if *due > now => return *held = sign,
            _ => self.release(),
        }
        match self.joined_at.map(|at| at + JOIN_INTERVAL).filter(|due| *due > now) {
            Some(due) if sign == '+' => self.held = Some((due, sign)),
            _ => {
                self.signs.push(sign);
                self.joined_at = if sign == '+' { Some(now) } else { self.joined_at };
            }
        }
    }

    fn release(&mut self) {
        if let Some((due, sign)) = self.held.take() {
            self.signs.push(sign);
            self.joined_at = Some(due);
        }
    }
}

const CHANNELS: [&str; 4] = ["/a/x", "/a/y", "/b", "/a/*"];

impl JoinLeaveModel {
    /// Records in the model that the session has subscribed (`+`) or unsubscribed (`-`).
    fn record_change(&mut self, sign: char, session: &SessionHandle, channel: &'static str) {
        if ["/a/x", "/a/y"].contains(&channel) {
            let now = self.world.services.timeouts.clock().now();
            let key = (channel, line(' ', session));
            self.announced.entry(key).or_default().change(sign, now);
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
/// each session match its changes, in order. A session that joins again within a second is announced later,
/// with its latest state.
#[test]
fn published_notices_match_the_changes() {
    with_seeds(0..40, |seed| {
        let rng = SmallRng::seed_from_u64(seed);
        let mut model = JoinLeaveModel {
            world: JoinLeaveWorld::new(),
            rng,
            known: Vec::new(),
            announced: BTreeMap::new(),
        };
        for _ in 0..400 {
            model.step();
        }
        *model.world.engine.refusal.lock() = None;
        model.world.settle();
        // Leave out the pattern, whose log has the notices of both channels.
        let mut published: BTreeMap<(&str, String), Vec<char>> = BTreeMap::new();
        for channel in &CHANNELS[..3] {
            for notice in model.world.notices(channel) {
                let (sign, of) = notice.split_at(1);
                published.entry((*channel, format!(" {of}"))).or_default().extend(sign.chars());
            }
        }
        model.announced.values_mut().for_each(Announced::release);
        let expected = model.announced.into_iter().map(|(key, announced)| (key, announced.signs));
        assert_eq!(published, expected.collect());
        assert_eq!(model.world.dropped(), 0);
    });
}
