use encke_seeds::with_seeds;
use rand::rngs::SmallRng;
use rand::{Rng, RngExt, SeedableRng};

use super::*;

const MAX_MESSAGE: usize = 70_000;

fn masked(first: u8, payload: &[u8]) -> Vec<u8> {
    let mask = [1, 2, 3, 4];
    let mut frame = vec![first];
    match payload.len() {
        length @ 0..=125 => frame.push(MASKED | u8::try_from(length).expect("it is short")),
        length @ 126..=65_535 => {
            frame.push(MASKED | 126);
            frame.extend(u16::try_from(length).expect("it is short").to_be_bytes());
        }
        length => {
            frame.push(MASKED | 127);
            frame.extend((length as u64).to_be_bytes());
        }
    }
    frame.extend(mask);
    frame.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    frame
}

/// Decodes the only frame in `bytes`.
fn decoded(bytes: &mut [u8]) -> Result<Option<(ClientFrame<'_>, usize)>, FrameError> {
    decode(bytes, &mut Fragments::default(), MAX_MESSAGE)
}

#[test]
fn payloads_of_every_length_are_unmasked() {
    for length in [0, 1, 3, 4, 125, 126, 65_535, 65_536] {
        let text: String = ('a'..='z').cycle().take(length).collect();
        let mut bytes = [masked(FINAL | TEXT, text.as_bytes()), vec![0x81]].concat();
        let whole = bytes.len() - 1;
        assert_eq!(decoded(&mut bytes), Ok(Some((ClientFrame::Text(text.into()), whole))));
    }
}

#[test]
fn an_incomplete_frame_is_not_decoded() {
    for length in [0, 1, 125, 126, 65_536] {
        let bytes = masked(FINAL | TEXT, &vec![b' '; length]);
        for end in (0..bytes.len().min(20)).chain([bytes.len() - 1]) {
            assert_eq!(decoded(&mut bytes[..end].to_vec()), Ok(None), "{end} of {length}");
        }
    }
}

#[test]
fn fragments_form_one_message() {
    let mut fragments = Fragments::default();
    for (first, payload, expected) in [
        (TEXT, "a", ClientFrame::Fragment),
        (CONTINUATION, "", ClientFrame::Fragment),
        (FINAL | PING, "now", ClientFrame::Ping(b"now")),
        (FINAL | CONTINUATION, "b", ClientFrame::Text("ab".into())),
        (BINARY, "a", ClientFrame::Fragment),
        (FINAL | CONTINUATION, "b", ClientFrame::Binary),
    ] {
        let mut bytes = masked(first, payload.as_bytes());
        let frame = decode(&mut bytes, &mut fragments, MAX_MESSAGE).expect("a valid frame");
        assert_eq!(frame.map(|(frame, _)| frame), Some(expected));
    }
    assert!(fragments.is_empty() && fragments.capacity() == 0, "the memory is freed");
}

/// The headers alone are enough to reject these frames.
#[test]
fn unacceptable_headers_are_rejected() {
    let protocol_error = |bytes: &mut [u8]| matches!(decoded(bytes), Err(FrameError::Protocol(_)));
    for first in [0xC1, 0xA1, 0x91, 0x83, 0x87, 0x8B, 0x8F, 0x09, 0x08, 0x80, 0x00] {
        assert!(protocol_error(&mut [first, MASKED, 1, 2, 3, 4]), "{first:#x}");
    }
    assert!(protocol_error(&mut [0x81, 0]), "not masked");
    assert!(protocol_error(&mut [0x89, MASKED | 126, 0, 126, 1, 2, 3, 4]), "a long ping");
    let mut huge = [0x81, MASKED | 127, 0x40, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4];
    assert_eq!(decoded(&mut huge), Err(FrameError::TooBig));
    let mut fragments = Fragments::default();
    for (mut bytes, expected) in [
        (masked(TEXT, &[b' '; 5]), Ok(Some((ClientFrame::Fragment, 11)))),
        (masked(FINAL | TEXT, b""), Err(FrameError::Protocol("a message begins within another message"))),
        (masked(FINAL | CONTINUATION, &[b' '; 6]), Err(FrameError::TooBig)),
    ] {
        assert_eq!(decode(&mut bytes, &mut fragments, 10), expected);
    }
}

