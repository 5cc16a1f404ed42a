//! What attacks cost, as a table in Markdown: one row each.

use crate::result::{Document, Group};

const HEAD: &str = "| attack | the attacker paid | the server paid | healthy, before: p50, p99 | beside it: p50, p99, max | lost, doubled, cut |\n\
                    |---|---|---|---|---|---|\n";

/// Nothing for other scenarios.
pub(super) fn to_markdown(document: &Document) -> Option<String> {
    let attacks = document.as_group().get("attacks")?.as_group()?;
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

/// Nothing without `--pid`.
fn server_paid(name: &str, document: &Document) -> String {
    let number = |phase: &str, path: &str| document.number(&format!("server.phases.{phase}.{path}")).ok();
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
