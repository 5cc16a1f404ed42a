//! Transports: moving bytes between a socket and a session.

mod metered;
mod places;
mod socket;
pub(crate) mod websocket;

pub(crate) use places::{Place, Places};
pub(crate) use socket::Socket;
