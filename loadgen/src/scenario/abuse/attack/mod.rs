//! The attacks. Each module defines what one connection of the attacker does repeatedly until the attack
//! ends.

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

use super::attacker::{AttackSession, Attacker, CommandBatch};
use crate::args::Attack;

/// Runs the connection with this index, counted from 0.
pub(super) type ConnectionTask = fn(Rc<Attacker>, u32) -> Pin<Box<dyn Future<Output = ()>>>;

macro_rules! worker {
    ($attack:ident) => {
        |attacker, index| Box::pin($attack::run(attacker, index))
    };
}

pub(super) fn worker(attack: Attack) -> ConnectionTask {
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

/// Number of commands sent at a time: as many as a session may send per second by default.
const BATCH_COMMANDS: u32 = 100;
