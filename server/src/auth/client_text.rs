use std::fmt;

/// Maximum number of bytes that are shown.
const MAX_SHOWN_BYTES: usize = 128;

/// Text from a client, in an error or in the log: shortened and escaped, because the client has chosen it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClientText(Box<str>);

impl ClientText {
    pub(crate) fn new(text: &[u8]) -> Self {
        let shown = &text[..text.len().min(MAX_SHOWN_BYTES)];
        let rest = if shown.len() < text.len() { "..." } else { "" };
        Self(format!("{}{rest}", shown.escape_ascii()).into())
    }
}

impl fmt::Display for ClientText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
