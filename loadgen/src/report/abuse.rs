//! Costs of attacks as a Markdown table with one row per attack.

use crate::result::{Document, Group};

const HEAD: &str = "| attack | attacker's cost | server's cost | healthy before: p50, p99 | healthy during: p50, p99, max | lost, duplicated, disconnects |\n\
                    |---|---|---|---|---|---|\n";

/// Returns the table. `None` for other scenarios.
pub(super) fn to_markdown(document: &Document) -> Option<String> {
    let attacks = document.numbers.get("attacks")?.as_group()?;
    let rows = attacks.iter().filter_map(|(name, attack)| Some(row(name, attack.as_group()?, document)));
    Some(rows.fold(HEAD.to_owned(), |table, row| table + &row + "\n"))
}

fn row(name: &str, attack: &Group, document: &Document) -> String {
    let number = |path: &str| attack.number(path).ok();
    let count = |path: &str| number(path).map_or_else(|| "-".to_owned(), |count| format!("{count:.0}"));
    let ms = |path: &str| number(path).map_or_else(|| "-".to_owned(), |ms| format!("{ms:.1}"));
    let paid = format!(
        "{} connections, {} requests, {}, {:.1} s of CPU",
        count("attacker.connections"),
        count("attacker.requests"),
        megabytes(number("attacker.sent_bytes")),
        number("attacker.cpu_seconds").unwrap_or_default(),
    );
    let before = format!("{}, {} ms", ms("healthy.before_ms.p50"), ms("healthy.before_ms.p99"));
    let beside = ["p50", "p99", "max"].map(|it| ms(&format!("healthy.attack_ms.{it}"))).join(", ");
    let kept = ["lost", "doubled", "cuts"].map(|it| count(&format!("healthy.{it}"))).join(", ");
    let server = server_paid(name, document);
    format!("| {name} | {paid} | {server} | {before} | {beside} ms | {kept} |")
}

/// Returns the CPU time and memory that an attack cost the server, or "-" without `--pid`.
fn server_paid(name: &str, document: &Document) -> String {
    let number =
        |phase: &str, path: &str| document.numbers.number(&format!("server.phases.{phase}.{path}")).ok();
    let cores = number(name, "cores.mean").zip(number(name, "duration_seconds"));
    let Some(cpu) = cores.map(|(cores, seconds)| cores * seconds) else { return "-".to_owned() };
    let idle = number(&format!("{name}_before"), "resident_bytes.end");
    let above_idle =
        |bytes: Option<f64>| megabytes(bytes.zip(idle).map(|(bytes, idle)| (bytes - idle).max(0.0)));
    format!(
        "{cpu:.1} s of CPU, {} above idle, {} afterwards",
        above_idle(number(name, "resident_bytes.peak")),
        above_idle(number(&format!("{name}_after"), "resident_bytes.end")),
    )
}

fn megabytes(bytes: Option<f64>) -> String {
    bytes.map_or_else(|| "-".to_owned(), |bytes| format!("{:.1} MB", bytes / 1e6))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::result::convert;

    #[test]
    fn each_attack_has_a_row() {
        let healthy = json!({
            "lost": 0, "doubled": 1, "cuts": 2, "before_ms": {"p50": 1.0, "p99": 2.0, "max": 3.0},
            "attack_ms": {"p50": 4.0, "p99": 5.0, "max": 6.5},
        });
        let attacker = json!({
            "connections": 300, "requests": 7, "sent_bytes": 1_500_000, "cpu_seconds": 0.25,
        });
        let phase = |cores: f64, peak: u64, end: u64| {
            let resident = json!({"peak": peak, "end": end});
            json!({"duration_seconds": 10.0, "cores": {"mean": cores}, "resident_bytes": resident})
        };
        let phases = json!({
            "frames_before": phase(0.0, 9_000_000, 8_000_000),
            "frames": phase(0.5, 10_000_000, 9_000_000),
            "frames_after": phase(0.0, 9_000_000, 7_000_000),
        });
        let numbers: Group =
            convert(&json!({"attacks": {"frames": {"attacker": attacker, "healthy": healthy}}}));
        let row = |numbers| {
            let table = to_markdown(&Document { numbers, ..Document::default() });
            table.map(|table| table.lines().skip(2).collect::<String>())
        };
        let (paid, healthy) = (
            "300 connections, 7 requests, 1.5 MB, 0.2 s of CPU",
            "1.0, 2.0 ms | 4.0, 5.0, 6.5 ms | 0, 1, 2 |",
        );
        let with_pid = numbers.clone().with("server", json!({"phases": phases}));
        let server = "5.0 s of CPU, 2.0 MB above idle, 0.0 MB afterwards";
        assert_eq!(row(with_pid), Some(format!("| frames | {paid} | {server} | {healthy}")));
        assert_eq!(row(numbers), Some(format!("| frames | {paid} | - | {healthy}")));
        assert_eq!(row(Group::default()), None);
    }
}
