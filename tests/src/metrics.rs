//! Parser of the server's metrics.

use std::collections::BTreeMap;

/// A scrape.
#[derive(Clone, Debug)]
pub struct Metrics {
    text: String,
    values: BTreeMap<String, f64>,
}

impl Metrics {
    /// Parses the text format: a name with its labels, a space, a value.
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

    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the value of a series, or 0 if it does not exist yet.
    pub fn value(&self, series: &str) -> f64 {
        self.values.get(series).copied().unwrap_or_default()
    }

    /// Returns the sum of all series with this name, over all labels.
    pub fn total(&self, name: &str) -> f64 {
        let is_of = |series: &str| series.strip_prefix(name).is_some_and(|labels| labels.starts_with('{'));
        self.values.iter().filter(|(series, _)| is_of(series)).map(|(_, value)| value).sum()
    }

    pub fn events(&self, event: &str, reason: &str) -> f64 {
        self.value(&format!("encke_session_events_total{{event=\"{event}\",reason=\"{reason}\"}}"))
    }

    /// Returns the number of connections that were refused a session for this reason.
    pub fn refusals(&self, reason: &str) -> f64 {
        self.value(&format!("encke_refusals_total{{reason=\"{reason}\"}}"))
    }

    pub fn sessions(&self, phase: &str) -> f64 {
        self.value(&format!("encke_sessions{{phase=\"{phase}\"}}"))
    }

    /// Returns the number of open WebSocket connections.
    pub fn connections(&self) -> f64 {
        self.value("encke_connections{transport=\"websocket\",dialect=\"json\"}")
    }
}
