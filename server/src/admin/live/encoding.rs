//! What viewers are sent, as text. A server-sent event is a name and one line of JSON.

use bytes::Bytes;
use serde::Serialize;

use super::viewer::HISTORY_BEGINS;

/// A sample as it is kept, one of several: after a comma, without the rings.
pub(super) fn kept(sample: &impl Serialize) -> Bytes {
    let mut text = vec![b','];
    write(sample, &mut text);
    // It is kept for long: without what it had room for.
    text.into_boxed_slice().into()
}

/// The event of a sample that is [kept](kept), with the rings.
pub(super) fn event(kept: &[u8], rings: &impl Serialize) -> Bytes {
    let fields = kept.strip_prefix(b",").and_then(|sample| sample.strip_suffix(b"}"));
    let mut text = b"event: sample\ndata: ".to_vec();
    text.extend_from_slice(fields.expect("a sample is an object"));
    text.extend_from_slice(b",\"rings\":");
    write(rings, &mut text);
    text.extend_from_slice(b"}\n\n");
    text.into()
}

/// What a viewer is told first: what the server is, and where the history begins.
pub(super) fn about(server: &impl Serialize) -> Bytes {
    let mut text = b"event: server\ndata: ".to_vec();
    write(server, &mut text);
    text.extend_from_slice(b"\n\n");
    text.extend_from_slice(HISTORY_BEGINS.as_bytes());
    text.into()
}

fn write(value: &impl Serialize, text: &mut Vec<u8>) {
    serde_json::to_writer(text, value).expect("our own types have string keys and serialize");
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_sample_is_kept_without_rings_and_told_with_them() {
        let kept = kept(&json!({"at_ms": 1}));
        assert_eq!(&kept[..], br#",{"at_ms":1}"#);
        let event = event(&kept, &json!([{"slots": 256}]));
        assert_eq!(&event[..], b"event: sample\ndata: {\"at_ms\":1,\"rings\":[{\"slots\":256}]}\n\n");
    }

    /// A line break in an event would end it.
    #[test]
    fn an_event_is_one_line() {
        let about = about(&json!({"webhooks": ["a\nb\r"]}));
        let lines: Vec<_> = about.split(|byte| *byte == b'\n').collect();
        assert_eq!(lines.len(), 5, "{about:?}");
        assert!(!about.contains(&b'\r'));
    }
}
