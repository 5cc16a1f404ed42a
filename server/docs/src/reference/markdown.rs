//! Markdown tables, and the documentation of enum variants as text.

use strum::EnumMessage;

/// Formats a Markdown table with these headings.
pub(super) fn table<const N: usize>(
    headings: [&str; N],
    rows: impl IntoIterator<Item = [String; N]>,
) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let mut text = line(&headings.map(str::to_owned));
    text += &format!("|{}\n", "---|".repeat(N));
    for row in rows {
        // Escape bars, because an unescaped bar would start another cell.
        text += &line(&row.map(|cell| cell.replace('|', "\\|")));
    }
    text
}

/// Formats a code span.
pub(super) fn code(text: &str) -> String {
    format!("`{text}`")
}

/// Returns the first paragraph of a variant's documentation on one line.
pub(super) fn doc_comment(variant: &impl EnumMessage) -> String {
    let text =
        variant.get_documentation().expect("each variant that is shown has a comment: a test reads them");
    let paragraph = text.split("\n\n").next().unwrap_or_default();
    paragraph.split_whitespace().collect::<Vec<_>>().join(" ")
}
