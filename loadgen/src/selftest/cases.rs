//! The table of runs and faults: what each run reports about the honest server, and about each faulty one.

use std::time::Duration;

use super::behaviour::{Behaviour, Delivery, HONEST, Opening};

/// A run of a scenario. It has the same options for every server.
#[derive(Debug)]
pub(super) struct SelfTestRun {
    /// Command line, with `URL` as a placeholder for the server's URL. The first word is the scenario.
    pub(super) words: &'static str,
    /// Assertions that hold for the honest server, separated by spaces.
    pub(super) honest_checks: &'static str,
    pub(super) faults: &'static [Fault],
}

/// A fault of the server that the run must report.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) description: &'static str,
    /// Assertions that must all hold for the faulty server, and must not all hold for the honest one.
    pub(super) checks: &'static str,
    pub(super) behaviour: Behaviour,
}

/// A table of faults, each with its description, its checks, and the field in which the server differs from the
/// honest one.
macro_rules! faults {
    ($($description:literal, $checks:literal, $field:ident: $value:expr;)*) => {
        &[$(Fault {
            description: $description,
            checks: $checks,
            behaviour: Behaviour { $field: $value, ..HONEST },
        }),*]
    };
}

const MASKED: &[u8] = b"\x81\x82\0\0\0\0{}";
/// Ping frame with a payload of 126 bytes, one more than allowed.
const LONG_PING: [u8; 4 + 126] = {
    let mut frame = [0; 4 + 126];
    (frame[0], frame[1], frame[3]) = (0x89, 126, 126);
    frame
};
/// Close frame with the code 1006, which means that there was no Close frame.
const FORBIDDEN_CODE: &[u8] = b"\x88\x02\x03\xEE";
/// Text whose first fragment ends after the first byte of a two-byte character.
const HALF_A_CHARACTER: &[u8] = b"\x01\x02\"\xC3\x80\x01\"";
const TERABYTE: &[u8] = b"\x81\x7F\0\0\x01\0\0\0\0\0{}";

