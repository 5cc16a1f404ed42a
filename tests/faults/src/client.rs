//! Stock clients, each as others would run it.

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use encke_tests::network::NetworkLink;
use encke_tests::{Script, binaries};

/// The channel that they follow.
pub(crate) const CHANNEL: &str = "news";

/// Which client.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub enum Client {
    /// The README's code for pages over the WebSocket of npm's `ws`
    Json,
    /// Chromium's EventSource
    Chromium,
    /// npm's `eventsource`
    Eventsource,
    /// `curl` in a loop of a shell, with the id of the last event that it printed
    Curl,
    /// Python's `httpx-sse` in a loop, likewise
    HttpxSse,
}

impl Client {
    /// Starts it at the far end of a link, against the server at `address`.
    ///
    /// # Panics
    /// When it is not installed.
    #[must_use]
    pub fn start(self, link: &NetworkLink, address: SocketAddr) -> Script {
        let address = address.to_string();
        let events = format!("http://{address}/events?channels={CHANNEL}");
        match self {
            Self::Json => Script::start_beyond(link, "session_outside.mjs", &[&address, CHANNEL]),
            Self::Chromium => Script::start_beyond(link, "event_source_page.mjs", &[&address, CHANNEL]),
            Self::Eventsource => Script::start_beyond(link, "event_source.mjs", &[&address, CHANNEL]),
            Self::Curl => {
                let mut command = link.command("bash");
                command.arg(script("curl.sh")).arg(events);
                Script::spawn(command)
            }
            Self::HttpxSse => {
                let python = binaries::python_with_httpx();
                let mut command = link.command(python.to_str().expect("its path is text"));
                command.arg(script("httpx_sse_client.py")).arg(events);
                Script::spawn(command)
            }
        }
    }

    /// What says that it follows the channel: a message that is published afterwards reaches it.
    #[must_use]
    pub fn ready(self) -> &'static str {
        match self {
            Self::Json => "reply",
            _ => "hello",
        }
    }
}

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("clients").join(name)
}

impl fmt::Display for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.to_possible_value().expect("none is skipped").get_name())
    }
}
