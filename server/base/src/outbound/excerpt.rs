//! Excerpts of responses for log lines.

/// Maximum number of bytes of a body that are logged.
const MAX_EXCERPT_BYTES: usize = 200;

/// Minimum length of a word that may be a secret, such as a token.
const SECRET_CHARS: usize = 24;

/// Returns the beginning of a text on one line, without words that may be secrets.
#[must_use]
pub fn excerpt(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(&body[..body.len().min(MAX_EXCERPT_BYTES)]);
    let is_part = |c: char| c.is_ascii_alphanumeric() || "-_.+/=~".contains(c);
    let mut shown = String::new();
    let mut rest = &*text;
    while let Some(first) = rest.chars().next() {
        let end = rest.find(|c| is_part(c) != is_part(first)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        match is_part(first) && word.len() >= SECRET_CHARS {
            true => shown.push_str("[...]"),
            false => word.chars().for_each(|c| match c.is_control() {
                true => shown.extend(c.escape_default()),
                false => shown.push(c),
            }),
        }
        rest = after;
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_excerpt_has_no_secrets() {
        let token = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhIn0.c2lnbmF0dXJl";
        for (body, shown) in [
            ("<h1>Not\nfound</h1>".to_owned(), "<h1>Not\\nfound</h1>".to_owned()),
            (format!("token={token}"), "[...]".to_owned()),
            (format!("{{\"token\":\"{token}\"}}"), "{\"token\":\"[...]\"}".to_owned()),
            ("\u{1b}[31m".to_owned(), "\\u{1b}[31m".to_owned()),
            ("x y ".repeat(100), "x y ".repeat(50)),
        ] {
            assert_eq!(excerpt(body.as_bytes()), shown);
        }
        // An excerpt may end with the beginning of a secret.
        assert_eq!(excerpt(format!("{}{token}", " ".repeat(190)).as_bytes()).trim(), &token[..10]);
    }
}
