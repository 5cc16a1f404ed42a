//! The most important numbers, shown as tiles at the top of a page.

use encke_plot::{Unit, show_in_full};
use maud::{Markup, html};

use crate::result::Document;

/// Path, label, and whether any value above zero is a fault. Tiles whose path the result does not have are
/// left out.
const TILES: [(&str, &str, bool); 19] = [
    ("traffic.connections_max", "peak connections", false),
    ("traffic.connects", "connects", false),
    ("connect_ms.p99", "connect, p99", false),
    ("traffic.messages", "messages", false),
    ("latency_ms.p99", "latency to the last delivery, p99", false),
    ("deliveries_per_second", "deliveries per second", false),
    ("lateness_ms.p99", "lateness, p99", false),
    ("resumed", "resumed", false),
    ("resume_ms.p99", "resume, p99", false),
    ("all_back_seconds", "seconds until all had resumed", false),
    ("errors", "errors", true),
    ("unexpected_closes", "unexpected closes", true),
    ("early", "early", true),
    ("still_open", "still open", true),
    ("lost", "lost", true),
    ("duplicated", "duplicated", true),
    ("misordered", "misordered", true),
    ("not_recovered", "not recovered", true),
    ("gaps", "gaps", true),
];

pub(super) fn of(document: &Document) -> Markup {
    let tiles = TILES.iter().filter_map(|(path, name, is_fault)| {
        let number = document.number(path).ok()?;
        Some((number, show_in_full(Unit::of(path), number), name, *is_fault && number > 0.0))
    });
    html! {
        div.tiles {
            @for (number, text, name, is_bad) in tiles {
                div class=[is_bad.then_some("bad")] title=(number) { b { (text) } (name) }
            }
        }
    }
}
