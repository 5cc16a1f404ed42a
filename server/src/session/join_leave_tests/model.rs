//! Sessions that do anything at random, beside a model of what is told of them.

use std::collections::BTreeMap;

use encke_core::close::SuspendReason;
use encke_core::session::{ConnectionInput, Phase};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::*;
use crate::seeds::with_seeds;

/// One that the model knows.
struct Known {
    attached: Attached,
    user: &'static str,
}

struct Model {
    world: World,
    rng: SmallRng,
    known: Vec<Known>,
    told: BTreeMap<&'static str, Vec<String>>,
}

const CHANNELS: [&str; 4] = ["/a/x", "/a/y", "/b", "/a/*"];

impl Model {
    /// The session follows this now, and did not, or the other way round.
    fn changed(&mut self, sign: char, session: &SessionHandle, channel: &'static str) {
        if ["/a/x", "/a/y"].contains(&channel) {
            self.told.entry(channel).or_default().push(line(sign, session));
        }
    }

    /// Does something that may change what a session follows, and notes what it has changed.
    fn watching(&mut self, at: usize, act: impl FnOnce(&mut Self)) {
        let session = self.world.context.sessions.hold(&self.known[at].attached.session);
        let follows =
            |model: &Self| CHANNELS.map(|channel| model.world.context.sessions.follows(&session, channel));
        let before = follows(self);
        act(self);
        let after = follows(self);
        for (channel, (before, after)) in CHANNELS.into_iter().zip(before.into_iter().zip(after)) {
            match (before, after) {
                (false, true) => self.changed('+', &session, channel),
                (true, false) => self.changed('-', &session, channel),
                _ => {}
            }
        }
    }

    fn step(&mut self) {
        let what = self.rng.random_range(0..14);
        if self.known.is_empty() || (what == 0 && self.known.len() < 8) {
            let user = ["ann", "bob", "carol"][self.rng.random_range(0..3)];
            self.known.push(Known { attached: self.world.attach(user, "*", None), user });
            return;
        }
        let (at, channel) =
            (self.rng.random_range(0..self.known.len()), CHANNELS[self.rng.random_range(0..4)]);
        self.watching(at, |model| {
            let (world, attached) = (&model.world, &model.known[at].attached);
            let (session, sessions) = (&attached.session, &world.context.sessions);
            match what {
                0..=3 => _ = world.subscribe(session, channel),
                4..=5 => world.unsubscribe(session, channel),
                6 => _ = is_ok(sessions.subscribe_for(session, &name(channel), &Beginning::Now)),
                7 => _ = sessions.unsubscribe_for(session, &name(channel)),
                8 => {
                    let ended = ConnectionInput::Ended(SuspendReason::PeerClosed);
                    sessions.handle_connection(session, attached.link.id, ended);
                }
                // A token that allows less comes with it, or not.
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
        match what {
            11 => (0..self.rng.random_range(1..4)).for_each(|_| self.world.tasks.turn()),
            12 => self.pass(),
            13 => {
                let refusal = self.rng.random::<bool>().then_some(EngineError::Unavailable);
                *self.world.engine.refusal.lock() = refusal;
            }
            _ => {}
        }
        let is_over = |known: &Known| matches!(known.attached.session.phase(), Phase::Closed(_));
        self.known.retain(|known| !is_over(known));
    }

    /// Time passes. Those that have been suspended for too long expire, and those that are silent are suspended.
    fn pass(&mut self) {
        let seconds = self.rng.random_range(1..100);
        self.world.time.advance(Duration::from_secs(seconds));
        for at in 0..self.known.len() {
            self.watching(at, |model| {
                let slot = model.known[at].attached.session.reference().index();
                model.world.context.sessions.handle_timeout(slot, &mut Vec::new());
            });
        }
    }
}

/// Beside a model: whatever clients, the server, their connections, time and the engine do, what is told is what has changed, on each channel in its order.
#[test]
fn what_is_told_is_what_has_changed() {
    with_seeds(0..40, |seed| {
        let rng = SmallRng::seed_from_u64(seed);
        let mut model = Model { world: World::new(), rng, known: Vec::new(), told: BTreeMap::new() };
        for _ in 0..400 {
            model.step();
        }
        *model.world.engine.refusal.lock() = None;
        model.world.settle();
        // The log of a pattern has those of both.
        for channel in &CHANNELS[..3] {
            let expected = model.told.get(channel).cloned().unwrap_or_default();
            assert_eq!(model.world.told(channel), expected, "{channel}");
        }
        assert_eq!(model.world.untold(), 0);
    });
}
