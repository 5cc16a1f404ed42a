//! Titles of plots, made from the names of numbers in a result.

/// Titles of known names. A name comes before any shorter name that is its prefix.
const TITLES: [(&str, &str); 30] = [
    ("connect_from_start_ms", "Time to connect, from its actual start"),
    ("connect_ms", "Time to connect"),
    ("resume_from_start_ms", "Time to resume, from its actual start"),
    ("resume_ms", "Time to resume"),
    ("delivery_latency_from_start_ms", "Delivery time, from its actual start"),
    ("delivery_latency_ms", "Delivery time"),
    ("latency_from_start_ms", "Time to the last delivery, from its actual start"),
    ("latency_ms", "Time to the last delivery"),
    ("ping_lateness_ms", "Lateness of pings"),
    ("hold_lateness_ms", "Lateness of poll answers"),
    ("lateness_ms", "Lateness"),
    ("overdue_ms", "Time sessions were kept too long"),
    ("pong_ms", "Time to the pong"),
    ("replacement_ms", "Time to replacement"),
    ("connections", "Open connections"),
    ("server.cores", "Cores of the server"),
    ("server.resident_bytes", "Resident memory of the server"),
    ("server.descriptors", "Descriptors of the server"),
    ("server.threads", "Threads of the server"),
    ("server.timers.entries", "Timers"),
    ("server.timers.level", "Timers by level of the wheel"),
    ("server.timers.lateness_max_ms", "Lateness of timers, max"),
    ("server.timers.lateness_p99_ms", "Lateness of timers, p99"),
    ("server.timers.lateness_ms", "Lateness of timers"),
    ("server.timers.dispatch_depth", "Expiries waiting for a worker"),
    ("server.timers.dispatch_age_ms", "Age of the oldest waiting expiry"),
    ("loadgen.cores", "Cores of loadgen"),
    ("loadgen.resident_bytes", "Resident memory of loadgen"),
    ("loadgen.lag_ms", "Lag of loadgen's own tasks"),
    ("errors", "Errors"),
];

/// Returns the title for a name. A prefix, such as the run in a mix or the part of an outcome, follows in
/// parentheses.
pub(super) fn title(name: &str) -> String {
    if let Some((known, words)) = find(name) {
        return format!("{words}{}", suffix(&name[known.len()..]));
    }
    match name.split_once('.') {
        Some((group, inner)) if find(inner).is_some() => format!("{} ({})", title(inner), plain_title(group)),
        _ => {
            let plain = plain_title(name);
            let mut letters = plain.chars();
            letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
        }
    }
}

fn find(name: &str) -> Option<(&'static str, &'static str)> {
    TITLES.into_iter().find(|(known, _)| {
        name.strip_prefix(known).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    })
}

/// Turns `.p99` into ", p99".
fn suffix(rest: &str) -> String {
    rest.strip_prefix('.').map_or_else(String::new, |rest| format!(", {rest}"))
}

/// Returns a name as words, without its unit, which the axis shows.
fn plain_title(name: &str) -> String {
    let percentile = ["p50", "p90", "p99", "p99.9", "max"];
    let end = percentile.into_iter().find_map(|it| Some((name.strip_suffix(it)?.strip_suffix('.')?, it)));
    let (name, end) = end.map_or((name, String::new()), |(name, it)| (name, format!(", {it}")));
    let name = name.strip_suffix("_ms").or_else(|| name.strip_suffix("_bytes")).unwrap_or(name);
    format!("{}{end}", name.replace(['_', '.'], " "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_titles() {
        for (name, expected) in [
            ("connect_ms", "Time to connect"),
            ("connect_from_start_ms", "Time to connect, from its actual start"),
            ("connect_ms.p99.9", "Time to connect, p99.9"),
            ("server.cores", "Cores of the server"),
            ("plan.lateness_ms", "Lateness (plan)"),
            ("server.wheel_lateness_ms", "Server wheel lateness"),
            ("some_new_bytes.max", "Some new, max"),
            ("", ""),
        ] {
            assert_eq!(title(name), expected, "{name}");
        }
    }
}
