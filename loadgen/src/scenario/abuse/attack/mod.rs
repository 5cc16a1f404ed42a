//! The attacks. Each function is what one connection of the attacker does repeatedly until the attack ends. Its
//! documentation says what the attack costs, and how a server should defend itself.

mod commands;
mod controls;
mod frames;
mod requests;
mod sessions;
mod slowread;
mod tokens;

use std::pin::Pin;
use std::rc::Rc;

use super::attacker::{AttackSession, Attacker, CommandBatch};
use crate::args::Attack;

/// Runs the connection with this index, counted from 0.
pub(super) type ConnectionTask = fn(Rc<Attacker>, u32) -> Pin<Box<dyn Future<Output = ()>>>;

macro_rules! worker {
    ($attack:path) => {
        |attacker, index| Box::pin($attack(attacker, index))
    };
}

pub(super) fn worker(attack: Attack) -> ConnectionTask {
    match attack {
        Attack::Frames => worker!(frames::frames),
        Attack::Publishes => worker!(commands::publishes),
        Attack::Channels => worker!(commands::channels),
        Attack::Suspended => worker!(sessions::suspended),
        Attack::Headers => worker!(requests::headers),
        Attack::Handshakes => worker!(requests::handshakes),
        Attack::Resume => worker!(sessions::resume),
        Attack::History => worker!(commands::history),
        Attack::Presence => worker!(commands::presence),
        Attack::Joins => worker!(commands::joins),
        Attack::Tokens => worker!(tokens::tokens),
        Attack::Fragments => worker!(frames::fragments),
        Attack::Slowread => worker!(slowread::slowread),
        Attack::Events => worker!(requests::events),
        Attack::None => worker!(controls::none),
        Attack::Burn => worker!(controls::burn),
    }
}

/// Returns the size of the receive buffers of an attack's connections. `None`: the kernel chooses it.
pub(super) fn receive_buffer_bytes(attack: Attack) -> Option<u32> {
    (attack == Attack::Slowread).then_some(slowread::RECEIVE_BUFFER_BYTES)
}

/// Number of commands sent at a time: as many as a session may send per second by default.
const BATCH_COMMANDS: u32 = 100;
