//! The README's reference, generated from the code, so that it is never out of date.
//!
//! Descriptions are the documentation of enum variants and the comments of `default.toml`. Metrics are read
//! from the registry of a server with every feature enabled.

mod codes;
mod configuration;
mod markdown;
mod metrics;
#[cfg(test)]
mod readme_tests;

/// Returns every configuration key, code, event and metric as Markdown.
pub(crate) fn reference() -> String {
    let sections = [
        ("Configuration keys", configuration::keys()),
        ("Close codes", codes::close_codes()),
        ("Error codes of commands", codes::command_errors()),
        ("Error codes of HTTP", codes::http_errors()),
        ("Health", codes::health()),
        ("Lifecycle events", codes::lifecycle()),
        ("Events of webhooks", codes::webhook_events()),
        ("Refusals", codes::refusals()),
        ("Deadlines", codes::deadlines()),
        ("Metrics", metrics::all()),
    ];
    sections.map(|(title, text)| format!("### {title}\n\n{}\n", text.trim_end())).join("\n")
}
