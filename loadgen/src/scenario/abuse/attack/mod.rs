//! The attacks. Each is what one connection of the attacker does, again and again, until it is stopped.

mod burn;
mod channels;
mod events;
mod fragments;
mod frames;
mod handshakes;
mod headers;
mod history;
mod none;
mod publishes;
mod resume;
mod slowread;
mod suspended;
mod tokens;

use std::pin::Pin;
use std::rc::Rc;

use super::attacker::{Attacker, Batch, Session};
use crate::args::Attack;

/// A connection of this number, counted from 0.
pub(super) type Worker = fn(Rc<Attacker>, u32) -> Pin<Box<dyn Future<Output = ()>>>;

macro_rules! worker {
    ($attack:ident) => {
        |attacker, index| Box::pin($attack::run(attacker, index))
    };
}

pub(super) fn worker(attack: Attack) -> Worker {
    match attack {
        Attack::Frames => worker!(frames),
        Attack::Publishes => worker!(publishes),
        Attack::Channels => worker!(channels),
        Attack::Suspended => worker!(suspended),
        Attack::Headers => worker!(headers),
        Attack::Handshakes => worker!(handshakes),
        Attack::Resume => worker!(resume),
        Attack::History => worker!(history),
        Attack::Tokens => worker!(tokens),
        Attack::Fragments => worker!(fragments),
        Attack::Slowread => worker!(slowread),
        Attack::Events => worker!(events),
        Attack::None => worker!(none),
        Attack::Burn => worker!(burn),
    }
}

/// How many commands go out at once: as many as a session may send a second, by default.
const BATCH: u32 = 100;
