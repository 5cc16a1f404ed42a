//! What stands above a plot: words in place of the names that numbers have in a result.

/// Names with words of their own; a longer name goes before one that it begins with.
const WORDS: [(&str, &str); 30] = [
    ("connect_from_start_ms", "Time to connect, from its actual start"),
    ("connect_ms", "Time to connect"),
    ("resume_from_start_ms", "Time to resume, from its actual start"),
    ("resume_ms", "Time to resume"),
    ("delivery_latency_from_start_ms", "Delivery time, from the actual start"),
    ("delivery_latency_ms", "Delivery time"),
    ("latency_from_start_ms", "Delivery time to the last, from the actual start"),
    ("latency_ms", "Delivery time to the last"),
    ("ping_lateness_ms", "Lateness of pings"),
    ("hold_lateness_ms", "Lateness of answers to polls"),
    ("lateness_ms", "Lateness"),
    ("overdue_ms", "Sessions kept too long"),
    ("pong_ms", "Time to the pong"),
    ("replacement_ms", "Time to be replaced"),
    ("connections", "Open connections"),
    ("server.cores", "Cores of the server"),
    ("server.resident_bytes", "Resident memory of the server"),
    ("server.descriptors", "Descriptors of the server"),
    ("server.threads", "Threads of the server"),
    ("server.timers.entries", "Timers"),
    ("server.timers.level", "Timers by level of the wheel"),
    ("server.timers.lateness_max_ms", "Lateness of timers, at most"),
    ("server.timers.lateness_p99_ms", "Lateness of timers, p99"),
    ("server.timers.lateness_ms", "Lateness of timers"),
    ("server.timers.dispatch_depth", "Expiries waiting for a worker"),
    ("server.timers.dispatch_age_ms", "Age of the oldest expiry that waits"),
    ("loadgen.cores", "Cores of loadgen"),
    ("loadgen.resident_bytes", "Resident memory of loadgen"),
    ("loadgen.lag_ms", "Lag of loadgen's own tasks"),
    ("errors", "Errors"),
];

/// The words for a name. What a plan or a part of an outcome has put before it is said after it.
pub(super) fn words(name: &str) -> String {
    if let Some((known, words)) = find(name) {
        return format!("{words}{}", rest(&name[known.len()..]));
    }
    match name.split_once('.') {
        Some((group, inner)) if find(inner).is_some() => format!("{} ({})", words(inner), plain(group)),
        _ => {
            let plain = plain(name);
            let mut letters = plain.chars();
            letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
        }
    }
}

fn find(name: &str) -> Option<(&'static str, &'static str)> {
    WORDS.into_iter().find(|(known, _)| {
        name.strip_prefix(known).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    })
}

/// `.p99` as ", p99".
fn rest(rest: &str) -> String {
    rest.strip_prefix('.').map_or_else(String::new, |rest| format!(", {rest}"))
}

/// Without its unit, which the axis says.
fn plain(name: &str) -> String {
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
    fn names_become_words() {
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
            assert_eq!(words(name), expected, "{name}");
        }
    }
}
