//! HTTP: the accept loop, and what the public and the admin listener answer.

mod accept;
pub(crate) mod admin;
pub(crate) mod body;
pub(crate) mod public;
pub(crate) mod reply;

pub(crate) use accept::{Listener, accept, accept_to_the_end};
pub(crate) use reply::{ApiError, Reply};