#[test]
fn text_must_be_utf8() {
    assert_eq!(decoded(&mut masked(FINAL | TEXT, &[0xC3, 0x28])), Err(FrameError::InvalidUtf8));
    let mut fragments = Fragments::default();
    // The two bytes of a character may be in different fragments.
    for (second, expected) in
        [(0xA4, Ok(Some((ClientFrame::Text("ä".into()), 7)))), (0x28, Err(FrameError::InvalidUtf8))]
    {
        decode(&mut masked(TEXT, &[0xC3]), &mut fragments, 10).expect("a fragment");
        assert_eq!(decode(&mut masked(FINAL | CONTINUATION, &[second]), &mut fragments, 10), expected);
        fragments = Fragments::default();
    }
    let mut bytes = masked(TEXT, &[0xC3, 0x28]);
    let invalid = decode(&mut bytes, &mut fragments, 10);
    assert_eq!(invalid, Err(FrameError::InvalidUtf8), "no later fragment can make it valid");
}

#[test]
fn close_frames_are_answered_with_their_code() {
    for (payload, expected) in [
        (&b""[..], Ok(None)),
        (b"\x03\xE8", Ok(Some(1000))),
        (b"\x03\xE9bye", Ok(Some(1001))),
        (b"\x0F\xA0", Ok(Some(4000))),
        (b"\x03", Err(FrameError::Protocol("half a close code"))),
        (b"\x03\xF4", Ok(Some(1012))),
        (b"\x03\xF6", Ok(Some(1014))),
        (b"\x03\xF7", Ok(Some(1002))),
        (b"\x03\xED", Ok(Some(1002))),
        (b"\x03\xE7", Ok(Some(1002))),
        (b"\x03\xE8\xFF", Err(FrameError::InvalidUtf8)),
    ] {
        let mut bytes = masked(FINAL | CLOSE, payload);
        let length = bytes.len();
        assert_eq!(decoded(&mut bytes), expected.map(|code| Some((ClientFrame::Close(code), length))));
    }
}

#[test]
fn a_lone_pong_is_a_pong_and_nothing_else() {
    let pong = [0x8A, 0x88, 1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 5];
    assert_eq!(lone_pong(&pong), Some([0, 0, 0, 0, 0, 0, 0, 1]));
    assert_eq!(lone_pong::<7>(&pong), None);
    for length in 0..pong.len() {
        assert_eq!(lone_pong::<8>(&pong[..length]), None, "only {length} bytes");
    }
    assert_eq!(lone_pong::<8>(&[&pong[..], &[0x81]].concat()), None, "another frame begins");
    for (at, byte) in [(0, 0x89), (0, 0x0A), (0, 0xCA), (1, 0x08), (1, 0x87), (1, 0x89)] {
        let mut other = pong;
        other[at] = byte;
        assert_eq!(lone_pong::<8>(&other), None, "byte {at} is {byte:#x}");
    }
}

/// Arbitrary bytes never panic, and a decoded frame is within its bytes.
#[test]
fn random_bytes_are_decoded_or_rejected() {
    with_seeds(0..20, |seed| {
        let mut rng = SmallRng::seed_from_u64(seed);
        for _ in 0..2_000 {
            let mut bytes = vec![0; rng.random_range(0..40)];
            rng.fill_bytes(&mut bytes);
            let length = bytes.len();
            if let Ok(Some((_, used))) = decoded(&mut bytes) {
                assert!((2..=length).contains(&used));
            }
        }
    });
}
