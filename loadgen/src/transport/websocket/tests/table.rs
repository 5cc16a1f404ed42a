//! Tests of single frames and short streams.

use super::super::head::Opcode;
use super::super::writer::{write_close, write_masked};
use super::*;

fn text(text: &str) -> Incoming<'_> {
    Incoming::Text(text.into())
}

#[test]
fn the_examples_of_the_rfc() {
    let (ping, pong) = (b"\x89\x05Hello", b"\x8a\x05Hello");
    let big = frame(0x82, &[7; 65_536]);
    assert_eq!(big[..10], [0x82, 0x7F, 0, 0, 0, 0, 0, 1, 0, 0]);
    for (bytes, expected) in [
        (&b"\x81\x05Hello"[..], text("Hello")),
        (b"\x01\x03Hel\x80\x02lo", text("Hello")),
        (ping, Incoming::Ping(b"Hello".into())),
        (pong, Incoming::Pong(b"Hello".into())),
        (&frame(0x82, &[7; 256]), Incoming::Binary(vec![7; 256].into())),
        (&big, Incoming::Binary(vec![7; 65_536].into())),
        (b"\x88\x00", Incoming::Close(None)),
        (b"\x88\x06\x0f\xa0slow", Incoming::Close(Some(4000))),
        (b"\x81\x00", text("")),
        (b"\x01\x00\x00\x00\x80\x00", text("")),
    ] {
        assert_eq!(read(&[bytes]), (vec![expected.clone()], None));
        let bytewise: Vec<_> = bytes.chunks(1).collect();
        assert_eq!(read(&bytewise), (vec![expected], None));
    }
}

#[test]
fn control_frames_may_come_between_fragments() {
    let stream = b"\x01\x03Hel\x89\x01a\x00\x01l\x8a\x00\x80\x01o\x81\x01x";
    let expected = vec![Incoming::Ping(b"a".into()), Incoming::Pong(b"".into()), text("Hello"), text("x")];
    assert_eq!(read(&[stream]), (expected, None));
}

#[test]
fn a_character_may_be_split_over_fragments_but_not_truncated() {
    assert_eq!(read(&[b"\x01\x01\xc3\x80\x01\xa9"]).0, vec![text("é")]);
    assert_eq!(read(&[b"\x81\x01\xc3"]).1, Some(ProtocolFault::NotUtf8));
    assert_eq!(read(&[b"\x01\x01\xc3\x80\x01x"]).1, Some(ProtocolFault::NotUtf8));
}

#[test]
fn only_the_shortest_form_of_a_length_is_accepted() {
    for length in [0, 1, 125, 126, 127, 65_535, 65_536, 70_000] {
        let payload = vec![b'x'; length];
        for form in [0, 2, 8] {
            let fits = match form {
                0 => length <= 125,
                2 => (126..=65_535).contains(&length),
                _ => length >= 65_536,
            };
            if (form == 0 && length > 125) || (form == 2 && length > 65_535) {
                continue;
            }
            let (all, fault) = read(&[&frame_in_form(0x82, &payload, form)]);
            let expected = if fits { (1, None) } else { (0, Some(ProtocolFault::LengthForm)) };
            assert_eq!((all.len(), fault), expected, "{length} in {form}");
        }
    }
}

