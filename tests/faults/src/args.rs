//! Command line options.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};
use encke_faults::{FaultCell, FaultClient, LinkCondition, TrafficPlan};

/// Measures when stock clients on bad links recover, and what they lose. Needs root; tests/faults/run
/// installs the other requirements.
///
/// Exits with code 1 if a message was lost without a gap that covers it, arrived twice or out of order, or
/// had not arrived after five minutes. Recovery times are reported, but do not affect the exit code.
#[derive(Debug, Parser)]
#[command(name = "faults")]
pub(crate) struct FaultsArgs {
    /// Only these links, such as 8kbit, 5%, cut-20s or zero-window-60s, with any number [default: those of
    /// the table]
    #[arg(long, value_name = "LINK", value_delimiter = ',')]
    only: Vec<LinkCondition>,
    /// Only these clients
    #[arg(long, value_name = "CLIENT", value_delimiter = ',')]
    clients: Vec<FaultClient>,
    /// Run for a few seconds only, with shorter faults and shorter timeouts of the server
    #[arg(long)]
    quick: bool,
    /// Length of each message of the burst, in bytes; the burst has 150 kB in total
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(1_000..=150_000))]
    burst_message: Option<u32>,
    /// Additional settings of the server
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Write all results to this file as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

/// Length of a burst in bytes, if `--burst-message` sets the length of its messages.
const BURST: usize = 150_000;

impl FaultsArgs {
    /// Returns the cells to run, link by link.
    pub(crate) fn cells(&self) -> Vec<FaultCell> {
        let links = match (&self.only[..], self.quick) {
            ([], true) => LinkCondition::quick(),
            ([], false) => LinkCondition::table(),
            (only, _) => only.to_vec(),
        };
        let clients = if self.clients.is_empty() { FaultClient::value_variants() } else { &self.clients };
        let (pace, settings) = (self.pace(), self.settings());
        let row = |condition| {
            let settings = settings.clone();
            clients.iter().map(move |&client| FaultCell {
                condition,
                client,
                pace,
                settings: settings.clone(),
            })
        };
        links.into_iter().flat_map(row).collect()
    }

    fn pace(&self) -> TrafficPlan {
        let mut pace = if self.quick { TrafficPlan::quick() } else { TrafficPlan::table() };
        if let Some(length) = self.burst_message.and_then(|length| usize::try_from(length).ok()) {
            pace.burst_message = length;
            pace.burst = BURST.div_ceil(length);
        }
        pace
    }

    fn settings(&self) -> Vec<String> {
        let quick: &[&str] = if self.quick { &TrafficPlan::QUICK_SETTINGS } else { &[] };
        quick.iter().map(|&setting| setting.to_owned()).chain(self.set.iter().cloned()).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn args(line: &str) -> FaultsArgs {
        FaultsArgs::try_parse_from(line.split(' ')).expect("a valid command line")
    }

    #[test]
    fn the_default_is_the_whole_table() {
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
        let (cut, lossy) = (LinkCondition::Cut(Duration::from_secs(90)), LinkCondition::Lossy(5));
        let (curl, httpx) = (FaultClient::Curl, FaultClient::HttpxSse);
        assert_eq!(chosen, [(cut, curl), (cut, httpx), (lossy, curl), (lossy, httpx)]);
        assert_eq!(cells[0].settings.last().map(|setting| &**setting), Some("a=1"));
        assert_eq!((cells[0].pace.burst, cells[0].pace.burst_message), (3, 50_000));
    }
}
