/// Maximum length of client-supplied text in a span, in bytes. It bounds the memory of queued spans. By
/// default, no channel name is that long.
const MAX_TEXT_BYTES: usize = 256;

/// Truncates text to the length that spans may contain.
pub(super) fn truncated(text: &str) -> &str {
    &text[..text.floor_char_boundary(MAX_TEXT_BYTES)]
}
