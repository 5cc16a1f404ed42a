//! The paths of Bayeux: what clients of CometD and Faye send over HTTP.

mod asked;
mod browser;
mod callback;
mod command;
mod connect;
mod handshake;
mod session;
mod socket;

use std::sync::Arc;

use crate::admission::Browsers;

pub(super) use asked::ask;
#[cfg(feature = "simulation")]
pub(crate) use asked::asked_in;
#[cfg(test)]
pub(super) use command::{Replies, carry_out};
pub(crate) use socket::{SocketUpgrade, serve as serve_socket};

/// What all requests of such clients share.
pub(crate) struct Bayeux {
    path: String,
    callback_polling: bool,
    browsers: Arc<Browsers>,
}

/// Below the path. Clients of CometD append what a request is for.
const BELOW: [&str; 5] = ["", "/", "/handshake", "/connect", "/disconnect"];

impl Bayeux {
    /// At an empty path there is nothing.
    pub(crate) fn new(path: String, polls_per_browser: usize, callback_polling: bool) -> Self {
        Self { path, callback_polling, browsers: Browsers::new(polls_per_browser) }
    }

    /// Whether requests with this path are for it.
    pub(super) fn serves(&self, path: &str) -> bool {
        !self.path.is_empty() && path.strip_prefix(&*self.path).is_some_and(|below| BELOW.contains(&below))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_paths_are_its() {
        let bayeux = |path: &str| Bayeux::new(path.into(), 1, false);
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
