//! Results as a Markdown table.

use comfy_table::{Table, presets::ASCII_MARKDOWN};

use crate::outcome::CellOutcome;

/// Returns a table of links by clients, with the time until each client recovered, or its longest pause and
/// the duration of the burst, and with the messages that it lost.
pub(crate) fn by_link_and_client(outcomes: &[CellOutcome]) -> String {
    let (mut links, mut clients) = (Vec::new(), Vec::new());
    for outcome in outcomes {
        if !links.contains(&&*outcome.link) {
            links.push(&*outcome.link);
        }
        if !clients.contains(&&*outcome.client) {
            clients.push(&*outcome.client);
        }
    }
    let mut table = Table::new();
    table.load_style(ASCII_MARKDOWN).set_header([&["link"], &clients[..]].concat());
    for link in links {
        let cell = |client: &&str| {
            let found = outcomes.iter().find(|outcome| outcome.link == link && outcome.client == *client);
            found.map_or_else(String::new, summary)
        };
        table.add_row(std::iter::once(link.to_owned()).chain(clients.iter().map(cell)));
    }
    table.to_string()
}

fn summary(outcome: &CellOutcome) -> String {
    let time = match outcome.back_s {
        back @ Some(_) => format!("back after {}", seconds(back)),
        None if outcome.fault_ended => "NOT BACK".to_owned(),
        None => format!("burst {}, pause {}", seconds(outcome.burst_s), seconds(Some(outcome.pause_s))),
    };
    let losses = [
        (outcome.counts.covered, "in gaps"),
        (outcome.counts.lost, "LOST"),
        (outcome.counts.outstanding, "OUTSTANDING"),
        (outcome.counts.duplicated, "DUPLICATED"),
        (outcome.counts.misordered, "OUT OF ORDER"),
        (outcome.counts.garbled, "GARBLED"),
    ];
    let losses: Vec<_> = losses
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
    format!("{time}; {}", if losses.is_empty() { "nothing lost".to_owned() } else { losses.join(", ") })
}

fn seconds(time: Option<f64>) -> String {
    time.map_or_else(|| "-".to_owned(), |time| format!("{time:.1} s"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::LedgerCounts;

    fn outcome(link: &str, client: &str, counts: LedgerCounts) -> CellOutcome {
        CellOutcome {
            link: link.to_owned(),
            client: client.to_owned(),
            counts,
            fault_ended: false,
            back_s: None,
            burst_s: Some(1.25),
            pause_s: 0.5,
            stderr_text: String::new(),
            lifecycle: Vec::new(),
        }
    }

    #[test]
    fn each_link_is_a_row_and_each_client_a_column() {
        let none = LedgerCounts::default();
        let lost = LedgerCounts { lost: 1, duplicated: 2, ..none.clone() };
        let cut = CellOutcome { fault_ended: true, ..outcome("cut-20s", "json", none.clone()) };
        let back = CellOutcome {
            fault_ended: true,
            back_s: Some(5.44),
            ..outcome("cut-20s", "curl", LedgerCounts { covered: 3, ..none.clone() })
        };
        let outcomes = [
            outcome("8kbit", "json", none.clone()),
            outcome("8kbit", "curl", lost),
            cut,
            back,
            outcome("5%", "curl", none),
        ];
        let text = by_link_and_client(&outcomes);
        let rows: Vec<Vec<_>> =
            text.lines().map(|line| line.trim_matches('|').split('|').map(str::trim).collect()).collect();
        assert_eq!(rows[0], ["link", "json", "curl"]);
        let nothing = "burst 1.2 s, pause 0.5 s; nothing lost";
        assert_eq!(rows[2], ["8kbit", nothing, "burst 1.2 s, pause 0.5 s; 1 LOST, 2 DUPLICATED"]);
        assert_eq!(rows[3], ["cut-20s", "NOT BACK; nothing lost", "back after 5.4 s; 3 in gaps"]);
        assert_eq!(rows[4], ["5%", "", nothing]);
    }
}
