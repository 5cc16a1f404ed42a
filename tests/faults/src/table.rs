//! Results as Markdown tables.

use comfy_table::{Table, presets::ASCII_MARKDOWN};

use crate::outcome::CellOutcome;

/// Returns a table of links by clients, with the time until each client recovered, or its longest pause and
/// the duration of the burst, and with the messages that it lost.
#[must_use]
pub fn by_link_and_client(outcomes: &[CellOutcome]) -> String {
    let (mut links, mut clients) = (Vec::new(), Vec::new());
    for outcome in outcomes {
        if !links.contains(&&*outcome.link) {
            links.push(&*outcome.link);
        }
        if !clients.contains(&&*outcome.client) {
            clients.push(&*outcome.client);
        }
    }
    let mut table = table([&["link"], &clients[..]].concat());
    for link in links {
        let cell = |client: &&str| {
            let found = outcomes.iter().find(|outcome| outcome.link == link && outcome.client == *client);
            found.map_or_else(String::new, summary)
        };
        table.add_row(std::iter::once(link.to_owned()).chain(clients.iter().map(cell)));
    }
    table.to_string()
}

/// Returns a table with a row for each cell and all its results.
#[must_use]
pub fn in_detail(outcomes: &[CellOutcome]) -> String {
    let mut table = table(vec![
        "link",
        "client",
        "first",
        "back",
        "burst",
        "longest pause",
        "connections",
        "sessions",
        "suspended",
        "delivered",
        "in gaps",
        "lost",
        "outstanding",
        "duplicated",
        "out of order",
    ]);
    for outcome in outcomes {
        let suspended = outcome.suspended.iter().map(|(reason, count)| format!("{reason} {count}"));
        table.add_row([
            outcome.link.clone(),
            outcome.client.clone(),
            seconds(outcome.first_s),
            seconds(outcome.back_s),
            seconds(outcome.burst_s),
            seconds(Some(outcome.pause_s)),
            outcome.connections.to_string(),
            outcome.sessions.to_string(),
            suspended.collect::<Vec<_>>().join(", "),
            format!("{} of {}", outcome.delivered, outcome.published),
            outcome.covered.to_string(),
            outcome.lost.to_string(),
            outcome.outstanding.to_string(),
            outcome.duplicated.to_string(),
            (outcome.misordered + outcome.garbled).to_string(),
        ]);
    }
    table.to_string()
}

fn table(header: Vec<&str>) -> Table {
    let mut table = Table::new();
    table.load_style(ASCII_MARKDOWN).set_header(header);
    table
}

fn summary(outcome: &CellOutcome) -> String {
    let time = match outcome.back_s {
        back @ Some(_) => format!("back after {}", seconds(back)),
        None if outcome.fault_ended => "NOT BACK".to_owned(),
        None => format!("burst {}, pause {}", seconds(outcome.burst_s), seconds(Some(outcome.pause_s))),
    };
    format!("{time}; {}", describe_losses(outcome))
}

fn describe_losses(outcome: &CellOutcome) -> String {
    let counts = [
        (outcome.covered, "in gaps"),
        (outcome.lost, "LOST"),
        (outcome.outstanding, "OUTSTANDING"),
        (outcome.duplicated, "DUPLICATED"),
        (outcome.misordered, "OUT OF ORDER"),
        (outcome.garbled, "GARBLED"),
    ];
    let losses: Vec<_> = counts
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
    if losses.is_empty() { "nothing lost".to_owned() } else { losses.join(", ") }
}

fn seconds(time: Option<f64>) -> String {
    time.map_or_else(|| "-".to_owned(), |time| format!("{time:.1} s"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(link: &str, client: &str) -> CellOutcome {
        CellOutcome {
            link: link.to_owned(),
            client: client.to_owned(),
            published: 9,
            delivered: 9,
            covered: 0,
            lost: 0,
            outstanding: 0,
            duplicated: 0,
            misordered: 0,
            garbled: 0,
            fault_ended: false,
            first_s: None,
            back_s: None,
            burst_s: Some(1.25),
            pause_s: 0.5,
            connections: 1,
            sessions: 1,
            suspended: [("pong_timeout".to_owned(), 2)].into(),
            stderr_text: String::new(),
            lifecycle: Vec::new(),
        }
    }

    #[test]
    fn each_link_is_a_row_and_each_client_a_column() {
        let back = CellOutcome {
            fault_ended: true,
            first_s: Some(0.1),
            back_s: Some(5.44),
            covered: 3,
            ..outcome("cut-20s", "curl")
        };
        let lost = CellOutcome { lost: 1, duplicated: 2, ..outcome("8kbit", "curl") };
        let text = by_link_and_client(&[outcome("8kbit", "json"), lost, back]);
        let rows: Vec<Vec<_>> =
            text.lines().map(|line| line.trim_matches('|').split('|').map(str::trim).collect()).collect();
        assert_eq!(rows[0], ["link", "json", "curl"]);
        assert_eq!(rows[2][0], "8kbit");
        assert_eq!(rows[2][1], "burst 1.2 s, pause 0.5 s; nothing lost");
        assert_eq!(rows[2][2], "burst 1.2 s, pause 0.5 s; 1 LOST, 2 DUPLICATED");
        assert_eq!(rows[3], ["cut-20s", "", "back after 5.4 s; 3 in gaps"]);
    }

    #[test]
    fn details_are_a_row_each() {
        let text = in_detail(&[outcome("8kbit", "json")]);
        assert_eq!(text.lines().count(), 3);
        assert!(text.contains("pong_timeout 2") && text.contains("9 of 9"), "{text}");
    }

    #[test]
    fn a_client_that_did_not_recover_is_marked() {
        let missing = CellOutcome {
            fault_ended: true,
            first_s: Some(0.1),
            outstanding: 4,
            ..outcome("cut-20s", "curl")
        };
        assert_eq!(summary(&missing), "NOT BACK; 4 OUTSTANDING");
    }
}
