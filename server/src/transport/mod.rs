//! Transports: moving bytes between a socket and a session.

mod attachment;
mod caller;
mod metered;
mod places;
mod rate;
mod socket;
mod unwritten;
pub(crate) mod websocket;
mod write_hold;

pub(crate) use caller::Caller;
pub(crate) use places::{Place, Places};
pub(crate) use socket::Socket;
