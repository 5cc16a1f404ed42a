//! The README's reference, made of the code: what it says cannot be older than the server.
//!
//! Meanings are the comments of the enums' variants and of `default.toml`; metrics are those of the registry of a server that uses everything.

mod codes;
mod configuration;
mod everything;
mod markdown;
mod metrics;
#[cfg(test)]
mod readme_tests;

/// Every key of the configuration, every code, every event and every metric, as Markdown.
#[must_use]
pub fn reference() -> String {
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
