//! The server's metrics, read back.

use std::collections::BTreeMap;

/// One scrape.
#[derive(Clone, Debug)]
pub struct Metrics {
    text: String,
    values: BTreeMap<String, f64>,
}

impl Metrics {
    /// Reads the text format: a name with its labels, a space, a value.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let values = text
            .lines()
            .filter(|line| !line.starts_with('#'))
            .filter_map(|line| {
                let (name, value) = line.rsplit_once(' ')?;
                Some((name.to_owned(), value.parse().ok()?))
            })
            .collect();
        Self { text: text.to_owned(), values }
    }

    /// As it was sent.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The value of a series, 0 if it has not begun.
    #[must_use]
    pub fn value(&self, series: &str) -> f64 {
        self.values.get(series).copied().unwrap_or_default()
    }

    /// The values of all series of this name together, whatever their labels.
    #[must_use]
    pub fn total(&self, name: &str) -> f64 {
        let is_of = |series: &str| series.strip_prefix(name).is_some_and(|labels| labels.starts_with('{'));
        self.values.iter().filter(|(series, _)| is_of(series)).map(|(_, value)| value).sum()
    }

    /// How often a lifecycle event has happened for a reason.
    #[must_use]
    pub fn events(&self, event: &str, reason: &str) -> f64 {
        self.value(&format!("encke_session_events_total{{event=\"{event}\",reason=\"{reason}\"}}"))
    }

    /// How many connections got no session for a reason.
    #[must_use]
    pub fn refusals(&self, reason: &str) -> f64 {
        self.value(&format!("encke_refusals_total{{reason=\"{reason}\"}}"))
    }

    /// How many sessions are in a phase.
    #[must_use]
    pub fn sessions(&self, phase: &str) -> f64 {
        self.value(&format!("encke_sessions{{phase=\"{phase}\"}}"))
    }

    /// How many WebSocket connections are open.
    #[must_use]
    pub fn connections(&self) -> f64 {
        self.value("encke_connections{transport=\"websocket\",dialect=\"json\"}")
    }
}
