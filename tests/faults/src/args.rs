//! The command line.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};
use encke_faults::{Cell, Client, Condition, Pace};

/// Stock clients on bad links: when each is back, and what it has lost. Needs root; tests/faults/run installs the rest.
///
/// Fails (exit code 1) when a message was lost without a gap that covers it, came twice or out of order,
/// or had not come after five minutes. Other times are told, not judged.
#[derive(Debug, Parser)]
#[command(name = "faults")]
pub(crate) struct Args {
    /// Only these links: 8kbit, 5%, cut-20s, zero-window-60s, or others of these kinds [default: the table's]
    #[arg(long, value_name = "LINK", value_delimiter = ',')]
    only: Vec<Condition>,
    /// Only these clients
    #[arg(long, value_name = "CLIENT", value_delimiter = ',')]
    clients: Vec<Client>,
    /// In a few seconds, with shorter faults and a server whose timeouts are short as well
    #[arg(long)]
    quick: bool,
    /// The length of each message of the burst, in bytes; it has as many as make up 150 kB
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(1_000..=150_000))]
    burst_message: Option<u32>,
    /// Further keys of the server's configuration
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Write everything to this file as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

/// What a burst is made up of, in bytes, where the length of its messages is given.
const BURST: usize = 150_000;

impl Args {
    /// The cells, link by link.
    pub(crate) fn cells(&self) -> Vec<Cell> {
        let links = match (&self.only[..], self.quick) {
            ([], true) => Condition::quick(),
            ([], false) => Condition::table(),
            (only, _) => only.to_vec(),
        };
        let clients = if self.clients.is_empty() { Client::value_variants() } else { &self.clients };
        let (pace, settings) = (self.pace(), self.settings());
        let row = |condition| {
            let settings = settings.clone();
            clients.iter().map(move |&client| Cell { condition, client, pace, settings: settings.clone() })
        };
        links.into_iter().flat_map(row).collect()
    }

    fn pace(&self) -> Pace {
        let mut pace = if self.quick { Pace::quick() } else { Pace::table() };
        if let Some(length) = self.burst_message.and_then(|length| usize::try_from(length).ok()) {
            pace.burst_message = length;
            pace.burst = BURST.div_ceil(length);
        }
        pace
    }

    fn settings(&self) -> Vec<String> {
        let quick: &[&str] = if self.quick { &Pace::QUICK_SETTINGS } else { &[] };
        quick.iter().map(|&setting| setting.to_owned()).chain(self.set.iter().cloned()).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn args(line: &str) -> Args {
        Args::try_parse_from(line.split(' ')).expect("a good command line")
    }

    #[test]
    fn without_options_it_is_the_table() {
        let cells = args("faults").cells();
        assert_eq!(cells.len(), 9 * 5);
        assert!(cells.iter().all(|cell| cell.settings.is_empty()));
    }

    #[test]
    fn links_clients_and_settings_can_be_chosen() {
        let cells =
            args("faults --only cut-90s,5% --clients curl,httpx-sse --quick --set a=1 --burst-message 50000")
                .cells();
        let chosen: Vec<_> = cells.iter().map(|cell| (cell.condition, cell.client)).collect();
        let (cut, lossy) = (Condition::Cut(Duration::from_secs(90)), Condition::Lossy(5));
        let (curl, httpx) = (Client::Curl, Client::HttpxSse);
        assert_eq!(chosen, [(cut, curl), (cut, httpx), (lossy, curl), (lossy, httpx)]);
        assert_eq!(cells[0].settings.last().map(|setting| &**setting), Some("a=1"));
        assert_eq!((cells[0].pace.burst, cells[0].pace.burst_message), (3, 50_000));
    }
}