const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// All faults, each in at least one run.
pub(super) static RUNS: &[SelfTestRun] = &[
    SelfTestRun {
        words: "hold URL --connections 5 --rate 200 --duration 1s",
        honest_checks: "connected==5 errors==0 unexpected_closes==0 pings>=10 pings_early==0 \
                        ping_lateness_ms.p50<150 connect_ms.p50<300",
        faults: faults! {
            "sends the hello 500 ms late", "connect_ms.p50>=490 errors==0", hello_delay: millis(500);
            "closes clients that answer", "unexpected_closes==5", accepts_pongs: false;
            "pings 50 ms early", "pings_early>=5 unexpected_closes==0", ping_interval: Some(millis(100));
            "pings 200 ms late", "ping_lateness_ms.p50>=200 pings_early==0", ping_interval: Some(millis(350));
            "never pings", "pings==0 unexpected_closes==0", ping_interval: None;
            "answers the upgrade with a wrong key", "error_kinds.upgrade==5 connected==0",
                opening: Opening::WrongAcceptKey;
            "sends an invalid frame instead of the hello", "error_kinds.frame_masked==5",
                bytes_for_hello: Some(MASKED);
            "sends a frame with a reserved bit set", "frame_faults.reserved_bits==5",
                bytes_for_ping: Some(b"\xC1\x02{}");
            "sends a frame with an unknown opcode", "frame_faults.unknown_opcode==5",
                bytes_for_ping: Some(b"\x83\x02{}");
            "sends a masked frame", "frame_faults.masked==5 close_codes.1002==5", bytes_for_ping: Some(MASKED);
            "encodes a length in more bytes than needed", "frame_faults.length_form==5",
                bytes_for_ping: Some(b"\x81\x7E\0\x02{}");
            "sends a length with its highest bit set", "frame_faults.length_form==5",
                bytes_for_ping: Some(b"\x81\x7F\x80\0\0\0\0\0\0\x02{}");
            "sends a ping in fragments", "frame_faults.fragmented_control==5",
                bytes_for_ping: Some(b"\x09\x01x\x80\x01x");
            "sends a ping of 126 bytes", "frame_faults.long_control==5", bytes_for_ping: Some(&LONG_PING);
            "continues a message that was never begun", "frame_faults.nothing_to_continue==5",
                bytes_for_ping: Some(b"\x80\x02{}");
            "begins a message within another", "frame_faults.message_within_message==5",
                bytes_for_ping: Some(b"\x01\x01{\x81\x02{}");
            "closes with half a close code", "frame_faults.half_a_close_code==5",
                bytes_for_ping: Some(b"\x88\x01\x03");
            "closes with a forbidden code", "frame_faults.close_code==5", bytes_for_ping: Some(FORBIDDEN_CODE);
            "sends text that is not UTF-8", "frame_faults.not_utf8==5 close_codes.1007==5",
                bytes_for_ping: Some(b"\x81\x04\"\xC3\x28\"");
            "sends text that is not UTF-8, in fragments", "frame_faults.not_utf8==5",
                bytes_for_ping: Some(HALF_A_CHARACTER);
            "announces a message of a terabyte", "frame_faults.too_big==5 close_codes.1009==5",
                bytes_for_ping: Some(TERABYTE);
        },
    },
    SelfTestRun {
        words: "mute URL --connections 5 --rate 200 --duration 2s",
        honest_checks: "errors==0 muted==5 closed==5 early==0 still_open==0 other_closes==0 \
                        close_codes.4000==5 lateness_ms.p50<300",
        faults: faults! {
            "closes before the pong deadline", "early==5 lateness_ms.count==0", pong_timeout: Some(millis(150));
            "closes 500 ms after the pong deadline", "lateness_ms.p50>=500 early==0",
                pong_timeout: Some(millis(850));
            "never closes a mute peer", "still_open==5 closed==0", pong_timeout: None;
            "closes a mute peer with a wrong code", "other_closes==5 close_codes.4001==5",
                code_for_silence: Some(4001);
            "disconnects a mute peer without a Close frame", "close_codes.1006==5 closed==5",
                code_for_silence: None;
        },
    },
    SelfTestRun {
        words: "mute URL --connections 5 --rate 200 --duration 2s --share 0.5",
        honest_checks: "errors==0 muted==2 closed==2 early==0 unexpected_closes==0 lateness_ms.p50<300",
        faults: faults! { "closes clients that answer", "unexpected_closes>=1 closed==2", accepts_pongs: false; },
    },
    SelfTestRun {
        words: "storm URL --connections 5 --rate 200 --duration 200ms",
        honest_checks: "errors==0 dropped==5 resumed==5 unexpected_closes==0",
        faults: faults! {
            "forgets sessions within their window", "error_kinds.not_recovered==5 resumed==0",
                remembers_sessions: false;
            "refuses every resume", "error_kinds.closed_4102==5 resumed==0",
                opening: Opening::CloseIfResuming(4102);
        },
    },
    SelfTestRun {
        words: "churn URL --rate 30 --duration 1s --lifetime fixed:1h",
        honest_checks: "errors==0 arrived>=10 skipped==0 unexpected_closes==0 connect_ms.p50<300",
        faults: faults! {
            "sends the hello 500 ms late", "connect_ms.p50>=490 errors==0", hello_delay: millis(500);
            "closes clients that answer", "unexpected_closes>=1 errors==0", accepts_pongs: false;
        },
    },
    // Every published message arrives exactly once, in order and unchanged, and nothing else arrives.
    SelfTestRun {
        words: "fanout URL --connections 5 --rate 1000 --messages 20 --publish-rate 100 --grace 1s",
        honest_checks: "errors==0 subscribed==5 published==20 received==100 lost==0 duplicated==0 misordered==0 \
                        foreign==0 corrupted==0 misnumbered==0 gaps==0 unexpected_closes==0 \
                        delivery_latency_ms.p50<300",
        faults: faults! {
            "loses a message", "lost==1 duplicated==0 misordered==0", delivery: Delivery::Lost;
            "delivers a message twice", "duplicated==1 lost==0 misordered==0", delivery: Delivery::Doubled;
            "misorders two messages", "misordered==1 lost==0 duplicated==0", delivery: Delivery::HeldBack;
            "changes a byte of a message", "corrupted==1 lost==1", delivery: Delivery::Changed;
            "delivers a message that was never published", "foreign==1 lost==0", delivery: Delivery::WithForeign;
            "drops a message and reports a gap", "gaps==1 gap_messages==1 lost==1", delivery: Delivery::Gap;
            "skips a seq", "misnumbered==1 lost==0", delivery: Delivery::SeqSkipped;
            "delivers 500 ms late", "delivery_latency_ms.p50>=390 lost==0", delivery_delay: millis(500);
        },
    },
    SelfTestRun {
        words: "fanout URL --connections 5 --rate 1000 --messages 20 --publish-rate 40 --cut-after 300ms --grace 1s",
        honest_checks: "errors==0 subscribed==5 published==20 received==100 lost==0 duplicated==0 misordered==0 \
                        foreign==0 corrupted==0 misnumbered==0 gaps==0 unexpected_closes==0 \
                        resumed==5 not_recovered==0",
        faults: faults! {
            "loses a message at each resume", "lost==5 resumed==5", resume_error: 1;
            "repeats a message at each resume", "duplicated==5 lost==0", resume_error: -1;
            "sends a wrong seq in the hello of a resumed session", "misnumbered==5 lost==0", hello_seq_error: 1;
            "forgets sessions within their window", "not_recovered==5 resumed==0", remembers_sessions: false;
        },
    },
];

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use tokio_tungstenite::tungstenite::error::CapacityError;
    use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
    use tokio_tungstenite::tungstenite::{Error, WebSocket};

    use super::RUNS;

    /// Faults that a general-purpose library accepts: lengths in any form, and an invalid close code, which it
    /// answers with 1002.
    const ACCEPTED_BY_LIBRARY: [&str; 2] =
        ["encodes a length in more bytes than needed", "closes with a forbidden code"];

    /// Checks the frames with another WebSocket client.
    #[test]
    fn a_library_rejects_the_frames_too() {
        let faults = RUNS.iter().flat_map(|run| run.faults);
        let mut count = 0;
        for fault in faults.filter(|fault| !ACCEPTED_BY_LIBRARY.contains(&fault.description)) {
            let Some(bytes) = fault.behaviour.bytes_for_ping else { continue };
            let config =
                WebSocketConfig::default().max_message_size(Some(1 << 20)).max_frame_size(Some(1 << 20));
            let stream = Cursor::new(bytes.to_vec());
            let mut client = WebSocket::from_raw_socket(stream, Role::Client, Some(config));
            let error = (0..3).find_map(|_| client.read().err()).expect("the bytes run out");
            let is_rejected = matches!(
                &error,
                Error::Protocol(_) | Error::Utf8(_) | Error::Capacity(CapacityError::MessageTooLong { .. })
            );
            assert!(is_rejected, "{}: {error:?}", fault.description);
            count += 1;
        }
        assert!(count >= 12);
    }
}
