//! The keys of `default.toml`, described by the comments of that file.

use encke_server::config::default_file;

use super::markdown::code;

/// Returns the keys as one list per section. Keys that share a comment share an entry.
pub(super) fn keys() -> String {
    let mut text = String::new();
    let mut section = "";
    let mut comment: Vec<&str> = Vec::new();
    let mut lines = default_file().lines().peekable();
    while let Some(line) = lines.next() {
        if let Some(words) = line.strip_prefix('#') {
            comment.push(words.strip_prefix(' ').unwrap_or(words));
        } else if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            section = name;
            text += &format!("\n**`[{name}]`**\n\n");
        } else if line.is_empty() {
            text += &paragraph(&comment);
            comment.clear();
        } else {
            let mut keys = vec![entry(section, line)];
            while let Some(line) = lines.next_if(|line| is_key(line)) {
                keys.push(entry(section, line));
            }
            text += &format!("- {}", keys.join(", "));
            text += &format_comment("  ", ": ", &comment);
            comment.clear();
        }
    }
    text + &paragraph(&comment)
}

fn is_key(line: &str) -> bool {
    !line.is_empty() && !line.starts_with(['#', '['])
}

fn entry(section: &str, line: &str) -> String {
    match line.split_once(" = ") {
        Some((key, value)) => format!("{} = {}", code(&format!("{section}.{key}")), code(value)),
        None => code(line),
    }
}

/// Formats a comment that belongs to no key.
fn paragraph(comment: &[&str]) -> String {
    if comment.is_empty() { String::new() } else { format!("\n{}\n", format_comment("", "", comment).trim()) }
}

/// Formats a comment: each paragraph on one line, indented lines as a code block.
fn format_comment(indent: &str, before: &str, comment: &[&str]) -> String {
    let mut text = String::new();
    let mut rest = comment;
    let mut before = before;
    while let Some(first) = rest.first() {
        let is_code = is_indented(first);
        let count = rest.iter().take_while(|line| is_indented(line) == is_code).count();
        let (part, after) = rest.split_at(count);
        rest = after;
        if is_code {
            let lines =
                part.iter().map(|line| format!("{indent}{}\n", line.strip_prefix("  ").unwrap_or(line)));
            text += &format!("\n\n{indent}```\n{}{indent}```", lines.collect::<String>());
            before = "";
        } else {
            let gap = if text.is_empty() { before.to_owned() } else { format!("\n\n{indent}") };
            let paragraphs = part.split(|line| line.is_empty()).map(|lines| escape(&lines.join(" ")));
            text += &format!("{gap}{}", paragraphs.collect::<Vec<_>>().join(&format!("\n\n{indent}")));
        }
    }
    text + "\n"
}

/// Escapes `<` outside of code spans, where Markdown would treat it as the start of a tag.
fn escape(words: &str) -> String {
    let escape =
        |(at, part): (usize, &str)| if at % 2 == 0 { part.replace('<', "\\<") } else { part.to_owned() };
    words.split('`').enumerate().map(escape).collect::<Vec<_>>().join("`")
}

fn is_indented(line: &str) -> bool {
    line.starts_with("  ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_become_paragraphs_and_code_blocks() {
        let comment = ["One,", "and two:", "  a = 1", "    b", "Three."];
        assert_eq!(
            format_comment("  ", ": ", &comment),
            ": One, and two:\n\n  ```\n  a = 1\n    b\n  ```\n\n  Three.\n"
        );
        assert_eq!(
            format_comment("", "", &["By <a>", "or `<b>`.", "", "And."]),
            "By \\<a> or `<b>`.\n\nAnd.\n"
        );
        assert_eq!(paragraph(&[]), "");
        assert_eq!(paragraph(&["All", "alone."]), "\nAll alone.\n");
    }
}
