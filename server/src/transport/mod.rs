//! Transports: moving bytes between a socket and a session.

mod metered;
pub(crate) mod websocket;
