//! Transports: moving bytes between a socket and a session.

mod metered;
mod places;
pub(crate) mod websocket;

pub(crate) use places::{Place, Places};
