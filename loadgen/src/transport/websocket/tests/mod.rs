mod random;
mod table;
mod with_socket;

use super::fault::ProtocolFault;
use super::reader::{FrameReader, Incoming};

const LIMIT: u32 = 100_000;

/// Reads everything in these pieces. Returns the items, and the fault that ends the stream, if any.
fn read(pieces: &[&[u8]]) -> (Vec<Incoming<'static>>, Option<ProtocolFault>) {
    let mut reader = FrameReader::new(LIMIT);
    let mut all = Vec::new();
    for mut piece in pieces.iter().copied() {
        loop {
            match reader.next(&mut piece) {
                Ok(Some(incoming)) => all.push(owned(incoming)),
                Ok(None) => break,
                Err(fault) => return (all, Some(fault)),
            }
        }
        assert!(piece.is_empty(), "None means that all input was consumed");
    }
    (all, None)
}

fn owned(incoming: Incoming<'_>) -> Incoming<'static> {
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
    let mut frame = vec![first];
    frame.push(match form {
        0 => length[7],
        2 => 126,
        _ => 127,
    });
    frame.extend_from_slice(&length[8 - form..]);
    frame.extend_from_slice(payload);
    frame
}

/// Returns a server's frame whose length is in the shortest form.
fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let form = match payload.len() {
        0..=125 => 0,
        126..=0xFFFF => 2,
        _ => 8,
    };
    frame_in_form(first, payload, form)
}