#[test]
fn violations_are_distinguished() {
    let huge = frame_in_form(0x82, &[], 8).len();
    assert_eq!(huge, 10);
    for (bytes, fault) in [
        (&b"\xc1\x00"[..], ProtocolFault::ReservedBits(0b100)),
        (b"\xb1\x00", ProtocolFault::ReservedBits(0b011)),
        (b"\x83\x00", ProtocolFault::UnknownOpcode(3)),
        (b"\x8f\x00", ProtocolFault::UnknownOpcode(15)),
        (b"\x81\x80\0\0\0\0", ProtocolFault::Masked),
        (b"\x09\x00", ProtocolFault::FragmentedControl),
        (b"\x08\x00", ProtocolFault::FragmentedControl),
        (b"\x89\x7e\x00\x7e", ProtocolFault::LongControl(126)),
        (b"\x80\x00", ProtocolFault::NothingToContinue),
        (b"\x00\x00", ProtocolFault::NothingToContinue),
        (b"\x01\x00\x81\x00", ProtocolFault::MessageWithinMessage),
        (b"\x01\x00\x02\x00", ProtocolFault::MessageWithinMessage),
        (b"\x88\x01\x03", ProtocolFault::HalfACloseCode),
        (b"\x88\x02\x03\xed", ProtocolFault::CloseCode(1005)),
        (b"\x88\x02\x03\xee", ProtocolFault::CloseCode(1006)),
        (b"\x88\x02\x00\x00", ProtocolFault::CloseCode(0)),
        (b"\x88\x02\x03\xf7", ProtocolFault::CloseCode(1015)),
        (b"\x88\x02\x13\x88", ProtocolFault::CloseCode(5000)),
        (b"\x88\x03\x03\xe8\xff", ProtocolFault::NotUtf8),
        (b"\x81\x7f\x80\0\0\0\0\0\0\0", ProtocolFault::LengthForm),
        (b"\x82\x7f\x7f\xff\xff\xff\xff\xff\xff\xff", ProtocolFault::TooBig(0x7FFF_FFFF_FFFF_FFFF)),
        (b"\x82\x7f\0\0\0\0\0\x01\x86\xa1", ProtocolFault::TooBig(100_001)),
    ] {
        assert_eq!(read(&[bytes]), (vec![], Some(fault)), "{bytes:x?}");
        let bytewise: Vec<_> = bytes.chunks(1).collect();
        assert_eq!(read(&bytewise), (vec![], Some(fault)), "{bytes:x?}, byte by byte");
        assert!(!fault.to_string().is_empty());
    }
}

#[test]
fn a_fragmented_message_has_a_limit() {
    let mut stream = frame(0x02, &vec![0; 60_000]);
    stream.extend(frame(0x00, &vec![0; 40_000]));
    assert_eq!(read(&[&stream]), (vec![], None), "up to the limit");
    stream.extend(frame(0x00, &[0]));
    assert_eq!(read(&[&stream]).1, Some(ProtocolFault::TooBig(100_001)));
}

#[test]
fn faults_have_close_codes() {
    for (fault, code) in
        [(ProtocolFault::NotUtf8, 1007), (ProtocolFault::TooBig(1), 1009), (ProtocolFault::Masked, 1002)]
    {
        assert_eq!(fault.close_code(), code);
    }
}

#[test]
fn frames_are_written_masked_and_short() {
    let mut out = Vec::new();
    write_masked(&mut out, Opcode::Text, b"Hello", [0x37, 0xFA, 0x21, 0x3D]);
    assert_eq!(out, b"\x81\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58", "example from the RFC");
    for (length, head) in [
        (125, &[0x82, 0x80 | 125][..]),
        (126, &[0x82, 0xFE, 0, 126]),
        (65_535, &[0x82, 0xFE, 0xFF, 0xFF]),
        (65_536, &[0x82, 0xFF, 0, 0, 0, 0, 0, 1, 0, 0]),
    ] {
        let mut out = Vec::new();
        write_masked(&mut out, Opcode::Binary, &vec![0; length], [1, 2, 3, 4]);
        assert_eq!(&out[..head.len()], head);
        assert_eq!(out.len(), head.len() + 4 + length);
        assert_eq!(out[head.len() + 4..][..5], [1, 2, 3, 4, 1]);
    }
    let mut out = Vec::new();
    write_close(&mut out, Some(1000));
    write_close(&mut out, None);
    assert_eq!((out[0], out[1], out[8], out[9], out.len()), (0x88, 0x82, 0x88, 0x80, 14));
}
