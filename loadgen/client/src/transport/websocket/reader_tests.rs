//! Tests of frames and streams of frames.
//!
//! `ENCKE_SEED=<n>` runs one seed. Without it, a fixed range of seeds and one fresh seed are used.

use encke_seeds::with_seeds;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::end::ProtocolFault;
use super::frame::{Opcode, write_close, write_masked};
use super::reader::{Incoming, next};

const LIMIT: u32 = 100_000;

/// Reads everything in these pieces. Returns the items, and the fault that ends the stream, if any.
fn read<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> (Vec<Incoming<'static>>, Option<ProtocolFault>) {
    let (mut fragments, mut unparsed, mut all) = (None, Vec::new(), Vec::new());
    for piece in pieces {
        unparsed.extend_from_slice(piece);
        let mut rest = unparsed.as_slice();
        loop {
            match next(&mut fragments, &mut rest, LIMIT) {
                Ok(Some(incoming)) => all.push(owned(incoming)),
                Ok(None) => break,
                Err(fault) => return (all, Some(fault)),
            }
        }
        unparsed = rest.to_vec();
    }
    (all, None)
}

pub(super) fn owned(incoming: Incoming<'_>) -> Incoming<'static> {
    match incoming {
        Incoming::Text(text) => Incoming::Text(text.into_owned().into()),
        Incoming::Binary(bytes) => Incoming::Binary(bytes.into_owned().into()),
        Incoming::Ping(bytes) => Incoming::Ping(bytes.into_owned().into()),
        Incoming::Pong(bytes) => Incoming::Pong(bytes.into_owned().into()),
        Incoming::Close(code) => Incoming::Close(code),
    }
}

/// Returns a server's frame whose length is encoded in `form` extended bytes: 0, 2 or 8.
fn frame_in_form(first: u8, payload: &[u8], form: usize) -> Vec<u8> {
    let length = (payload.len() as u64).to_be_bytes();
    let short = match form {
        0 => length[7],
        2 => 126,
        _ => 127,
    };
    [&[first, short], &length[8 - form..], payload].concat()
}

/// Returns a server's frame whose length is in the shortest form.
pub(super) fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let form = match payload.len() {
        0..=125 => 0,
        126..=0xFFFF => 2,
        _ => 8,
    };
    frame_in_form(first, payload, form)
}

#[test]
fn items_are_read() {
    let text = |text: &str| Incoming::Text(text.to_owned().into());
    let binary = |length| (frame(0x82, &vec![7; length]), Incoming::Binary(vec![7; length].into()));
    let examples = [
        (&b"\x81\x05Hello"[..], text("Hello")),
        (b"\x01\x03Hel\x80\x02lo", text("Hello")),
        (b"\x89\x05Hello", Incoming::Ping(b"Hello".into())),
        (b"\x8a\x05Hello", Incoming::Pong(b"Hello".into())),
        (b"\x88\x00", Incoming::Close(None)),
        (b"\x88\x06\x0f\xa0slow", Incoming::Close(Some(4000))),
        (b"\x81\x00", text("")),
        (b"\x01\x00\x00\x00\x80\x00", text("")),
        (b"\x01\x01\xc3\x80\x01\xa9", text("é")),
    ];
    let examples = examples.map(|(bytes, expected)| (bytes.to_vec(), expected));
    for (bytes, expected) in examples.into_iter().chain([0, 125, 126, 256, 65_535, 65_536].map(binary)) {
        assert_eq!(read([&*bytes]), (vec![expected.clone()], None));
        assert_eq!(read(bytes.chunks(1000)), (vec![expected], None));
    }
}

#[test]
fn violations_are_distinguished() {
    let violations = [
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
        (b"\x81\x01\xc3", ProtocolFault::NotUtf8),
        (b"\x01\x01\xc3\x80\x01x", ProtocolFault::NotUtf8),
        (b"\x81\x7f\x80\0\0\0\0\0\0\0", ProtocolFault::LengthForm),
        (b"\x82\x7f\x7f\xff\xff\xff\xff\xff\xff\xff", ProtocolFault::TooBig(0x7FFF_FFFF_FFFF_FFFF)),
        (b"\x82\x7f\0\0\0\0\0\x01\x86\xa1", ProtocolFault::TooBig(100_001)),
    ];
    let long_forms = [(0, 2), (125, 2), (125, 8), (126, 8), (65_535, 8)];
    let long_forms = long_forms
        .map(|(length, form)| (frame_in_form(0x82, &vec![b'x'; length], form), ProtocolFault::LengthForm));
    let violations = violations.into_iter().map(|(bytes, fault)| (bytes.to_vec(), fault));
    for (bytes, fault) in violations.chain(long_forms) {
        assert_eq!(read([&*bytes]), (vec![], Some(fault)), "{bytes:x?}");
        assert_eq!(read(bytes.chunks(1)), (vec![], Some(fault)), "{bytes:x?}, byte by byte");
    }
}

#[test]
fn a_fragmented_message_has_a_limit() {
    let within = [frame(0x02, &vec![0; 60_000]), frame(0x00, &vec![0; 40_000])].concat();
    assert_eq!(read([&*within]), (vec![], None), "up to the limit");
    let fault = read([&*within, &frame(0x00, &[0])]).1;
    assert_eq!(fault, Some(ProtocolFault::TooBig(100_001)));
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
        let (written, masked) = out.split_at(head.len());
        assert_eq!((written, masked.len(), &masked[4..9]), (head, 4 + length, &[1, 2, 3, 4, 1][..]));
    }
    let mut out = Vec::new();
    write_close(&mut out, Some(1000));
    write_close(&mut out, None);
    assert_eq!((out[0], out[1], out[8], out[9], out.len()), (0x88, 0x82, 0x88, 0x80, 14));
}

/// Damages streams, and checks that the pieces in which they arrive do not matter.
#[test]
fn streams_may_be_split_anywhere() {
    let long = [frame(0x01, "é".repeat(2_000).as_bytes()), frame(0x80, &[b'x'; 300])].concat();
    let frames = [&b"\x81\x03\xc3\xa9x"[..], b"\x89\x01a", b"\x02\x02ab", b"\x00\x01c", b"\x80\x00", &long];
    with_seeds(0..100, |seed| {
        let rng = &mut SmallRng::seed_from_u64(seed);
        let picks = (0..rng.random_range(1..20)).flat_map(|_| frames[rng.random_range(0..frames.len())]);
        let mut bytes: Vec<u8> = picks.copied().collect();
        for _ in 0..rng.random_range(0..5) {
            let at = rng.random_range(0..bytes.len());
            bytes[at] = rng.random();
        }
        let (mut pieces, mut rest) = (Vec::new(), &bytes[..]);
        while !rest.is_empty() {
            let (piece, after) = rest.split_at(rng.random_range(1..=rest.len().min(700)));
            (rest, _) = (after, pieces.push(piece));
        }
        assert!(read([&*bytes]) == read(pieces), "the result is the same in pieces");
    });
}
