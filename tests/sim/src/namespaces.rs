//! Namespaces of a scenario: drawn for its configuration, and the rules that they give each log.

use std::ops::RangeInclusive;

use encke_server::config::{ChannelRules, Config, Namespace};
use rand::RngExt;
use rand::rngs::SmallRng;

use crate::truth::name_of;

/// Prefixes of some channels and patterns. Some prefixes contain others.
const PREFIXES: [&str; 5] = ["/even/", "/odd/", "/even/0", "/odd/1", "/"];

/// Draws namespaces, as the value of the setting `namespace`. `join_leave` is the fraction that reports joins
/// and leaves, `bytes` the range of limits on the size of a log. `age` returns a random age limit.
pub(crate) fn draw(
    rng: &mut SmallRng,
    join_leave: f64,
    bytes: RangeInclusive<u32>,
    mut age: impl FnMut(&mut SmallRng) -> String,
) -> String {
    let mut namespaces = Vec::new();
    for prefix in PREFIXES {
        if !rng.random_bool(0.4) {
            continue;
        }
        let mut namespace = format!("prefix='{prefix}'");
        let mut set = |key: &str, value: String| namespace.push_str(&format!(", {key}={value}"));
        if rng.random_bool(0.6) {
            set("history_messages", rng.random_range(1..60).to_string());
        }
        if rng.random_bool(0.3) {
            set("history_bytes", format!("'{}B'", rng.random_range(bytes.clone())));
        }
        if rng.random_bool(0.6) {
            set("history_age", format!("'{}'", age(rng)));
        }
        set("publish", rng.random_bool(0.85).to_string());
        set("presence", rng.random_bool(0.5).to_string());
        // Bayeux clients identify joins and leaves by their times.
        let join_leave = rng.random_bool(join_leave);
        set("at_ms", (join_leave || rng.random_bool(0.5)).to_string());
        set("join_leave", join_leave.to_string());
        namespaces.push(format!("{{{namespace}}}"));
    }
    format!("[{}]", namespaces.join(", "))
}

/// Returns the rules of a log, those of the longest matching prefix.
pub(crate) fn rules_of(config: &Config, log: usize) -> ChannelRules {
    let matching = config.channel.namespaces.iter().filter(|it| name_of(log).starts_with(&it.prefix));
    let longest: Option<&Namespace> = matching.max_by_key(|it| it.prefix.len());
    longest.map_or_else(|| ChannelRules::with_limits(config.channel.log.clone()), |it| it.rules.clone())
}
