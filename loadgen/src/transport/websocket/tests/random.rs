//! Tests with random streams, split at random, and with random bytes.
//!
//! `ENCKE_SEED=<n>` runs one seed. Without it, a fixed range of seeds and one fresh seed are used.

use encke_seeds::with_seeds;
use rand::rngs::SmallRng;
use rand::{Rng, RngExt, SeedableRng};

use super::*;

/// Returns the bytes of a valid stream, and the items that it contains.
fn good_stream(rng: &mut SmallRng) -> (Vec<u8>, Vec<Incoming<'static>>) {
    let (mut bytes, mut all) = (Vec::new(), Vec::new());
    for _ in 0..rng.random_range(1..20) {
        match rng.random_range(0..10) {
            0..2 => push_control(rng, &mut bytes, &mut all),
            2..8 => push_message(rng, 1, &mut bytes, &mut all),
            _ => {
                let fragments = rng.random_range(2..6);
                push_message(rng, fragments, &mut bytes, &mut all);
            }
        }
    }
    (bytes, all)
}

fn push_control(rng: &mut SmallRng, bytes: &mut Vec<u8>, all: &mut Vec<Incoming<'static>>) {
    let mut payload = vec![0; rng.random_range(0..=125)];
    rng.fill_bytes(&mut payload);
    let is_ping = rng.random();
    bytes.extend(frame(if is_ping { 0x89 } else { 0x8A }, &payload));
    all.push(if is_ping { Incoming::Ping(payload.into()) } else { Incoming::Pong(payload.into()) });
}

fn push_message(rng: &mut SmallRng, fragments: usize, bytes: &mut Vec<u8>, all: &mut Vec<Incoming<'static>>) {
    let longest = *[10, 200, 70_000].get(rng.random_range(0..3)).expect("the index is below 3");
    let length = rng.random_range(0..=longest);
    let text: String = (0..length / 2).map(|_| if rng.random() { 'x' } else { 'é' }).collect();
    let is_text: bool = rng.random();
    let mut rest = text.as_bytes();
    for index in 0..fragments {
        let is_last = index + 1 == fragments;
        let (now, later) = rest.split_at(if is_last { rest.len() } else { rng.random_range(0..=rest.len()) });
        let opcode = match (index, is_text) {
            (0, true) => 1,
            (0, false) => 2,
            _ => 0,
        };
        bytes.extend(frame(opcode | if is_last { 0x80 } else { 0 }, now));
        rest = later;
        if !is_last && rng.random_bool(0.3) {
            push_control(rng, bytes, all);
        }
    }
    all.push(if is_text { Incoming::Text(text.into()) } else { Incoming::Binary(text.into_bytes().into()) });
}

/// Splits the bytes into pieces of up to `longest` bytes.
fn cut<'a>(rng: &mut SmallRng, mut bytes: &'a [u8], longest: usize) -> Vec<&'a [u8]> {
    let mut pieces = Vec::new();
    while !bytes.is_empty() {
        let (piece, rest) = bytes.split_at(rng.random_range(1..=longest.min(bytes.len())));
        pieces.push(piece);
        bytes = rest;
    }
    pieces
}

#[test]
fn splitting_a_stream_does_not_change_its_contents() {
    with_seeds(0..30, |seed| {
        let rng = &mut SmallRng::seed_from_u64(seed);
        let (bytes, all) = good_stream(rng);
        for longest in [1, 3, 100, 5_000, usize::MAX] {
            let (read, fault) = read(&cut(rng, &bytes, longest));
            assert_eq!(fault, None);
            assert!(read == all, "in pieces of up to {longest}");
        }
    });
}

/// Splits a stream at every possible position.
#[test]
fn a_stream_may_be_split_anywhere() {
    let stream = b"\x01\x03Hel\x89\x01a\x80\x02lo\x82\x7e\x00\x7e".iter().copied().chain([7; 126]);
    let stream: Vec<u8> = stream.chain(*b"\x88\x02\x03\xe8").collect();
    let whole = read(&[&stream]);
    for at in 0..=stream.len() {
        assert_eq!(read(&[&stream[..at], &stream[at..]]), whole, "cut at {at}");
    }
}

#[test]
fn random_input_causes_no_panic_and_no_growth() {
    with_seeds(0..100, |seed| {
        let rng = &mut SmallRng::seed_from_u64(seed);
        let mut bytes = if rng.random() { good_stream(rng).0 } else { vec![0; rng.random_range(0..300)] };
        if bytes.len() < 300 && rng.random() {
            rng.fill_bytes(&mut bytes);
        }
        for _ in 0..rng.random_range(1..5) {
            if let Some(byte) =
                rng.random_range(0..=bytes.len()).checked_sub(1).and_then(|at| bytes.get_mut(at))
            {
                *byte = rng.random();
            }
        }
        let whole = read(&[&bytes]);
        let (pieces, fault) = read(&cut(rng, &bytes, 7));
        assert!(whole == (pieces, fault), "the result is the same in pieces");
        let mut reader = FrameReader::new(1_000);
        let mut input = &bytes[..];
        while let Ok(Some(_)) = reader.next(&mut input) {}
        assert!(reader.buffered_bytes() <= 2 * (1_000 + 10), "{}", reader.buffered_bytes());
    });
}

#[test]
fn memory_is_freed_when_a_frame_is_complete() {
    let mut reader = FrameReader::new(LIMIT);
    let stream = frame(0x81, &[b'x'; 5_000]);
    let mut input = &stream[..3_000];
    assert_eq!(reader.next(&mut input), Ok(None));
    assert!(reader.buffered_bytes() >= 3_000);
    let mut input = &stream[3_000..];
    assert!(matches!(reader.next(&mut input), Ok(Some(Incoming::Text(_)))));
    assert_eq!(reader.buffered_bytes(), 0);
}
