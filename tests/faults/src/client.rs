//! Stock clients, run as their documentation recommends.

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use encke_tests::network::NetworkLink;
use encke_tests::{Script, binaries};

/// Channel to which the clients subscribe.
pub(crate) const CHANNEL: &str = "news";

/// A client that can be tested.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum FaultClient {
    /// The code of client-by-hand.md, with the WebSocket of npm's `ws`
    Json,
    /// Chromium's EventSource
    Chromium,
    /// npm's `eventsource`
    Eventsource,
    /// `curl` in a shell loop, with the id of the last event that it printed
    Curl,
    /// Python's `httpx-sse` in a loop, likewise
    HttpxSse,
}

impl FaultClient {
    /// Starts the client at the far end of a link. It connects to the server at `address`.
    ///
    /// # Panics
    /// If the client is not installed.
    pub(crate) fn start(self, link: &NetworkLink, address: SocketAddr) -> Script {
        let address = address.to_string();
        let events = format!("http://{address}/events?channels={CHANNEL}");
        match self {
            Self::Json => Script::start_beyond(link, "session_outside.mjs", &[&address, CHANNEL]),
            Self::Chromium => {
                Script::start_beyond(link, "pages.mjs", &["event_source_page.mjs", &address, CHANNEL])
            }
            Self::Eventsource => Script::start_beyond(link, "event_source.mjs", &[&address, CHANNEL]),
            Self::Curl => {
                let mut command = link.command("bash");
                command.arg(script("curl.sh")).arg(events);
                Script::spawn(command)
            }
            Self::HttpxSse => {
                let python = binaries::python_with_httpx();
                let mut command = link.command(python.to_str().expect("its path is UTF-8"));
                command.arg(script("httpx_sse_client.py")).arg(events);
                Script::spawn(command)
            }
        }
    }

    /// Returns the key of the object that the client prints once it is subscribed. The client receives all
    /// messages published after that.
    pub(crate) fn subscribed_key(self) -> &'static str {
        match self {
            Self::Json => "reply",
            _ => "hello",
        }
    }
}

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("clients").join(name)
}

impl fmt::Display for FaultClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.to_possible_value().expect("no variant is skipped").get_name())
    }
}
