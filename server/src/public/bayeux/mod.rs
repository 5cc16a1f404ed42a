//! Bayeux over HTTP and WebSocket, for CometD and Faye clients.

mod browser;
mod callback;
mod command;
mod connect;
mod handshake;
mod request;
mod session;
mod socket;

use std::sync::Arc;

use crate::admission::Browsers;

#[cfg(test)]
pub(super) use command::{Replies, carry_out};
pub(super) use request::read_head;
#[cfg(feature = "simulation")]
pub(crate) use request::request_with_body;
pub(crate) use session::Requester;
pub(crate) use socket::{SocketUpgrade, serve as serve_socket};

/// State shared by all Bayeux requests.
pub(crate) struct BayeuxEndpoint {
    path: String,
    callback_polling: bool,
    browsers: Arc<Browsers>,
}

/// Suffixes of the path. CometD clients append the type of the request.
const SUBPATHS: [&str; 5] = ["", "/", "/handshake", "/connect", "/disconnect"];

impl BayeuxEndpoint {
    /// Creates the endpoint. An empty path disables Bayeux.
    pub(crate) fn new(path: String, polls_per_browser: usize, callback_polling: bool) -> Self {
        Self { path, callback_polling, browsers: Browsers::new(polls_per_browser) }
    }

    /// Whether this path belongs to Bayeux.
    pub(super) fn serves(&self, path: &str) -> bool {
        !self.path.is_empty() && path.strip_prefix(&*self.path).is_some_and(|below| SUBPATHS.contains(&below))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_suffixes_are_served() {
        let bayeux = |path: &str| BayeuxEndpoint::new(path.into(), 1, false);
        for (path, is_its) in [
            ("/bayeux", true),
            ("/bayeux/", true),
            ("/bayeux/handshake", true),
            ("/bayeux/connect/", false),
            ("/bayeuxx", false),
            ("/", false),
        ] {
            assert_eq!(bayeux("/bayeux").serves(path), is_its, "{path}");
            assert!(!bayeux("").serves(path), "{path}");
        }
    }
}
