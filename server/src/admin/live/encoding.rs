//! Encoding of the events for viewers. A server-sent event has a name and one line of JSON.

use bytes::Bytes;
use serde::Serialize;

use super::feed::HISTORY_BEGINS;

/// Encodes a sample for the history, as an element of an array: with a leading comma, and without the rings.
pub(super) fn encode_sample(sample: &impl Serialize) -> Bytes {
    let mut text = vec![b','];
    write(sample, &mut text);
    // Drop the spare capacity, because samples are kept for a long time.
    text.into_boxed_slice().into()
}

/// Builds the event for a sample from its [encoded form](encode_sample), adding the rings.
pub(super) fn sample_event(kept: &[u8], rings: &impl Serialize) -> Bytes {
    let fields = kept.strip_prefix(b",").and_then(|sample| sample.strip_suffix(b"}"));
    let mut text = b"event: sample\ndata: ".to_vec();
    text.extend_from_slice(fields.expect("a sample is an object"));
    text.extend_from_slice(b",\"rings\":");
    write(rings, &mut text);
    text.extend_from_slice(b"}\n\n");
    text.into()
}

/// Encodes the first events for a viewer: the server's description, and the beginning of the history.
pub(super) fn server_event(server: &impl Serialize) -> Bytes {
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
    fn samples_are_kept_without_rings_and_sent_with_them() {
        let kept = encode_sample(&json!({"at_ms": 1}));
        assert_eq!(&kept[..], br#",{"at_ms":1}"#);
        let event = sample_event(&kept, &json!([{"slots": 256}]));
        assert_eq!(&event[..], b"event: sample\ndata: {\"at_ms\":1,\"rings\":[{\"slots\":256}]}\n\n");
    }

    /// An event's data must be a single line, because a line break would end it.
    #[test]
    fn an_event_is_one_line() {
        let about = server_event(&json!({"webhooks": ["a\nb\r"]}));
        let lines: Vec<_> = about.split(|byte| *byte == b'\n').collect();
        assert_eq!(lines.len(), 5, "{about:?}");
        assert!(!about.contains(&b'\r'));
    }
}
